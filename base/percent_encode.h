// Text as a part of a URI (RFC 3986, 2.1).
#pragma once

#include <string>
#include <string_view>

namespace swarm {

/// Every byte but letters, digits, '-', '.', '_' and '~' as %XX. `keep_slash`: '/' stays, as in a
/// path.
std::string PercentEncode(std::string_view text, bool keep_slash = false);

}  // namespace swarm

// The part of XML that the answers of S3 and STS need: elements by name, without attributes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace swarm::storage::s3 {

/// The contents of all elements <tag>...</tag>, in order, not unescaped. Does not find an element
/// within one of the same name.
std::vector<std::string_view> FindElements(std::string_view xml, std::string_view tag);

/// The text of the first such element, unescaped; empty when there is none.
std::string FindText(std::string_view xml, std::string_view tag);

/// &amp; &lt; &gt; &quot; &apos; and numbers below 128 as characters; all other text unchanged.
std::string UnescapeXml(std::string_view text);
/// The reverse, for text and attributes.
std::string EscapeXml(std::string_view text);

}  // namespace swarm::storage::s3

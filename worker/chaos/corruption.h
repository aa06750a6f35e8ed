// Workers whose gradients are wrong by a bit, as those of a chip that errs silently. For
// experiments and tests (`swarmctl run --chaos`, "corrupt worker-2 at backward of step 5").
//
// The file of fault_rules.h has them, one a line: `corrupt WORKER`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace swarm::chaos {

std::string FormatCorrupt(const std::vector<std::string>& workers);
/// The workers among the lines of `text`; others are those of fault_rules.h and holds.h. Errors:
/// kInvalidArgument names the line.
Result<std::vector<std::string>> ParseCorrupt(std::string_view text);

/// Whether the file has the worker now. A file that cannot be read has none.
bool IsCorrupt(const std::string& rules_file, const std::string& worker);

}  // namespace swarm::chaos

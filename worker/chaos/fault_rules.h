// Which connections of a job are disturbed, and how. Written by swarmctl, read by the programs
// (faulty_endpoint.h). Values only.
//
// As text, one rule a line: `cut FROM TO` or `delay FROM TO MILLISECONDS`, where FROM and TO are
// ids ("worker-3", "trainer") or `*`, which matches all ids but observers: they only look at a job
// and take no part in the experiment. Lines that begin with `hold` are holds.h's,
// those with `corrupt` corruption.h's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "worker/protocol/ids.h"

namespace swarm::chaos {

/// Applies to messages in one direction.
struct FaultRule {
  std::string from;
  std::string to;
  std::optional<Duration> delay;  ///< none: a cut
  bool operator==(const FaultRule&) const = default;
};
using FaultRules = std::vector<FaultRule>;

/// Whether nothing passes between the two in this direction.
bool IsCut(const FaultRules& rules, const protocol::WorkerId& from, const protocol::WorkerId& to);
/// How much later messages arrive in this direction: the sum of the rules.
Duration DelayOf(const FaultRules& rules, const protocol::WorkerId& from,
                 const protocol::WorkerId& to);

std::string FormatFaultRules(const FaultRules& rules);
/// Errors: kInvalidArgument names the line.
Result<FaultRules> ParseFaultRules(std::string_view text);

}  // namespace swarm::chaos

// What a page shows of a running job, beside its curves. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/prices.h"
#include "worker/protocol/coordinator/member_details.h"
#include "worker/protocol/messages/observers.h"
#include "worker/protocol/routing/link_table.h"

namespace swarm::page {

/// What the trainer knows at a moment.
struct JobView {
  protocol::JobStatus status;
  std::map<protocol::WorkerId, protocol::MemberDetails> members;
  /// Of a microbatch between stage s and s + 1; 0 where no worker has told.
  std::vector<protocol::BoundaryBytes> boundaries;
  std::uint64_t tokens_of_microbatch = 0;
  std::uint64_t committed_steps = 0;        ///< by this trainer's process, discarded ones included
  std::uint64_t discarded_steps = 0;        ///< undone by a rollback
  std::uint64_t contributions_of_step = 0;  ///< a microbatch in a stage is one
  /// Dollars an hour of one worker, which does not say of which pool it is; none: not known.
  std::optional<api::DollarRange> worker_price;
};

/// The share of the contributions that workers computed whose results are in the weights, by what
/// this trainer's process knows. NaN before the first step.
double Goodput(const JobView& view);

/// JSON for the page; `now` in Unix seconds: workers that were lost in the last minute are shown
/// beside those that are there. Not finite numbers are null.
std::string ToJson(const JobView& view, const std::string& job, double now);

}  // namespace swarm::page

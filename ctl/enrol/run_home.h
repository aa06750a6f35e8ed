// Home of a run on this machine: the enrolment service, and the account of tokens in memory. Tokens
// and joined workers end with the run, as its authority does.
#pragma once

#include "ctl/run/home.h"

namespace swarm::ctl {

/// Begins to serve. Errors: kUnavailable (the port is taken, or a file cannot be written).
Result<std::unique_ptr<Home>> OpenRunHome(const HomeOptions& options,
                                          const identity::JobAuthority& authority);

}  // namespace swarm::ctl

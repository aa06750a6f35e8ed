// Authorities for tests.
#pragma once

#include <string>
#include <utility>

#include "base/identity/authority.h"

namespace swarm::identity {

/// A new authority of the job. Ends the process where there can be none.
inline JobAuthority MadeAuthority(const std::string& job_uid) {
  auto authority = JobAuthority::Create(job_uid);
  SWARM_CHECK(authority.ok(), authority.status().ToString());
  return std::move(authority).value();
}

}  // namespace swarm::identity

// What `swarmctl run --listen` offers machines elsewhere: they become workers of the run. The
// implementation, which needs gRPC, is in ctl/enrol.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/identity/authority.h"
#include "base/status.h"
#include "base/time.h"

namespace swarm::ctl {

struct HomeOptions {
  std::string listen;  ///< host:port at which machines enrol
  std::string job_uid;
  std::string job_name;
  std::string trainer;                 ///< host:port, as others reach it
  std::string job;                     ///< what api::JobForMachines says; machines are told it
  Duration validity{};                 ///< of the certificates of joined workers
  std::filesystem::path address_file;  ///< gets the address; `swarmctl token` looks for it
  std::filesystem::path revoked_file;  ///< gets the workers that are out, for the job's programs
  std::filesystem::path events_file;   ///< gets a JSON object a line for all that happens
};

/// Enrols machines while it lives.
class Home {
 public:
  virtual ~Home() = default;
  /// A join token on the usual terms, as text.
  virtual Result<std::string> CreateToken() = 0;
  /// What has happened since the last call, a sentence each. No secrets.
  virtual std::vector<std::string> TakeEvents() = 0;
};

/// The authority outlives the home.
using OpenHome = std::function<Result<std::unique_ptr<Home>>(
    const HomeOptions& options, const identity::JobAuthority& authority)>;

}  // namespace swarm::ctl

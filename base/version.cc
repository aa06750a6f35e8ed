#include "base/version.h"

#include "base/version_of_build.h"

namespace swarm {

std::string Version() {
  const std::string commit = SWARM_COMMIT;
  return commit.empty() ? SWARM_VERSION : SWARM_VERSION " (" + commit + ")";
}

}  // namespace swarm

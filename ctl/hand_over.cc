#include "ctl/hand_over.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace swarm::ctl {

Status HandOver(const std::string& program, char** argv) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path = (self.parent_path().parent_path() / "lib" / program).string();
  ::execv(path.c_str(), argv);
  const int reason = errno;
  const std::string message =
      "a part of SwarmJob is missing: " + path +
      ", which computes for this command: " + std::generic_category().message(reason) +
      "; keep lib/ beside bin/ as both were built or unpacked";
  return reason == ENOENT ? NotFound(message) : PermissionDenied(message);
}

}  // namespace swarm::ctl

#include "ctl/hand_over.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace swarm::ctl {

std::filesystem::path InLib(const std::string& program) {
  std::error_code unreadable;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  return self.parent_path().parent_path() / "lib" / program;
}

Status HandOver(const std::string& program, char** argv) {
  const std::string path = InLib(program).string();
  ::execv(path.c_str(), argv);
  const int reason = errno;
  const std::string message =
      "a part of SwarmJob is missing: " + path +
      ", which computes for this command: " + std::generic_category().message(reason) +
      "; keep lib/ beside bin/ as both were built or unpacked";
  return reason == ENOENT ? NotFound(message) : PermissionDenied(message);
}

}  // namespace swarm::ctl

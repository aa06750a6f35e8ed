#include "base/control_groups.h"

#include <fstream>
#include <string>

namespace swarm {

void ForEachFolder(const std::filesystem::path& root, std::string_view group,
                   const LookAtFolder& look) {
  std::filesystem::path folder = root;
  look(folder);
  for (const auto& part : std::filesystem::path(group).relative_path()) {
    folder /= part;
    look(folder);
  }
}

void ForEachControlGroup(std::string_view controller, const LookAtFolder& look) {
  const std::filesystem::path root = "/sys/fs/cgroup";
  const std::string name(controller);
  std::ifstream groups("/proc/self/cgroup");
  // hierarchy:controllers:path; version 2 has no controllers.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool one = controllers.find("," + name + ",") != controllers.npos;
    if (!one && controllers != ",,") continue;
    ForEachFolder(one ? root / name : root, line.substr(second + 1), look);
  }
}

}  // namespace swarm

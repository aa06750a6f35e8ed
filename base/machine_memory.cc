#include "base/machine_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/control_groups.h"

namespace swarm {

std::optional<std::uint64_t> FindMemoryLimit(const std::filesystem::path& folder) {
  for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
    std::ifstream in(folder / name);
    std::uint64_t limit = 0;
    if (in >> limit) return limit;  // not a number: "max"
  }
  return std::nullopt;
}

std::uint64_t UsableMemory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGE_SIZE);
  std::uint64_t usable = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
  ForEachControlGroup("memory", [&](const std::filesystem::path& folder) {
    usable = std::min(usable, FindMemoryLimit(folder).value_or(usable));
  });
  return usable;
}

}  // namespace swarm

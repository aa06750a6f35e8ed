#include "base/processors.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "base/control_groups.h"

namespace swarm {
namespace {

std::optional<std::string> ReadLineOf(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return line;
}

/// The quota of one control group.
std::optional<double> QuotaOf(const std::filesystem::path& folder) {
  double quota = 0, period = 0;
  if (const auto line = ReadLineOf(folder / "cpu.max")) {
    if (!(std::istringstream(*line) >> quota >> period)) return std::nullopt;  // "max 100000"
  } else {
    const auto quota_line = ReadLineOf(folder / "cpu.cfs_quota_us");
    const auto period_line = ReadLineOf(folder / "cpu.cfs_period_us");
    if (!quota_line || !period_line) return std::nullopt;
    if (!(std::istringstream(*quota_line) >> quota)) return std::nullopt;
    if (!(std::istringstream(*period_line) >> period)) return std::nullopt;
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

std::uint64_t ProcessorsOfAffinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::uint64_t>(std::max(1, CPU_COUNT(&set)));
}

}  // namespace

std::optional<double> FindProcessorQuota(const std::filesystem::path& root,
                                         std::string_view group) {
  std::optional<double> least;
  ForEachFolder(root, group, [&](const std::filesystem::path& folder) {
    const auto quota = QuotaOf(folder);
    if (quota && (!least || *quota < *least)) least = quota;
  });
  return least;
}

std::uint64_t UsableProcessors() {
  const std::uint64_t affinity = ProcessorsOfAffinity();
  double quota = std::numeric_limits<double>::infinity();
  ForEachControlGroup("cpu", [&](const std::filesystem::path& folder) {
    quota = std::min(quota, QuotaOf(folder).value_or(quota));
  });
  const double usable = std::min(static_cast<double>(affinity), std::floor(quota));
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(usable));
}

bool AskForShortSpins() {
  constexpr const char* kVariable = "GOMP_SPINCOUNT";
  if (std::getenv(kVariable) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return false;
  ::setenv(kVariable, "1000", 0);
  return true;
}

void RunWithShortSpins(char** argv) {
  if (!AskForShortSpins()) return;
  ::execv("/proc/self/exe", argv);  // if that fails, it is slower beside others
}

}  // namespace swarm

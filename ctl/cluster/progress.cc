#include "ctl/cluster/progress.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/metrics.h"

namespace swarm::ctl {
namespace {

/// Sets `value` if `line` is "NAME VALUE".
void ReadLine(std::string_view line, Metric metric, double* value) {
  const std::string_view name = DefinitionOf(metric).name;
  if (!line.starts_with(name) || line.substr(name.size(), 1) != " ") return;
  *value = std::strtod(std::string(line.substr(name.size())).c_str(), nullptr);
}

}  // namespace

Progress ReadProgress(std::string_view metrics) {
  Progress progress;
  while (!metrics.empty()) {
    const std::string_view line = metrics.substr(0, metrics.find('\n'));
    ReadLine(line, Metric::kTrainerLoss, &progress.loss);
    ReadLine(line, Metric::kTrainerTokensPerSecond, &progress.tokens_per_second);
    ReadLine(line, Metric::kTrainerRemainingSeconds, &progress.seconds_left);
    metrics.remove_prefix(std::min(line.size() + 1, metrics.size()));
  }
  return progress;
}

std::optional<Progress> ProgressOf(const api::SwarmJobStatus& status) {
  const api::ProgressStatus& said = status.progress;
  if (!said.loss && said.tokensPerSecond == 0) return std::nullopt;
  Progress progress;
  if (said.loss) progress.loss = *said.loss;
  if (said.tokensPerSecond > 0) {
    progress.tokens_per_second = static_cast<double>(said.tokensPerSecond);
  }
  if (said.secondsLeft) progress.seconds_left = static_cast<double>(*said.secondsLeft);
  return progress;
}

}  // namespace swarm::ctl

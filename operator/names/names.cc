#include "operator/names/names.h"

#include <charconv>

namespace swarm::names {
namespace {

/// Separates the name of a job from the rest of a pod's name.
constexpr char kSeparator = '-';
/// Begins the name of a pod set of workers.
constexpr std::string_view kWorkersPrefix = "workers-";

}  // namespace

const char* RoleName(PodRole role) { return role == PodRole::kWorker ? kWorkerRole : kTrainerRole; }

std::string WorkerPrefix(const std::string& job) { return job + "-w"; }

std::string PodName(const std::string& job, PodRole role, std::uint64_t number) {
  if (role == PodRole::kWorker) return WorkerPrefix(job) + std::to_string(number);
  return TrainerServiceName(job) + kSeparator + std::to_string(number);
}

std::vector<std::string> WorkersOf(const std::string& pod, std::uint64_t workers) {
  if (workers <= 1) return {pod};
  std::vector<std::string> names;
  names.reserve(workers);
  for (std::uint64_t i = 0; i < workers; ++i) names.push_back(pod + kSeparator + std::to_string(i));
  return names;
}

std::optional<std::string_view> PodOfSeveral(std::string_view worker) {
  const auto at = worker.rfind(kSeparator);
  if (at == worker.npos || !ParseNumber(worker.substr(at + 1))) return std::nullopt;
  return worker.substr(0, at);
}

std::string TrainerServiceName(const std::string& job) { return job + "-trainer"; }
std::string WorkersServiceName(const std::string& job) { return job + "-workers"; }
std::string ConfigMapName(const std::string& job) { return job + "-job"; }
std::string AuthoritySecretName(const std::string& job) { return job + "-ca"; }
std::string IdentitySecretName(const std::string& pod) { return pod + "-identity"; }
std::string DisruptionBudgetName(const std::string& job) { return job + "-workers"; }
std::string NetworkPolicyName(const std::string& job) { return job; }
std::string OutpostName(const std::string& job) { return job + "-outpost"; }
std::string TrainerEndpointsName(const std::string& job) { return job + "-trainer"; }
std::string WorkloadName(const std::string& job) { return "swarmjob-" + job; }
std::string TokensSecretName(const std::string& job) { return job + "-tokens"; }

std::string WorkersPodSet(const std::string& pool) { return std::string(kWorkersPrefix) + pool; }
std::optional<std::string> PoolOfPodSet(std::string_view pod_set) {
  if (!pod_set.starts_with(kWorkersPrefix)) return std::nullopt;
  return std::string(pod_set.substr(kWorkersPrefix.size()));
}

std::string SharedIdentitiesName(const std::string& job) { return job + "-identities"; }
std::string SharedIdentityName(PodRole role, std::uint64_t number) {
  return role == PodRole::kTrainer ? kTrainerRole : "w" + std::to_string(number);
}

std::string WorkerHost(const std::string& ns, const std::string& job, const std::string& pod) {
  return pod + "." + WorkersServiceName(job) + "." + ns + ".svc";
}

std::string TrainerAddress(const std::string& ns, const std::string& job) {
  return TrainerServiceName(job) + "." + ns + ".svc:" + std::to_string(kWirePort);
}

std::string PodSelector(const std::string& job) { return std::string(kJobLabel) + "=" + job; }
std::string WorkerSelector(const std::string& job) {
  return PodSelector(job) + "," + kRoleLabel + "=" + kWorkerRole;
}
std::string AnyPodSelector() { return kJobLabel; }

std::optional<std::uint64_t> ParseNumber(std::string_view text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || std::to_string(number) != text) return std::nullopt;
  return number;
}

}  // namespace swarm::names

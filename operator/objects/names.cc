#include "operator/objects/names.h"

#include <charconv>

namespace swarm::objects {

std::string WorkerName(const std::string& job, std::uint64_t ordinal) {
  return job + "-w" + std::to_string(ordinal);
}
std::string TrainerPodName(const std::string& job, std::uint64_t term) {
  return job + "-trainer-" + std::to_string(term);
}
std::string TrainerServiceName(const std::string& job) { return job + "-trainer"; }
std::string WorkersServiceName(const std::string& job) { return job + "-workers"; }
std::string ConfigMapName(const std::string& job) { return job + "-job"; }
std::string AuthoritySecretName(const std::string& job) { return job + "-ca"; }
std::string IdentitiesSecretName(const std::string& job) { return job + "-identities"; }
std::string DisruptionBudgetName(const std::string& job) { return job + "-workers"; }
std::string NetworkPolicyName(const std::string& job) { return job; }

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

}  // namespace swarm::objects

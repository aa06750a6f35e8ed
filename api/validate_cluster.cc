// The rules of validate.h for fields that only a cluster uses. Kubernetes itself checks resource
// names, quantities and pod templates, in a server-side dry run.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "api/format/judge.h"
#include "api/validate.h"

namespace swarm::api {
namespace {

using nlohmann::json;

constexpr std::size_t kNameMax = 52;  // with "-trainer-" and a term behind it, still a label
constexpr std::size_t kLabelMax = 63;
constexpr std::size_t kSubdomainMax = 253;
constexpr std::size_t kPoolsMax = 32;
constexpr std::uint64_t kDaySeconds = 86'400;
constexpr std::uint64_t kYearSeconds = 366 * kDaySeconds;

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsLowerOrDigit(char c) { return IsLower(c) || (c >= '0' && c <= '9'); }

// RFC 1123's label: a-z, 0-9 and -, with a letter or digit at both ends.
bool IsLabel(std::string_view name) {
  return !name.empty() && name.size() <= kLabelMax && IsLowerOrDigit(name.front()) &&
         IsLowerOrDigit(name.back()) && std::all_of(name.begin(), name.end(), [](char c) {
           return IsLowerOrDigit(c) || c == '-';
         });
}

}  // namespace

bool IsSubdomain(std::string_view name) {
  if (name.size() > kSubdomainMax) return false;
  while (true) {
    const std::size_t dot = name.find('.');
    if (!IsLabel(name.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    name.remove_prefix(dot + 1);
  }
}

namespace {

// "kueue.x-k8s.io/multikueue"
bool IsDomainPath(std::string_view text) {
  const std::size_t slash = text.find('/');
  return text.size() <= kSubdomainMax && slash != std::string_view::npos &&
         IsSubdomain(text.substr(0, slash)) && slash + 1 < text.size();
}

json Parsed(const RawJson& raw) { return json::parse(raw.text, nullptr, false); }

void JudgeTolerations(Judge& judge, const std::string& path, const RawJson& raw) {
  if (raw.text.empty()) return;
  const json list = Parsed(raw);
  const bool good = list.is_array() && std::all_of(list.begin(), list.end(), [](const json& each) {
                      return each.is_object();
                    });
  judge.Expect(good, path, "is not a list of tolerations", "write [{key: ..., operator: Exists}]");
}

// Whether the operator takes these values in Kubernetes' node affinity.
bool HasItsValues(const std::string& with, const json& values) {
  const bool texts =
      values.is_array() &&
      std::all_of(values.begin(), values.end(), [](const json& each) { return each.is_string(); });
  if (with == "Exists" || with == "DoesNotExist") return values.is_null() || values.empty();
  return texts && (with == "Gt" || with == "Lt" ? values.size() == 1 : !values.empty());
}

void JudgeMatchExpressions(Judge& judge, const std::string& path, const RawJson& raw) {
  if (raw.text.empty()) return;
  const json list = Parsed(raw);
  const std::string example = "write {key: LABEL, operator: NotIn, values: [VALUE]}";
  if (!judge.Expect(list.is_array(), path, "is not a list", example)) return;
  constexpr std::array<const char*, 6> kOperators{"In",           "NotIn", "Exists",
                                                  "DoesNotExist", "Gt",    "Lt"};
  for (std::size_t i = 0; i < list.size(); ++i) {
    const json& each = list[i];
    const std::string at = path + "[" + std::to_string(i) + "]";
    if (!judge.Expect(each.is_object(), at, "is not a mapping", example)) continue;
    for (const auto& [name, value] : each.items()) {
      judge.Expect(name == "key" || name == "operator" || name == "values", at + "." + name,
                   "unknown field", "known fields: key, operator, values");
    }
    judge.Expect(each.contains("key") && each["key"].is_string(), at + ".key",
                 "is not the name of a label", example);
    const json with = each.value("operator", json());
    if (!judge.Expect(std::find(kOperators.begin(), kOperators.end(), with) != kOperators.end(),
                      at + ".operator", "is " + with.dump(),
                      "one of In, NotIn, Exists, DoesNotExist, Gt, Lt")) {
      continue;
    }
    judge.Expect(HasItsValues(with.get<std::string>(), each.value("values", json())),
                 at + ".values", "do not go with " + with.get<std::string>(),
                 "texts with In and NotIn, one number as text with Gt and Lt, else none");
  }
}

// A Kubernetes quantity may be written as a number or a string.
bool IsQuantities(const json& value) {
  return value.is_object() && std::all_of(value.begin(), value.end(), [](const json& each) {
           return each.is_string() || each.is_number();
         });
}

void JudgeResources(Judge& judge, const std::string& path, const RawJson& raw) {
  if (raw.text.empty()) return;
  const json value = Parsed(raw);
  if (!judge.Expect(value.is_object(), path, "is not a mapping", "write {limits: {cpu: 4}}"))
    return;
  for (const auto& [key, part] : value.items()) {
    if (!judge.Expect(key == "limits" || key == "requests", path + "." + key, "unknown field",
                      "known fields: limits, requests")) {
      continue;
    }
    judge.Expect(IsQuantities(part), path + "." + key, "is not a mapping of quantities",
                 "write {cpu: 4, memory: 8Gi}");
  }
}

void JudgeTemplate(Judge& judge, const std::string& path, const RawJson& raw) {
  if (raw.text.empty()) return;
  const json value = Parsed(raw);
  if (!judge.Expect(value.is_object(), path, "is not a mapping",
                    "write {metadata: ..., spec: ...}"))
    return;
  for (const auto& [key, part] : value.items()) {
    if (!judge.Expect(key == "metadata" || key == "spec", path + "." + key, "unknown field",
                      "known fields: metadata, spec")) {
      continue;
    }
    judge.Expect(part.is_object(), path + "." + key, "is not a mapping",
                 "write its fields below it");
  }
}

/// Of any number that describes a machine.
constexpr double kMostOfMachine = 1e9;

void JudgeMachine(Judge& judge, const std::string& path, const Machine& machine) {
  judge.Positive(path + ".teraflops", machine.teraflops, kMostOfMachine);
  const std::pair<const char*, double> others[] = {
      {".memoryGiB", machine.memoryGiB},
      {".deviceMemoryGiB", machine.deviceMemoryGiB},
      {".diskMBps", machine.diskMBps},
      {".diskSecondsPerGiB", machine.diskSecondsPerGiB},
      {".toDeviceMBps", machine.toDeviceMBps},
      {".fromDeviceMBps", machine.fromDeviceMBps},
      {".memoryMBps", machine.memoryMBps},
      {".updateMillions", machine.updateMillions},
      {".uploadMbps", machine.uploadMbps},
      {".downloadMbps", machine.downloadMbps},
      {".dollarsPerHour", machine.dollarsPerHour},
      {".lossesPerHour", machine.lossesPerHour},
      {".returnSeconds", machine.returnSeconds}};
  for (const auto& [name, value] : others) judge.Range(path + name, value, 0.0, kMostOfMachine);
}

void JudgePoolName(Judge& judge, const std::string& path, const std::string& name,
                   std::set<std::string_view>* earlier) {
  judge.Expect(IsLabel(name), path + ".name", "is \"" + name + "\"",
               "1 to 63 of a-z, 0-9 and -, with a letter or digit at both ends");
  judge.Expect(earlier->insert(name).second, path + ".name",
               "is \"" + name + "\", the name of an earlier pool", "give each pool its own name");
}

void JudgePool(Judge& judge, const std::string& path, const Pool& pool) {
  judge.Expect(pool.cluster.empty() || IsLabel(pool.cluster), path + ".cluster",
               "is \"" + pool.cluster + "\"",
               "the name of a satellite: 1 to 63 of a-z, 0-9 and -, with a letter or digit at both"
               " ends; or leave it out");
  judge.Expect(pool.cluster != "home", path + ".cluster", "is \"home\", the SwarmJob's own cluster",
               "leave it out");
  if (pool.maxReplicas) {
    judge.Range(path + ".maxReplicas", *pool.maxReplicas, std::uint64_t{0}, kReplicasMax);
  }
  judge.Range(path + ".pendingSeconds", pool.pendingSeconds, std::uint64_t{1}, kDaySeconds);
  judge.Range(path + ".returnAfterSeconds", pool.returnAfterSeconds, std::uint64_t{1}, kDaySeconds);
  JudgeMatchExpressions(judge, path + ".matchExpressions", pool.matchExpressions);
  JudgeTolerations(judge, path + ".tolerations", pool.tolerations);
  JudgeResources(judge, path + ".resources", pool.resources);
  JudgeTemplate(judge, path + ".template", pool.podTemplate);
  if (pool.machine) JudgeMachine(judge, path + ".machine", *pool.machine);
}

void JudgePools(Judge& judge, const Workers& workers) {
  const std::string path = "spec.workers.pools";
  judge.Expect(!workers.pools.empty() && workers.pools.size() <= kPoolsMax, path,
               "has " + Text(std::uint64_t{workers.pools.size()}) + " items",
               "from 1 to " + Text(std::uint64_t{kPoolsMax}) + ", or leave it out");
  std::set<std::string_view> names;
  std::uint64_t room = 0;
  for (std::size_t i = 0; i < workers.pools.size(); ++i) {
    const Pool& pool = workers.pools[i];
    const std::string at = path + "[" + std::to_string(i) + "]";
    JudgePool(judge, at, pool);
    JudgePoolName(judge, at, pool.name, &names);
    judge.Expect(pool.machine.has_value() == workers.pools.front().machine.has_value(),
                 at + ".machine",
                 pool.machine ? "is there, and missing in the first pool"
                              : "is missing, and there in the first pool",
                 "give it in all pools, or in none");
    room += std::min(pool.maxReplicas.value_or(kReplicasMax), kReplicasMax);
  }
  judge.Expect(workers.pools.empty() || room >= std::min(workers.minReplicas, kReplicasMax), path,
               "have room for " + Text(room) + " workers",
               "raise a maxReplicas: minReplicas is " + Text(workers.minReplicas));
}

void JudgeMachinePools(Judge& judge, const Workers& workers) {
  const std::string path = "spec.workers.machinePools";
  judge.Expect(workers.machinePools.size() <= kPoolsMax, path,
               "has " + Text(std::uint64_t{workers.machinePools.size()}) + " items",
               "at most " + Text(std::uint64_t{kPoolsMax}));
  std::set<std::string_view> names;
  for (const Pool& pool : workers.pools) names.insert(pool.name);
  for (std::size_t i = 0; i < workers.machinePools.size(); ++i) {
    const MachinePool& pool = workers.machinePools[i];
    const std::string at = path + "[" + std::to_string(i) + "]";
    JudgePoolName(judge, at, pool.name, &names);
    if (pool.maxReplicas) {
      judge.Range(at + ".maxReplicas", *pool.maxReplicas, std::uint64_t{0}, kReplicasMax);
    }
    judge.Range(at + ".dollarsPerHour", pool.dollarsPerHour, 0.0, kMostOfMachine);
  }
}

void JudgeTraffic(Judge& judge, const Workers& workers) {
  const std::string path = "spec.workers.traffic";
  constexpr std::size_t kMost = 64, kRegionMax = 253;
  judge.Expect(workers.traffic.size() <= kMost, path,
               "has " + Text(std::uint64_t{workers.traffic.size()}) + " items",
               "at most " + Text(std::uint64_t{kMost}));
  for (std::size_t i = 0; i < workers.traffic.size(); ++i) {
    const TrafficPrice& price = workers.traffic[i];
    const std::string at = path + "[" + std::to_string(i) + "]";
    const auto is_region = [](const std::string& name) {
      return !name.empty() && name.size() <= kRegionMax;
    };
    judge.Expect(price.between.size() == 2 && std::ranges::all_of(price.between, is_region),
                 at + ".between", "is not a pair of regions",
                 "write [REGION, REGION]; \"*\" is any region");
    judge.Range(at + ".dollarsPerGB", price.dollarsPerGB, 0.0, kMostOfMachine);
  }
}

void JudgeBudget(Judge& judge, const Spec& spec) {
  if (!spec.budget) return;
  constexpr double kMost = 1e12;
  judge.Positive("spec.budget.dollars", spec.budget->dollars, kMost);
  for (std::size_t i = 0; i < spec.workers.pools.size(); ++i) {
    const std::optional<Machine>& machine = spec.workers.pools[i].machine;
    judge.Expect(machine && machine->dollarsPerHour > 0,
                 "spec.workers.pools[" + std::to_string(i) + "].machine.dollarsPerHour",
                 "is missing, so spec.budget would not count this pool's workers",
                 "give each pool the price of a worker, or leave spec.budget out");
  }
}

}  // namespace

void JudgeName(Judge& judge, const std::string& name) {
  judge.Expect(IsLabel(name) && name.size() <= kNameMax && IsLower(name.front()), "metadata.name",
               "is \"" + name + "\"",
               "1 to 52 of a-z, 0-9 and -, a letter first, a letter or digit last");
}

void JudgeCluster(Judge& judge, const Spec& spec) {
  judge.Expect(spec.managedBy.empty() || IsDomainPath(spec.managedBy), "spec.managedBy",
               "is \"" + spec.managedBy + "\"",
               "write the controller as DOMAIN/NAME, or leave it out");
  judge.Expect(spec.storage.secretName.empty() || IsSubdomain(spec.storage.secretName),
               "spec.storage.secretName", "is \"" + spec.storage.secretName + "\"",
               "the name of a Secret in the job's namespace");
  JudgePools(judge, spec.workers);
  JudgeMachinePools(judge, spec.workers);
  JudgeTraffic(judge, spec.workers);
  JudgeBudget(judge, spec);
  JudgeTemplate(judge, "spec.workers.template", spec.workers.podTemplate);
  JudgeTemplate(judge, "spec.trainer.template", spec.trainer.podTemplate);
  judge.Range("spec.preemption.drainSeconds", spec.preemption.drainSeconds, std::uint64_t{1},
              std::uint64_t{3600});
  judge.Range("spec.failurePolicy.maxFailures", spec.failurePolicy.maxFailures, std::uint64_t{0},
              std::uint64_t{1000});
  judge.Range("spec.failurePolicy.windowSeconds", spec.failurePolicy.windowSeconds,
              std::uint64_t{1}, 30 * kDaySeconds);
  if (spec.ttlSecondsAfterFinished) {
    judge.Range("spec.ttlSecondsAfterFinished", *spec.ttlSecondsAfterFinished, std::uint64_t{0},
                kYearSeconds);
  }
}

std::vector<FieldError> ValidateForCluster(const SwarmJob& job) {
  Judge judge;
  const Spec& spec = job.spec;
  const std::string remedy =
      "write s3://BUCKET/PREFIX, or file:///PATH of a volume in both templates";
  judge.Expect(!spec.checkpoint.uri.empty(), "spec.checkpoint.uri", "is missing", remedy);
  const auto judge_shared = [&](const std::string& path, const std::string& uri) {
    const bool is_shared = uri.empty() || uri.starts_with('/') || uri.find("://") != uri.npos;
    judge.Expect(is_shared, path, "is " + uri + ", which is a different folder in each pod",
                 remedy);
  };
  judge_shared("spec.model.uri", spec.model.uri);
  judge_shared("spec.model.tokenizer.uri", spec.model.tokenizer.uri);
  for (const DataSource& source : spec.data.AllSources()) {
    judge_shared(spec.data.sources ? "spec.data.sources" : "spec.data.uri", source.uri);
  }
  judge_shared("spec.data.validationUri", spec.data.validationUri);
  judge_shared("spec.checkpoint.uri", spec.checkpoint.uri);
  judge_shared("spec.logging.tensorboard", spec.logging.tensorboard);
  for (std::size_t i = 0; i < spec.storage.regions.size(); ++i) {
    const RegionStorage& entry = spec.storage.regions[i];
    const std::string path = "spec.storage.regions[" + std::to_string(i) + "]";
    judge_shared(path + ".checkpointUri", entry.checkpointUri);
    for (const std::string& uri : entry.dataUris) judge_shared(path + ".dataUris", uri);
    judge_shared(path + ".validationUri", entry.validationUri);
  }
  return judge.Take();
}

}  // namespace swarm::api

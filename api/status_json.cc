#include "api/status_json.h"

#include <charconv>

#include "api/format/schema.h"
#include "api/format/schema_archive.h"

namespace swarm::api {

using nlohmann::json;

// Limits the size of the list, because an untrusted object may contain any range.
static constexpr std::size_t kOpenWorkersMax = 1'000'000;

static std::string WriteRanges(const std::vector<std::uint64_t>& ascending) {
  std::string text;
  for (std::size_t first = 0; first < ascending.size();) {
    std::size_t last = first;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    if (!text.empty()) text += ",";
    text += std::to_string(ascending[first]);
    if (last > first) text += "-" + std::to_string(ascending[last]);
    first = last + 1;
  }
  return text;
}

// Takes a number from the front of `text`.
static std::optional<std::uint64_t> TakeNumber(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

static bool TakeChar(std::string_view& text, char wanted) {
  if (!text.starts_with(wanted)) return false;
  text.remove_prefix(1);
  return true;
}

static std::optional<std::vector<std::uint64_t>> ReadRanges(std::string_view text) {
  std::vector<std::uint64_t> ascending;
  if (text.empty()) return ascending;
  do {
    const auto first = TakeNumber(text);
    const auto last = first && TakeChar(text, '-') ? TakeNumber(text) : first;
    const bool grows = first && last && *first <= *last &&
                       (ascending.empty() || ascending.back() < *first) &&
                       *last - *first < kOpenWorkersMax - ascending.size();
    if (!grows) return std::nullopt;
    for (std::uint64_t n = *first; n < *last; ++n) ascending.push_back(n);
    ascending.push_back(*last);
  } while (TakeChar(text, ','));
  return text.empty() ? std::optional(ascending) : std::nullopt;
}

static void DescribeOpen(ObjectReader& a, std::vector<std::uint64_t>& open) {
  std::string text;
  a.Field("openWorkers", text);
  if (auto ranges = ReadRanges(text)) {
    open = *std::move(ranges);
  } else {
    a.Report(a.PathOf("openWorkers"), "is \"" + text.substr(0, 40) + "\"",
             "ascending ordinals such as \"0-4,7\"");
  }
}
static void DescribeOpen(ObjectWriter& a, const std::vector<std::uint64_t>& open) {
  a.Required("openWorkers", WriteRanges(open));
}

static void DescribeOpen(ObjectSchema& a, const std::vector<std::uint64_t>&) {
  a.Field("openWorkers", std::string());
}

template <typename Archive>
static void Describe(Archive& a, Condition& condition) {
  a.Required("type", condition.type);
  a.Required("status", condition.status);
  a.Field("observedGeneration", condition.observedGeneration);
  a.Required("lastTransitionTime", condition.lastTransitionTime);
  a.Required("reason", condition.reason);
  a.Required("message", condition.message);
}

template <typename Archive>
static void Describe(Archive& a, PlanChoice& choice) {
  a.Required("generation", choice.generation);
  a.Required("stages", choice.stages);
  a.Field("layers", choice.layers);
  a.Field("codec", choice.codec);
  a.Field("residency", choice.residency);
  a.Field("stepMode", choice.stepMode);
  a.Field("overlap", choice.overlap);
  a.Field("microbatchSize", choice.microbatchSize);
  a.Field("inFlightMax", choice.inFlightMax);
  a.Field("deviceMemory", choice.deviceMemory);
  a.Field("replicas", choice.replicas);
  a.Field("tokensPerSecond", choice.tokensPerSecond);
  a.Field("limitedBy", choice.limitedBy);
  a.Field("dollarsPerBillionTokens", choice.dollarsPerBillionTokens);
}

template <typename Archive>
static void Describe(Archive& a, PlanStatus& plan) {
  a.Field("replicas", plan.replicas);
  a.Field("minReplicas", plan.minReplicas);
  a.Field("layout", plan.layout);
  a.Field("choice", plan.choice);
}

template <typename Archive>
static void Describe(Archive& a, HasRunStatus& has_run) {
  a.Field("trainer", has_run.trainer);
  a.Field("workers", has_run.workers);
}

template <typename Archive>
static void Describe(Archive& a, TrainerStatus& trainer) {
  a.Field("term", trainer.term);
  a.Field("podName", trainer.podName);
  a.Field("generation", trainer.generation);
}

template <typename Archive>
static void Describe(Archive& a, ProgressStatus& progress) {
  a.Field("loss", progress.loss);
  a.Field("tokens", progress.tokens);
  a.Field("tokensPerSecond", progress.tokensPerSecond);
  a.Field("secondsLeft", progress.secondsLeft);
  a.Field("timeLeft", progress.timeLeft);
  a.Field("time", progress.time);
}

template <typename Archive>
static void Describe(Archive& a, CostStatus& cost) {
  a.Field("dollars", cost.dollars);
  a.Field("countedTime", cost.countedTime);
  a.Field("spent", cost.spent);
  a.Field("dollarsPerHour", cost.dollarsPerHour);
  a.Field("trafficDollarsPerHour", cost.trafficDollarsPerHour);
  a.Field("dollarsPerStep", cost.dollarsPerStep);
  a.Field("dollarsPerBillionTokens", cost.dollarsPerBillionTokens);
}

// A job without prices has no cost, rather than one of 0.
static void DescribeCost(ObjectReader& a, CostStatus& cost) { a.Object("cost", cost); }
static void DescribeCost(ObjectWriter& a, const CostStatus& cost) {
  if (cost != CostStatus()) a.Object("cost", cost);
}
static void DescribeCost(ObjectSchema& a, const CostStatus& cost) { a.Object("cost", cost); }

template <typename Archive>
static void Describe(Archive& a, TrafficStatus& traffic) {
  a.Required("between", traffic.between);
  a.Field("bytes", traffic.bytes);
  a.Field("dollars", traffic.dollars);
  a.Field("term", traffic.term);
  a.Field("bytesBefore", traffic.bytesBefore);
}

template <typename Archive>
static void Describe(Archive& a, StageStatus& stage) {
  a.Required("index", stage.index);
  a.Field("ready", stage.ready);
}

template <typename Archive>
static void Describe(Archive& a, CheckpointStatus& checkpoint) {
  a.Field("step", checkpoint.step);
  a.Field("time", checkpoint.time);
}

template <typename Archive>
static void Describe(Archive& a, PoolStatus& pool) {
  a.Required("name", pool.name);
  a.Field("state", pool.state);
  a.Field("since", pool.since);
  a.Field("attempts", pool.attempts);
  a.Field("retryTime", pool.retryTime);
}

template <typename Archive>
static void Describe(Archive& a, PoolWorkers& workers) {
  a.Required("pool", workers.pool);
  DescribeOpen(a, workers.openWorkers);
}

template <typename Archive>
static void Describe(Archive& a, ClusterStatus& cluster) {
  a.Required("name", cluster.name);
  a.Field("state", cluster.state);
  a.Field("since", cluster.since);
  a.Field("replicas", cluster.replicas);
  a.Field("readyReplicas", cluster.readyReplicas);
  a.Field("workers", cluster.workers);
}

template <typename Archive>
static void Describe(Archive& a, MachineStatus& machine) {
  a.Required("ordinal", machine.ordinal);
  a.Field("pool", machine.pool);
  a.Field("token", machine.token);
  a.Required("certificateEnds", machine.certificateEnds);
}

// A job without machines says nothing of them.
static void DescribeMachines(ObjectReader& a, SwarmJobStatus& status) {
  a.Field("machines", status.machines);
}
static void DescribeMachines(ObjectWriter& a, SwarmJobStatus& status) {
  if (!status.machines.empty()) a.Field("machines", status.machines);
}
static void DescribeMachines(ObjectSchema& a, SwarmJobStatus& status) {
  a.Field("machines", status.machines);
}

// A job in one cluster says nothing of clusters.
static void DescribeClusters(ObjectReader& a, SwarmJobStatus& status) {
  a.Field("clusters", status.clusters);
  a.Field("readyByCluster", status.readyByCluster);
}
static void DescribeClusters(ObjectWriter& a, SwarmJobStatus& status) {
  if (!status.clusters.empty()) a.Field("clusters", status.clusters);
  if (!status.readyByCluster.empty()) a.Field("readyByCluster", status.readyByCluster);
}
static void DescribeClusters(ObjectSchema& a, SwarmJobStatus& status) {
  a.Field("clusters", status.clusters);
  a.Field("readyByCluster", status.readyByCluster);
}

template <typename Archive>
static void Describe(Archive& a, ImageStatus& image) {
  a.Field("name", image.name);
  a.Field("platform", image.platform);
  a.Field("update", image.update);
}

template <typename Archive>
static void Describe(Archive& a, NodeStatus& node) {
  a.Required("name", node.name);
  a.Field("hostname", node.hostname);
  a.Field("failures", node.failures);
  a.Required("lastFailureTime", node.lastFailureTime);
  a.Field("avoided", node.avoided);
}

template <typename Archive>
static void Describe(Archive& a, SwarmJobStatus& status) {
  a.Field("observedGeneration", status.observedGeneration);
  a.Field("state", status.state);
  a.Field("conditions", status.conditions);
  a.Field("step", status.step);
  a.Object("progress", status.progress);
  DescribeCost(a, status.cost);
  a.Field("traffic", status.traffic);
  a.Field("parameters", status.parameters);
  a.Object("plan", status.plan);
  a.Object("hasRun", status.hasRun);
  a.Object("image", status.image);
  a.Object("trainer", status.trainer);
  a.Field("nextWorkerOrdinal", status.nextWorkerOrdinal);
  DescribeOpen(a, status.openWorkers);
  DescribeMachines(a, status);
  a.Field("replicas", status.replicas);
  a.Field("readyReplicas", status.readyReplicas);
  DescribeClusters(a, status);
  a.Field("selector", status.selector);
  a.Field("stages", status.stages);
  a.Field("preemptions", status.preemptions);
  a.Field("failures", status.failures);
  a.Field("unexplained", status.unexplained);
  a.Field("failureTimes", status.failureTimes);
  a.Field("pools", status.pools);
  a.Field("nodes", status.nodes);
  a.Object("lastCheckpoint", status.lastCheckpoint);
  a.Field("startTime", status.startTime);
  a.Field("completionTime", status.completionTime);
}

Checked<SwarmJobStatus> StatusFromJson(const json& value) {
  std::vector<FieldError> errors;
  SwarmJobStatus status;
  ObjectReader reader(value, "status", &errors, UnknownKeys::kPassOver);
  if (reader.is_object()) Describe(reader, status);
  reader.Finish();
  if (!errors.empty()) return errors;
  return status;
}

json StatusSchema() {
  ObjectSchema schema(SchemaDefaults::kNone);
  SwarmJobStatus none;
  Describe(schema, none);
  return schema.Take();
}

json StatusToJson(const SwarmJobStatus& status) {
  ObjectWriter writer;
  SwarmJobStatus copy = status;
  Describe(writer, copy);
  return writer.Take();
}

}  // namespace swarm::api

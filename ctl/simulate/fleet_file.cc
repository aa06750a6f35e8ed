#include "ctl/simulate/fleet_file.h"

#include <utility>

#include "api/format/archive.h"
#include "api/format/yaml.h"
#include "api/parse.h"
#include "base/files.h"
#include "base/gibibytes.h"
#include "planner/fleet.h"
#include "worker/protocol/balance/policy_names.h"

namespace swarm::ctl {

using api::ObjectReader;

namespace {

constexpr double kMega = 1e6, kGiga = 1e9;
constexpr double kBits = 8;
constexpr double kMilli = 1e-3;
/// Of a token and parameter, forward and backward.
constexpr double kFlopsPerParameter = 6;
/// Weights in float32, and two moments.
constexpr double kStateBytes = 12;

/// A list by stage, or one number for all stages.
void ReadByStage(ObjectReader& reader, std::string_view key, std::vector<double>* values) {
  const nlohmann::json* value = reader.Find(key);
  if (value != nullptr && value->is_number()) {
    *values = {value->get<double>()};
  } else {
    reader.Field(key, *values);
  }
}

void ReadScaled(ObjectReader& reader, std::string_view key, double unit, double* value) {
  double number = *value / unit;
  reader.Field(key, number);
  *value = number * unit;
}

}  // namespace

// ObjectReader finds these by the namespace of what they describe.

static void Describe(ObjectReader& reader, FleetJob& job) {
  reader.Required("stages", job.stages);
  reader.Required("microbatches", job.microbatches);
  reader.Field("sequences", job.sequences);
  reader.Required("sequenceLength", job.sequence_length);
  api::StepMode mode = api::StepMode::kDelayed;
  reader.Field("stepMode", mode);
  job.delayed = mode == api::StepMode::kDelayed;
  ReadByStage(reader, "parameters", &job.parameters);
  ReadByStage(reader, "tokenGigaflops", &job.token_flops);
  for (double& flops : job.token_flops) flops *= kGiga;
  if (job.token_flops.empty()) {
    for (const double p : job.parameters) job.token_flops.push_back(kFlopsPerParameter * p);
  }
  reader.Field("forwardShare", job.forward_share);
  double hidden_size = 0, number_bytes = 2;
  reader.Field("hiddenSize", hidden_size);
  reader.Field("numberBytes", number_bytes);
  job.boundary_bytes = static_cast<double>(job.MicrobatchTokens()) * hidden_size * number_bytes;
  reader.Field("boundaryBytes", job.boundary_bytes);
  job.state_bytes = kStateBytes;
  reader.Field("stateBytesPerParameter", job.state_bytes);
  job.gradient_bytes = sizeof(float);
  reader.Field("gradientBytesPerParameter", job.gradient_bytes);
  ReadScaled(reader, "retainedGiB", kGibibyte, &job.retained_bytes);
  reader.Field("replicas", job.replicas);
  reader.Field("inFlightMax", job.in_flight_max);
  reader.Field("optimizerSeconds", job.optimizer_seconds);
  reader.Field("checkpointSteps", job.checkpoint_steps);
  reader.Field("balance", job.balance);
  reader.Field("balancePeriodSeconds", job.balance_period_seconds);
  reader.Field("reportsLinks", job.reports_links);
}

/// `trace` is read later: it names another file.
static void Describe(ObjectReader& reader, FleetGroup& group) {
  std::string name;
  std::uint64_t count = 0;
  reader.Required("name", name);
  reader.Field("count", count);
  api::Machine machine;
  api::ReadMachine(reader, &machine);
  group.machines = planner::MachinesOf(std::move(name), count, machine);
  ReadByStage(reader, "microbatchSeconds", &group.microbatch_seconds);
  reader.Field("jitter", group.jitter);
  reader.Field("noticeSeconds", group.notice_seconds);
  reader.Ignore({"trace"});
}

}  // namespace swarm::ctl

namespace swarm::planner {

static void Describe(api::ObjectReader& reader, Link& link) {
  std::vector<std::string> between;
  reader.Required("between", between);
  if (between.size() == 2) {
    link.a = between[0];
    link.b = between[1];
  } else {
    reader.Report(reader.PathOf("between"), "has " + std::to_string(between.size()) + " regions",
                  "two, or \"*\" for any");
  }
  ctl::ReadScaled(reader, "roundTripMs", ctl::kMilli, &link.round_trip_seconds);
  ctl::ReadScaled(reader, "mbps", ctl::kMega / ctl::kBits, &link.rate);
  ctl::ReadScaled(reader, "dollarsPerGB", 1 / ctl::kGiga, &link.dollars_per_byte);
}

}  // namespace swarm::planner

namespace swarm::ctl {

static void DescribeMachines(ObjectReader& reader, Fleet& fleet) {
  reader.Required("groups", fleet.groups);
  reader.Field("links", fleet.links);
  reader.Field("trainerRegion", fleet.trainer_region);
  reader.Field("seconds", fleet.seconds);
  reader.Field("warmUpSeconds", fleet.warm_up_seconds);
  reader.Field("detectSeconds", fleet.detect_seconds);
  reader.Field("restartSeconds", fleet.restart_seconds);
}

namespace {

/// The traces that the groups name.
void ReadTraces(const std::filesystem::path& folder, const nlohmann::json& json, Fleet* fleet,
                std::vector<api::FieldError>* errors) {
  for (std::size_t i = 0; i < fleet->groups.size(); ++i) {
    const nlohmann::json& group = json.at("groups").at(i);
    if (!group.is_object() || !group.contains("trace")) continue;
    const std::string path = "groups[" + std::to_string(i) + "].trace";
    if (!group["trace"].is_string()) {
      errors->push_back({path, "is not a text", "the path of a file"});
      continue;
    }
    const auto text = ReadFile(folder / group["trace"].get<std::string>());
    auto trace = text.ok() ? ParseTrace(*text) : Result<Trace>(text.status());
    if (trace.ok()) {
      fleet->groups[i].trace = *std::move(trace);
    } else {
      errors->push_back({path, trace.status().message(), "Bamboo's CSV or Parcae's JSON lines"});
    }
  }
}

api::Checked<Fleet> Read(const std::filesystem::path& path, bool with_job) {
  const auto text = ReadFile(path);
  if (!text.ok()) return api::FieldError{path.string(), text.status().message(), "a file"};
  const auto json = api::YamlToJson(*text);
  if (!json.ok()) return json.errors();
  Fleet fleet;
  std::vector<api::FieldError> errors;
  ObjectReader reader(*json, "", &errors);
  if (reader.is_object()) {
    if (with_job) {
      reader.RequiredObject("job", fleet.job);
    } else {
      reader.Ignore({"job"});
    }
    DescribeMachines(reader, fleet);
  }
  reader.Finish();
  if (!errors.empty()) return errors;
  ReadTraces(path.parent_path(), *json, &fleet, &errors);
  if (errors.empty()) errors = with_job ? Check(fleet) : CheckMachines(fleet);
  if (!errors.empty()) return errors;
  return fleet;
}

}  // namespace

api::Checked<Fleet> ReadFleet(const std::filesystem::path& path) { return Read(path, true); }

api::Checked<Fleet> ReadMachines(const std::filesystem::path& path) { return Read(path, false); }

}  // namespace swarm::ctl

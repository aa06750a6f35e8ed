#include "ctl/enrol/machine_check.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "api/model/decoder_config.h"
#include "api/parse.h"
#include "base/files.h"
#include "base/gibibytes.h"
#include "base/machine_memory.h"
#include "base/short_time.h"
#include "ctl/enrol/local_address.h"
#include "ctl/enrol/room.h"
#include "ctl/format.h"
#include "ctl/local_model.h"
#include "ctl/manifest_file.h"
#include "ctl/simulate/fleet_file.h"
#include "worker/processes/processes.h"

namespace swarm::ctl {
namespace {

constexpr const char* kProbe = "probe";
constexpr const char* kProbeSeconds = "0.5";  // of each measurement
constexpr Duration kProbeLimit = std::chrono::minutes(1);

/// Writes what home has told as a manifest of this machine, and reads it as the probe will.
Result<api::SwarmJob> KeepJob(const std::string& told, const std::filesystem::path& folder) {
  auto job = api::FromJsonText(told);
  if (!job.ok()) return DataLoss("home tells of a job that is none: " + ToString(job.errors()));
  api::Model& model = (*job).spec.model;
  if (model.init == api::ModelInit::kPretrained) {  // such a model is in a folder
    const std::filesystem::path where = std::filesystem::absolute(folder) / "model";
    model.uri = where.string();
    const api::DecoderConfig config = std::exchange(model.config, {});
    RETURN_IF_ERROR(WriteFile(where / "config.json", api::DecoderConfigToJson(config).dump(2)));
  }
  const std::filesystem::path manifest = folder / "manifest.json";
  RETURN_IF_ERROR(WriteFile(manifest, api::ToJsonText(*job)));
  job = LoadManifest(manifest.string(), {});
  const auto errors = job.ok() ? ReadKnownModel(&*job) : job.errors();
  if (!errors.empty()) {
    return DataLoss("home tells of a job that is not valid: " + ToString(errors));
  }
  return *std::move(job);
}

/// The last line of a log that is not empty.
std::string LastWords(const std::filesystem::path& log) {
  const Result<std::string> text = ReadFile(log);
  std::istringstream lines(text.ok() ? *text : "");
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

/// Runs the probe, which writes `fleet`.
Status RunProbe(const MachineCheck& check, const std::filesystem::path& fleet, Signals& signals) {
  std::vector<std::string> arguments = {"probe",
                                        "-f",
                                        (check.folder / "manifest.json").string(),
                                        "--out",
                                        fleet.string(),
                                        "--name",
                                        check.name,
                                        "--device",
                                        check.device,
                                        "--threads",
                                        std::to_string(check.threads),
                                        "--seconds",
                                        kProbeSeconds};
  if (!check.region.empty()) arguments.insert(arguments.end(), {"--region", check.region});
  Processes processes({check.program, check.folder / "workers"});
  RETURN_IF_ERROR(processes.Start({kProbe, WorkerRole::kStage, std::move(arguments)}));
  const Timepoint deadline = Clock::now() + kProbeLimit;
  for (;;) {
    const ObservedProgram probe = processes.Observe().front();
    if (probe.succeeded()) return Status();
    const std::string log = processes.LogOf(kProbe).string();
    if (probe.phase == Phase::kExited) {
      return Unavailable("swarmctl probe " + DescribeEnd(probe) + ": " + LastWords(log));
    }
    if (signals.token().stop_requested()) return Cancelled("interrupted before it has joined");
    if (Clock::now() >= deadline) {
      return DeadlineExceeded("swarmctl probe has not ended in " +
                              ShortTime(ToSeconds(kProbeLimit)) + "; its log: " + log);
    }
    processes.Wait(deadline, signals.fd());
  }
}

/// What the probe has found.
Result<planner::Machines> ReadProbe(const std::filesystem::path& fleet) {
  const auto read = ReadMachines(fleet);
  if (!read.ok()) return DataLoss(ToString(read.errors()));
  return read->groups.front().machines;
}

std::string TextOf(const planner::Machines& machine, const MachineCheck& check) {
  constexpr double kTera = 1e12;
  std::string text = "this machine: " + Format("%.3g", machine.flops / kTera) +
                     " teraflops on layers of the model";
  if (machine.device_bytes > 0) {
    text += ", " + GibibytesText(machine.device_bytes) + " free on " + check.device;
  } else {
    text +=
        " with " + std::to_string(check.threads) + (check.threads == 1 ? " thread" : " threads");
  }
  text += ", " + GibibytesText(machine.memory_bytes) + " of memory";
  if (const std::optional<Duration> trip = RoundTripTo(check.home)) {
    text += ", " + Format("%.3g", ToSeconds(*trip) * 1e3) + " ms from home and back";
  }
  return text;
}

}  // namespace

Status CheckMachine(const MachineCheck& check, Signals& signals,
                    const std::function<void(const std::string& text)>& say) {
  const auto unmeasured = [&](const Status& why) {
    if (why.code() == StatusCode::kCancelled) return why;
    say("this machine is not measured, and joins all the same: " + why.message());
    return Status();
  };
  if (check.job.empty()) {
    return unmeasured(NotFound("home does not tell what the job computes"));
  }
  const auto job = KeepJob(check.job, check.folder);
  if (!job.ok()) return unmeasured(job.status());
  const auto judge = [&](const planner::Machines& machine) {
    const std::string why = WhyNoRoom(*job, machine);
    return why.empty() ? Status() : FailedPrecondition(why);
  };
  // Without a probe, which needs memory, too.
  if (check.device == "cpu") {
    const double memory = static_cast<double>(UsableMemory());
    RETURN_IF_ERROR(judge({.memory_bytes = memory / static_cast<double>(check.workers)}));
  }
  const std::filesystem::path fleet = check.folder / "fleet.yaml";
  if (const Status status = RunProbe(check, fleet, signals); !status.ok()) {
    return unmeasured(status);
  }
  const auto machine = ReadProbe(fleet);
  if (!machine.ok()) return unmeasured(machine.status());
  say(TextOf(*machine, check) + "; " + fleet.string() + " describes it for swarmctl plan");
  return check.device == "cpu" ? Status() : judge(*machine);
}

}  // namespace swarm::ctl

#include "ctl/simulate/fleet/fleet.h"

#include <algorithm>
#include <numeric>

namespace swarm::ctl {
namespace {

/// More machines than that need more memory than one computer has: every worker knows all others.
constexpr std::uint64_t kWorkersMax = 20'000;
constexpr std::uint64_t kStagesMax = 256;

using Errors = std::vector<api::FieldError>;

void Expect(bool holds, const std::string& path, const std::string& problem,
            const std::string& remedy, Errors& errors) {
  if (!holds) errors.push_back({path, problem, remedy});
}

void CheckByStage(const std::vector<double>& values, const std::string& path, std::uint64_t stages,
                  Errors& errors) {
  Expect(values.size() == 1 || values.size() == stages, path,
         "has " + std::to_string(values.size()) + " values",
         "one, or one for each of the " + std::to_string(stages) + " stages", errors);
  Expect(std::ranges::all_of(values, [](double v) { return v > 0; }), path,
         "has a value that is not positive", "more than 0", errors);
}

std::uint64_t CountAtStart(const FleetGroup& group) {
  return group.trace.events.empty() ? group.machines.count
                                    : group.trace.events.front().joins.size();
}

void CheckNumbers(const planner::Machines& machines, const std::string& path, Errors& errors) {
  for (const double value :
       {machines.memory_bytes, machines.device_bytes, machines.disk, machines.disk_seconds_per_byte,
        machines.to_device, machines.from_device, machines.memory_rate, machines.update_rate,
        machines.upload, machines.download, machines.dollars_per_hour, machines.losses_per_hour,
        machines.return_seconds}) {
    Expect(value >= 0, path, "has a negative number", "0 or more", errors);
  }
}

void CheckGroup(const FleetGroup& group, const FleetJob& job, const std::string& path,
                Errors& errors) {
  Expect(!group.machines.name.empty(), path + ".name", "is empty", "a word", errors);
  Expect((group.machines.flops > 0) != !group.microbatch_seconds.empty(), path,
         "needs the speed of a machine", "either teraflops or microbatchSeconds", errors);
  if (!group.microbatch_seconds.empty()) {
    CheckByStage(group.microbatch_seconds, path + ".microbatchSeconds", job.stages, errors);
  }
  Expect(group.machines.flops >= 0, path + ".teraflops", "is negative", "more than 0", errors);
  Expect(group.machines.flops == 0 || !job.token_flops.empty(), "job.tokenGigaflops",
         "is missing, and " + group.machines.name + " has teraflops",
         "the work of a token, or microbatchSeconds instead of teraflops", errors);
  Expect(group.jitter >= 0 && group.jitter < 1, path + ".jitter", "is out of range",
         "from 0 to less than 1", errors);
  Expect(group.notice_seconds >= 0, path + ".noticeSeconds", "is negative", "0 or more", errors);
  CheckNumbers(group.machines, path, errors);
}

struct Assignment {
  std::vector<std::uint64_t> replicas;  ///< of each stage
  std::vector<double> rates;            ///< of each stage, microbatches a second
};

/// One machine after the other goes to the slowest stage.
Assignment Spread(const Fleet& fleet, const std::vector<std::uint64_t>& counts) {
  Assignment all{std::vector<std::uint64_t>(fleet.job.stages, 0),
                 std::vector<double>(fleet.job.stages, 0)};
  for (std::size_t g = 0; g < fleet.groups.size(); ++g) {
    for (std::uint64_t n = 0; n < counts[g]; ++n) {
      const auto slowest =
          static_cast<std::uint64_t>(std::ranges::min_element(all.rates) - all.rates.begin());
      all.rates[slowest] += 1 / MicrobatchSeconds(fleet.job, fleet.groups[g], slowest);
      ++all.replicas[slowest];
    }
  }
  return all;
}

}  // namespace

double AtStage(const std::vector<double>& by_stage, std::uint64_t stage) {
  if (by_stage.empty()) return 0;
  return by_stage.size() == 1 ? by_stage.front() : by_stage.at(stage);
}

double FleetJob::StateBytes(std::uint64_t stage) const {
  return AtStage(parameters, stage) * state_bytes;
}

double FleetJob::GradientBytes(std::uint64_t stage) const {
  return AtStage(parameters, stage) * gradient_bytes;
}

double MicrobatchSeconds(const FleetJob& job, const FleetGroup& group, std::uint64_t stage) {
  if (group.machines.flops <= 0) return AtStage(group.microbatch_seconds, stage);
  const double tokens = static_cast<double>(job.MicrobatchTokens());
  return tokens * AtStage(job.token_flops, stage) / group.machines.flops;
}

double IdealTokensPerSecond(const FleetJob& job, const FleetGroup& group) {
  double seconds = 0;
  for (std::uint64_t s = 0; s < job.stages; ++s) seconds += MicrobatchSeconds(job, group, s);
  return static_cast<double>(job.MicrobatchTokens()) / seconds;
}

std::vector<std::uint64_t> ReplicasAtStart(const Fleet& fleet) {
  if (!fleet.job.replicas.empty()) return fleet.job.replicas;
  std::vector<std::uint64_t> counts;
  for (const FleetGroup& group : fleet.groups) counts.push_back(CountAtStart(group));
  return Spread(fleet, counts).replicas;
}

double AssignedTokensPerSecond(const Fleet& fleet, const std::vector<std::uint64_t>& counts) {
  return std::ranges::min(Spread(fleet, counts).rates) *
         static_cast<double>(fleet.job.MicrobatchTokens());
}

Errors CheckMachines(const Fleet& fleet) {
  Errors errors;
  std::uint64_t machines = 0;
  for (std::size_t i = 0; i < fleet.groups.size(); ++i) {
    const FleetGroup& group = fleet.groups[i];
    const std::string path = "groups[" + std::to_string(i) + "]";
    Expect(!group.machines.name.empty(), path + ".name", "is empty", "a word", errors);
    Expect(group.machines.flops > 0, path + ".teraflops", "is missing",
           "the rate as achieved: times by stage do not say what other stages would take", errors);
    Expect(group.trace.events.empty(), path + ".trace", "says nothing about machines to come",
           "count, and lossesPerHour", errors);
    CheckNumbers(group.machines, path, errors);
    machines += group.machines.count;
  }
  Expect(machines >= 1 && machines <= kWorkersMax, "groups",
         "have " + std::to_string(machines) + " machines",
         "one, and at most " + std::to_string(kWorkersMax), errors);
  return errors;
}

Errors Check(const Fleet& fleet) {
  Errors errors;
  const FleetJob& job = fleet.job;
  Expect(job.stages >= 1 && job.stages <= kStagesMax, "job.stages", "is out of range",
         "from 1 to " + std::to_string(kStagesMax), errors);
  Expect(job.microbatches >= 1 && job.sequences >= 1 && job.sequence_length >= 1, "job",
         "has no work", "microbatches, sequences and sequenceLength of 1 or more", errors);
  CheckByStage(job.parameters, "job.parameters", job.stages, errors);
  if (!job.token_flops.empty()) {
    CheckByStage(job.token_flops, "job.tokenGigaflops", job.stages, errors);
  }
  Expect(job.forward_share > 0 && job.forward_share < 1, "job.forwardShare", "is out of range",
         "more than 0, less than 1", errors);
  for (const double value :
       {job.boundary_bytes, job.state_bytes, job.gradient_bytes, job.optimizer_seconds,
        job.retained_bytes, job.balance_period_seconds}) {
    Expect(value >= 0, "job", "has a negative number", "0 or more", errors);
  }
  Expect(fleet.seconds > fleet.warm_up_seconds && fleet.warm_up_seconds >= 0, "seconds",
         "is not longer than warmUpSeconds", "more", errors);
  std::uint64_t workers = 0;
  for (std::size_t i = 0; i < fleet.groups.size(); ++i) {
    CheckGroup(fleet.groups[i], job, "groups[" + std::to_string(i) + "]", errors);
    workers += CountAtStart(fleet.groups[i]);
  }
  const std::vector<std::uint64_t>& replicas = job.replicas;
  Expect(replicas.empty() ||
             (replicas.size() == job.stages && std::ranges::min(replicas) >= 1 &&
              std::accumulate(replicas.begin(), replicas.end(), std::uint64_t{0}) == workers),
         "job.replicas", "do not spread the machines over the stages",
         "a number of 1 or more for each stage, together the machines at the beginning", errors);
  Expect(workers >= job.stages && workers <= kWorkersMax, "groups",
         "have " + std::to_string(workers) + " machines at the beginning",
         "one for each stage, and at most " + std::to_string(kWorkersMax), errors);
  return errors;
}

}  // namespace swarm::ctl

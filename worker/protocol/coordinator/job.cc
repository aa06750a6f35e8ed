#include "worker/protocol/coordinator/job.h"

#include <algorithm>
#include <utility>

namespace swarm::protocol {

Job::Job(CoordinatorOptions job_options, Timepoint now)
    : options(std::move(job_options)),
      groups(ComputeReduceGroups(options.replicas.size(), options.tied_head, options.shared_basis)),
      phase(options.take_over ? Phase::kTakingOver : Phase::kWaiting),
      phase_since(now),
      generation(options.generation),
      version(options.first_version),
      begin_uri(options.resume_uri),
      begin_manifest(options.resume_manifest),
      last_step(options.max_steps) {}

Version Job::VersionFor(Step step) const {
  return Version(options.delayed && step.value > 0 ? step.value - 1 : step.value);
}

RowName Job::NameOf(Step step, Microbatch microbatch) const {
  return {options.term, generation, step, microbatch, VersionFor(step)};
}

std::uint64_t Job::OpenStepsEnd() const {
  return std::min(version.value + (options.delayed ? 2 : 1), last_step);
}

Welcome Job::WelcomeTo(StageIndex stage) const {
  return {.term = options.term,
          .generation = generation,
          .job_json = options.job_json,
          .stage = stage,
          .stage_count = stages(),
          .version = version,
          .checkpoint_uri = begin_uri,
          .floor = {options.term, attempts + 1},
          .manifest = begin_manifest};
}

double Job::UnixTime(Timepoint time) const {
  return options.unix_epoch + ToSeconds(time.time_since_epoch());
}

}  // namespace swarm::protocol

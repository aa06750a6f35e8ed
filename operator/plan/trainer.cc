#include "operator/plan/trainer.h"

#include <algorithm>

#include "api/model/layout.h"
#include "operator/plan/observed_workers.h"
#include "operator/plan/pods/grace_period.h"
#include "operator/plan/pods/pod_ends.h"
#include "operator/plan/pods/pod_health.h"
#include "operator/plan/pods/pod_wait.h"
#include "operator/plan/pools/creation_limits.h"

namespace swarm::plan {
namespace {

using std::chrono::seconds;

/// How long after its grace period a trainer still may end in order.
constexpr seconds kStopSlack{15};

/// The layout that the trainer waits for before it begins.
std::vector<std::uint64_t> FirstLayout(const api::SwarmJob& job) {
  const std::uint64_t least = std::max(job.spec.workers.minReplicas, job.spec.pipeline.stages);
  auto layout = api::ComputeReplicas(job, std::to_string(least));
  return layout.ok() ? *std::move(layout) : std::vector<std::uint64_t>(job.spec.pipeline.stages, 1);
}

void Create(std::uint64_t term, Draft* draft) {
  draft->plan.actions.push_back(ApplyChild{Child::kConfig});
  draft->plan.actions.push_back(CreateTrainer{term, FirstLayout(draft->job)});
}

/// Terms that JSON keeps exactly. No job gets so far; a trainer that claims more is not believed.
constexpr std::uint64_t kTermMax = std::uint64_t{1} << 53;

/// Reserves the next term: above the one in the status and above every one that a trainer reported.
void BeginTerm(Draft* draft) {
  if (draft->finished()) return;
  api::TrainerStatus& trainer = draft->status().trainer;
  std::uint64_t term = trainer.term;
  if (draft->seen.trainer) {
    const std::uint64_t reported = draft->seen.trainer->status.term.value;
    if (reported < kTermMax) term = std::max(term, reported);
  }
  trainer = {.term = term + 1, .podName = "", .generation = draft->seen.job.generation};
  if (!draft->status().startTime) draft->status().startTime = draft->now();
  Create(trainer.term, draft);
}

/// The pod of the current term is not visible.
void OnAbsent(Draft* draft) {
  const std::uint64_t term = draft->status().trainer.term;
  const Creation* creation = FindCreation(draft->seen, PodRole::kTrainer, term);
  if (creation != nullptr) {
    if (!creation->made && MayCreate(draft)) Create(term, draft);
    return;
  }
  const auto end = GivenUpAt(draft->seen, PodRole::kTrainer, term);
  if (end && draft->now() < *end) return draft->LookAgain(*end);
  if (!draft->status().trainer.podName.empty()) {
    CountEnd(PodRole::kTrainer, draft->status().trainer.podName, {.health = Health::kEnds}, draft);
    draft->Warn(api::Reason::kTrainerLost,
                draft->status().trainer.podName + " is gone; the operator starts the next trainer");
  }
  BeginTerm(draft);
}

/// Counts the end and reserves the next term in one write, so a back-off delays both.
void OnEnd(const ObservedPod& pod, const Judgement& end, Draft* draft) {
  std::optional<WallTime> failed;
  if (end.cause == Cause::kFailed) failed = EndTimeOf(pod);
  const auto until = HeldBackUntil(draft->evidence, PodRole::kTrainer, draft->status(), failed);
  if (!end.fatal && until) return draft->LookAgain(*until);
  CountEnd(PodRole::kTrainer, pod.name, end, draft);
  if (draft->finished()) return;
  const api::Reason reason = end.cause == Cause::kPreempted ? api::Reason::kTrainerPreempted
                             : end.cause == Cause::kFailed  ? api::Reason::kTrainerFailed
                                                            : api::Reason::kTrainerLost;
  draft->Warn(reason, pod.name + ": " + end.words + "; the next trainer takes over");
  BeginTerm(draft);
}

/// Sees to a trainer that no node fits while its manifest changes. A pod's affinity, tolerations
/// and requests cannot be changed, so the next trainer follows the manifest if that has another
/// part of a trainer. Else the pod waits on, and reads the manifest of today once it has a node.
void FollowManifest(const ObservedPod& pod, Draft* draft) {
  api::TrainerStatus& trainer = draft->status().trainer;
  const ObservedJob& job = draft->seen.job;
  if (!IsUnschedulable(pod) || trainer.generation == job.generation) return;
  if (pod.made_of == job.trainer_part) {
    trainer.generation = job.generation;
    draft->plan.actions.push_back(ApplyChild{Child::kConfig});
  } else if (MayCreate(draft)) {
    draft->Tell(api::Reason::kTrainerReplaced,
                "no node fits " + pod.name + "; the next trainer follows the changed manifest");
    BeginTerm(draft);
  }
}

}  // namespace

const ObservedPod* FindTrainer(const Draft& draft) {
  const auto it = std::ranges::find_if(draft.seen.pods, [&draft](const ObservedPod& pod) {
    return pod.role == PodRole::kTrainer && pod.number == draft.plan.status.trainer.term;
  });
  return it == draft.seen.pods.end() ? nullptr : &*it;
}

void ResumeTrainer(Draft* draft) { BeginTerm(draft); }

void DecideTrainer(Draft* draft) {
  api::TrainerStatus& trainer = draft->status().trainer;
  if (trainer.term == 0) return BeginTerm(draft);
  const ObservedPod* pod = FindTrainer(*draft);
  if (pod == nullptr) return OnAbsent(draft);
  trainer.podName = pod->name;
  const Judgement judgement = JudgePod(draft->evidence, *pod);
  if (judgement.look_again) draft->LookAgain(*judgement.look_again);
  if (judgement.health == Health::kDone) return draft->Succeed();
  if (judgement.health == Health::kEnds) return OnEnd(*pod, judgement, draft);
  FollowManifest(*pod, draft);
}

bool StopTrainer(Draft* draft) {
  const ObservedPod* pod = FindTrainer(*draft);
  if (pod == nullptr) return true;
  const Judgement judgement = JudgePod(draft->evidence, *pod);
  if (judgement.health == Health::kDone) {
    draft->Succeed();
    return true;
  }
  if (pod->end || pod->phase == PodPhase::kFailed) return true;
  if (!pod->deleted) {
    draft->plan.actions.push_back(DeletePod{pod->name, pod->uid, kTrainerGraceSeconds});
    return pod->node.empty();
  }
  // A pod's deletion time is the end of its grace period.
  const WallTime deadline = *pod->deleted + kStopSlack;
  if (draft->now() >= deadline) return true;
  draft->LookAgain(deadline);
  return false;
}

}  // namespace swarm::plan

#include "operator/plan/evidence.h"

#include <algorithm>
#include <tuple>

#include "operator/plan/pods/pod_wait.h"

namespace swarm::plan {
namespace {

bool GoesBefore(const ObservedPod& a, const ObservedPod& b) {
  const auto place = [](const ObservedPod& pod) {
    return std::tuple(pod.role != PodRole::kTrainer, BoundAt(pod), std::string_view(pod.name));
  };
  return place(a) < place(b);
}

}  // namespace

Evidence::Evidence(const Observed& observed) : seen_(observed) {
  if (observed.trainer) LookAtTrainer(observed.trainer->status);
  LookAtPods();
}

void Evidence::LookAtTrainer(const protocol::JobStatus& status) {
  const auto& job = seen_.job.job;
  for (const protocol::StageStatus& stage : status.stages) {
    if (job && stage.stage.value >= job->spec.pipeline.stages) continue;
    for (const protocol::StageStatus::Worker& worker : stage.workers) {
      listed_[worker.id.value].push_back({stage.stage.value, &worker});
    }
  }
  for (const protocol::Eviction& each : status.evicted) evicted_[each.worker.value] = &each;
  for (const protocol::WorkerId& id : status.spares) spares_.insert(id.value);
}

void Evidence::LookAtPods() {
  for (const ObservedPod& pod : seen_.pods) {
    if (pod.role == PodRole::kWorker) {
      for (std::string& worker : names::WorkersOf(pod.name, pod.workers)) {
        pods_.emplace(std::move(worker), &pod);
      }
    }
    if (pod.phase == PodPhase::kRunning && nodes_.size() < 2 &&
        std::ranges::find(nodes_, pod.node) == nodes_.end()) {
      nodes_.push_back(pod.node);
    }
    if (pod.phase == PodPhase::kRunning || pod.end) {
      (pod.role == PodRole::kTrainer ? trainer_had_image_ : worker_had_image_) = true;
    }
    if (!pod.deleted && WaitsForImage(pod) &&
        (first_in_line_ == nullptr || GoesBefore(pod, *first_in_line_))) {
      first_in_line_ = &pod;
    }
  }
}

std::vector<ListedWorker> Evidence::WorkersOf(const ObservedPod& pod) const {
  std::vector<ListedWorker> workers;
  for (const std::string& worker : names::WorkersOf(pod.name, pod.workers)) {
    const auto found = listed_.find(worker);
    if (found == listed_.end()) continue;
    workers.insert(workers.end(), found->second.begin(), found->second.end());
  }
  std::ranges::stable_sort(workers, {}, &ListedWorker::stage);
  return workers;
}

bool Evidence::HasSpare(const ObservedPod& pod) const {
  return !spares_.empty() &&
         std::ranges::any_of(names::WorkersOf(pod.name, pod.workers),
                             [this](const std::string& each) { return spares_.contains(each); });
}

const protocol::Eviction* Evidence::EvictionOf(const ObservedPod& pod) const {
  const protocol::Eviction* last = nullptr;
  if (evicted_.empty()) return last;
  for (const std::string& worker : names::WorkersOf(pod.name, pod.workers)) {
    const auto found = evicted_.find(worker);
    if (found == evicted_.end()) continue;
    if (last == nullptr || last < found->second) last = found->second;  // both of one vector
  }
  return last;
}

const ObservedPod* Evidence::PodOf(const std::string& worker) const {
  const auto found = pods_.find(worker);
  return found == pods_.end() ? nullptr : found->second;
}

bool Evidence::RunsElsewhere(const ObservedPod& pod) const {
  return std::ranges::any_of(nodes_, [&pod](std::string_view node) { return node != pod.node; });
}

bool Evidence::HasHadImage(PodRole role) const {
  return role == PodRole::kTrainer ? trainer_had_image_ : worker_had_image_;
}

bool Evidence::IsFirstInLine(const ObservedPod& pod) const {
  return first_in_line_ == nullptr || !GoesBefore(*first_in_line_, pod);
}

}  // namespace swarm::plan

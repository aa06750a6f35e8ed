#include "worker/protocol/coordinator/step/validation.h"

#include <algorithm>
#include <utility>

namespace swarm::protocol {

void Validation::OnNewVersion() {
  const std::uint64_t interval = job_.options.validation_interval_steps;
  const std::uint64_t version = job_.version.value;
  const bool due = interval > 0 && (version % interval == 0 || version == job_.last_step);
  if (job_.options.validation_microbatches == 0 || !due) return;
  Begin(job_.version);
}

void Validation::BeginAgain() {
  IssueAgainIf([](const Way&) { return true; });
  if (pass_) Begin(pass_->version);
}

void Validation::Begin(Version version) {
  pass_.emplace();
  pass_->version = version;
  for (std::uint64_t m = 0; m < job_.options.validation_microbatches; ++m) {
    pass_->missing.insert(Microbatch(m));
  }
}

bool Validation::Issue(Turn& turn) {
  if (!HasUnissued()) return false;
  const auto route = router_.Draw();
  if (!route) return false;
  const Microbatch microbatch = *pass_->missing.begin();
  pass_->missing.erase(microbatch);
  Forward frame;
  frame.kind = TaskKind::kEvaluate;
  frame.version = pass_->version;
  frame.end = StageIndex(job_.stages());
  for (const WorkerId& worker : *route) frame.hops.push_back({worker, job_.NextAttempt(), false});
  frame.key = {job_.generation, Step(pass_->version.value), microbatch, StageIndex(0),
               frame.hops[0].attempt};
  pass_->open[microbatch] = {frame.hops, turn.now};
  turn.orders.push_back(order::Issue{std::move(frame)});
  return true;
}

void Validation::OnEvaluated(const WorkerId& from, const TaskReport& report) {
  if (!pass_) return;
  const auto way = pass_->open.find(report.key.microbatch);
  if (way == pass_->open.end() || way->second.hops.back().worker != from ||
      way->second.hops.back().attempt != report.key.attempt) {
    return;
  }
  Release(way->second);
  pass_->open.erase(way);
  pass_->losses[report.key.microbatch] = report.loss;
}

void Validation::FinishIfKnown(Turn& turn) {
  if (!pass_ || pass_->losses.size() < job_.options.validation_microbatches) return;
  if (!members_.HaveReported(pass_->version)) return;
  double sum = 0;
  for (const auto& [microbatch, loss] : pass_->losses) sum += loss;
  loss_ = sum / static_cast<double>(pass_->losses.size()) / job_.options.validation_counted_part;
  turn.orders.push_back(order::Validated{pass_->version, loss_});
  pass_.reset();
}

bool Validation::Needs(const WorkerId& worker, StageIndex stage) const {
  return pass_ && std::any_of(pass_->open.begin(), pass_->open.end(), [&](const auto& entry) {
           return entry.second.hops[stage.value].worker == worker;
         });
}

void Validation::Lose(const WorkerId& worker) {
  IssueAgainIf([&](const Way& way) {
    return std::any_of(way.hops.begin(), way.hops.end(),
                       [&](const Hop& hop) { return hop.worker == worker; });
  });
}

void Validation::IssueAgainAfter(Duration patience, Timepoint now) {
  IssueAgainIf([&](const Way& way) { return now - way.since >= patience; });
}

template <typename Predicate>
void Validation::IssueAgainIf(Predicate is_lost) {
  if (!pass_) return;
  for (auto it = pass_->open.begin(); it != pass_->open.end();) {
    const auto entry = it++;
    if (!is_lost(entry->second)) continue;
    Release(entry->second);
    pass_->missing.insert(entry->first);
    pass_->open.erase(entry);
  }
}

void Validation::Release(const Way& way) {
  for (const Hop& hop : way.hops) router_.Release(hop.worker);
}

}  // namespace swarm::protocol

#include "worker/protocol/replica/commit_queue.h"

#include <algorithm>
#include <string>
#include <utility>

namespace swarm::protocol {
namespace {

/// Each needs memory for the gradients of a step.
constexpr std::uint64_t kFetchesMax = 4;
/// Steps between two writes of the trainer's account, ten seconds apart, at fifty a second.
constexpr std::size_t kPastStepsMax = 512;

}  // namespace

Actions CommitQueue::OnCommit(const Commit& commit) {
  const CommitRecord& record = commit.record;
  const auto refused = standing_.WhyRefuseControl(commit.term, record.generation);
  if (!refused.empty()) {
    return Refused(refused, {record.generation, record.step, {}, standing_.stage(), {}});
  }
  Actions actions;
  Release(std::max(commit.keep_from, OldestKept()), actions);
  const auto same = [&](const CommitRecord& c) { return c.step == record.step; };
  const bool known =
      standing_.IsCommitted(record.step) || std::any_of(commits_.begin(), commits_.end(), same);
  if (known) return actions;  // idempotent
  commits_.push_back(record);
  Advance(actions);
  return actions;
}

Step CommitQueue::OldestKept() const {
  // What it fetches for itself needs room, too.
  const std::uint64_t room = standing_.options.kept_steps_max;
  const std::uint64_t kept =
      std::max(room - std::min<std::uint64_t>(room, fetches_.size()), kKeptStepsMin);
  return Step(standing_.version.value - std::min(kept, standing_.version.value));
}

void CommitQueue::Release(Step below, Actions& actions) {
  kept_from_ = std::max(kept_from_, below);
  actions.push_back(action::ReleaseSums{below});
}

void CommitQueue::Advance(Actions& actions) {
  FetchWhatIsNotHeld(actions);
  ApplyIfReady(actions);
}

void CommitQueue::FetchWhatIsNotHeld(Actions& actions) {
  const std::uint64_t room = standing_.options.kept_steps_max / 2;
  const std::uint64_t ahead = std::clamp<std::uint64_t>(room, 1, kFetchesMax);
  for (std::size_t i = 0; i < std::min<std::size_t>(commits_.size(), ahead); ++i) {
    const CommitRecord& record = commits_[i];
    if (record.skip || folds_.Holds(record) || !fetches_.try_emplace(record.step, false).second) {
      continue;
    }
    actions.push_back(action::FetchGradients{record});
  }
}

void CommitQueue::ApplyIfReady(Actions& actions) {
  if (applying_ || commits_.empty()) return;
  const CommitRecord& record = commits_.front();
  if (record.step.value != standing_.version.value) {
    actions.push_back(action::Rejoin{"the record of step " + std::to_string(record.step.value) +
                                     " came to a worker that holds version " +
                                     std::to_string(standing_.version.value)});
    return;
  }
  const auto fetch = fetches_.find(record.step);
  if (record.skip || (fetch == fetches_.end() ? folds_.Holds(record) : fetch->second)) {
    applying_ = true;
    will_hold_ = folds_.HoldsParts(record);
    actions.push_back(action::ApplyCommit{record, will_hold_});
  }
}

Actions CommitQueue::OnGradientsFetched(Step step) {
  const auto fetch = fetches_.find(step);
  if (fetch == fetches_.end()) return {};
  fetch->second = true;
  Actions actions;
  ApplyIfReady(actions);
  return actions;
}

void CommitQueue::OnApplied() {
  applying_ = false;
  holds_ = will_hold_;
  if (last_applied_) {
    past_.push_back(std::move(*last_applied_));
    for (GroupResult& group : past_.back().groups) group.holders.clear();  // it is for logs alone
  }
  if (past_.size() > kPastStepsMax) past_.pop_front();
  last_applied_ = std::move(commits_.front());
  commits_.pop_front();
  fetches_.erase(last_applied_->step);
}

void CommitQueue::Describe(Holding* holding) const {
  holding->holds = holds_;
  holding->past.assign(past_.begin(), past_.end());
  if (last_applied_) holding->records.push_back(*last_applied_);
  holding->records.insert(holding->records.end(), commits_.begin(), commits_.end());
}

}  // namespace swarm::protocol

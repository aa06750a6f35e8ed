#include "worker/protocol/replica/replica.h"

#include <algorithm>
#include <utility>

namespace swarm::protocol {

Replica::Replica(ReplicaOptions options)
    : standing_(std::move(options)),
      folds_(&standing_),
      tasks_(&standing_, &folds_),
      commits_(&standing_, &folds_),
      copies_(&standing_, &commits_) {}

Actions Replica::OnControl(const Message& message) {
  return std::visit(
      [this](const auto& m) -> Actions {
        using M = std::decay_t<decltype(m)>;
        if constexpr (std::is_same_v<M, Roster>) {
          return OnRoster(m);
        } else if constexpr (std::is_same_v<M, RosterChange>) {
          return OnRosterChange(m);
        } else if constexpr (std::is_same_v<M, Resend>) {
          return OnResend(m);
        } else if constexpr (std::is_same_v<M, Redirect>) {
          return OnRedirect(m);
        } else if constexpr (std::is_same_v<M, Revoke>) {
          return OnRevoke(m);
        } else if constexpr (std::is_same_v<M, Void>) {
          return OnVoid(m);
        } else if constexpr (std::is_same_v<M, Thaw>) {
          return OnThaw(m);
        } else if constexpr (std::is_same_v<M, Rollback>) {
          return OnRollback(m);
        } else if constexpr (std::is_same_v<M, Takeover>) {
          return OnTakeover(m);
        } else if constexpr (std::is_same_v<M, HandOver>) {
          return OnHandOver(m);
        } else if constexpr (std::is_same_v<M, Reduce>) {
          return OnReduce(m);
        } else if constexpr (std::is_same_v<M, Commit>) {
          return OnCommit(m);
        } else if constexpr (std::is_same_v<M, WriteCheckpoint>) {
          return OnWriteCheckpoint(m);
        } else if constexpr (std::is_same_v<M, PinState>) {
          return OnPinState(m);
        } else if constexpr (std::is_same_v<M, UnpinState>) {
          return OnUnpinState(m);
        } else {
          return {};
        }
      },
      message);
}

Actions Replica::OnRoster(const Roster& roster) {
  const auto refused = standing_.WhyRefuseControl(roster.term, roster.generation);
  if (!refused.empty()) return Refused(refused, {});
  if (roster.epoch < standing_.roster.epoch) return {};
  return Adopt(roster);
}

Actions Replica::OnRosterChange(const RosterChange& change) {
  const auto refused = standing_.WhyRefuseControl(change.term, change.generation);
  if (!refused.empty()) return Refused(refused, {});
  if (change.epoch != standing_.roster.epoch.Next()) return Refused("epoch", {});
  return Adopt(change);
}

template <typename Next>
Actions Replica::Adopt(const Next& next) {
  if (!standing_.Adopt(next)) {
    return {action::Rejoin{"this worker is not in the roster any more"}};
  }
  Actions actions;
  for (const Adoption& adoption : next.adoptions) {
    for (const Contribution& c : folds_.Adopt(adoption, actions)) {
      tasks_.NoteGone({generation(), adoption.step, c.microbatch, standing_.stage(), c.attempt});
    }
  }
  return actions;
}

Actions Replica::OnVoid(const Void& message) {
  const auto refused = standing_.WhyRefuseControl(message.term, message.generation);
  if (!refused.empty()) return Refused(refused, {});
  Actions actions;
  if (!standing_.IsCommitted(message.step)) {
    tasks_.CloseFolding(message.step, actions);
    folds_.Void(message, actions);
    tasks_.ForgetClosed(actions);
  }
  actions.push_back(action::Tell{Voided{message.generation, message.step, message.number}});
  return actions;
}

Actions Replica::OnThaw(const Thaw& thaw) {
  const auto refused = standing_.WhyRefuseControl(thaw.term, thaw.generation);
  if (!refused.empty()) return Refused(refused, {});
  if (!folds_.Thaw(thaw.step)) return {};
  Actions actions{action::StopReduces{thaw.step}};
  tasks_.StartParked(actions);
  return actions;
}

Actions Replica::OnRollback(const Rollback& rollback) {
  if (!standing_.Promise(rollback.term)) return Refused("term", {});
  if (rollback.generation <= generation()) return Refused("generation", {});
  return {action::BeginAnew{rollback}};
}

Actions Replica::OnTakeover(const Takeover& takeover) {
  if (!standing_.Promise(takeover.term)) return Refused("term", {});
  standing_.floor = std::max(standing_.floor, Attempt{takeover.term, 0});
  Actions actions;
  if (standing_.options.rules.refuse_unlisted_attempts) tasks_.CloseAll(actions);
  copies_.Clear();
  Holding holding{takeover.term,    generation(), standing_.options.self,  standing_.version,
                  standing_.roster, {},           folds_.Describe(actions)};
  commits_.Describe(&holding);
  actions.push_back(action::Tell{std::move(holding)});
  return actions;
}

Actions Replica::OnHandOver(const HandOver& message) {
  const auto refused = standing_.WhyRefuseControl(message.term, message.generation);
  if (!refused.empty()) return Refused(refused, {});
  if (standing_.IsCommitted(message.step) || folds_.IsFrozen(message.step)) return {};
  Actions actions;
  tasks_.CloseFolding(message.step, actions);
  folds_.HandOver(message, actions);
  return actions;
}

Actions Replica::OnApplied(Step step) {
  commits_.OnApplied();
  standing_.version = Version(step.value + 1);
  Actions actions;
  tasks_.Close(step, actions);
  folds_.Forget(step, actions);
  tasks_.Forget(step);
  actions.push_back(action::ReleaseStep{step});
  commits_.ReleaseOldest(actions);
  Append(actions, copies_.OnVersion());
  tasks_.StartParked(actions);
  Append(actions, folds_.OnVersion());
  commits_.Advance(actions);
  return actions;
}

Actions Replica::OnStateRead(Step step, const Digest& state, std::vector<PartDigest> parts) {
  return {
      action::Tell{Committed{generation(), step, state, commits_.kept_from(), std::move(parts)}}};
}

}  // namespace swarm::protocol

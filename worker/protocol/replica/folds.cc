#include "worker/protocol/replica/folds.h"

#include <algorithm>
#include <utility>

namespace swarm::protocol {

bool FoldState::IsFrozen() const {
  return std::any_of(groups.begin(), groups.end(),
                     [](const auto& group) { return group.second.reduce.has_value(); });
}

bool FoldState::Knows(Microbatch microbatch, const Attempt& attempt) const {
  const auto known = latest.find(microbatch);
  return attempt < floor || (known != latest.end() && attempt <= known->second);
}

const FoldState* Folds::Find(Step step) const {
  const auto it = steps_.find(step);
  return it == steps_.end() ? nullptr : &it->second;
}

bool Folds::IsFrozen(Step step) const {
  const FoldState* state = Find(step);
  return state != nullptr && state->IsFrozen();
}

std::string_view Folds::WhyRefuse(const TaskKey& key) const {
  const FoldState* state = Find(key.step);
  if (state == nullptr) return {};
  if (state->handed_over) return "closed attempt";
  if (state->folded.contains(key.microbatch)) return "folded already";
  if (state->Knows(key.microbatch, key.attempt)) return "closed attempt";
  return {};
}

bool Folds::IsClosed(const TaskKey& key) const {
  const FoldState* state = Find(key.step);
  return state != nullptr && state->Knows(key.microbatch, key.attempt);
}

bool Folds::MayFold(const TaskKey& key) const {
  const FoldState* state = Find(key.step);
  if (standing_.IsCommitted(key.step) || state == nullptr) return false;
  if (state->IsFrozen() || state->handed_over) return false;
  return !state->folded.contains(key.microbatch) && state->latest.at(key.microbatch) == key.attempt;
}

void Folds::Close(const TaskKey& key) {
  Attempt& latest = steps_[key.step].latest[key.microbatch];
  latest = std::max(latest, key.attempt);
}

bool Folds::HasFolded(const TaskKey& key) const {
  const FoldState* state = Find(key.step);
  if (state == nullptr) return false;
  const auto folded = state->folded.find(key.microbatch);
  return folded != state->folded.end() && folded->second.attempt == key.attempt;
}

ClaimSet Folds::FoldSet(Step step) const {
  ClaimSet set{standing_.stage(), {}};
  if (const FoldState* state = Find(step)) {
    for (const auto& [microbatch, c] : state->folded) set.microbatches.push_back(microbatch);
  }
  return set;
}

Actions Folds::OnReduce(const Reduce& reduce) {
  const TaskKey key{reduce.generation, reduce.step, {}, standing_.stage(), reduce.k};
  const auto refused = standing_.WhyRefuseControl(reduce.term, reduce.generation);
  if (!refused.empty()) return Refused(refused, key);
  if (standing_.IsCommitted(reduce.step)) return Refused("committed step", key);
  // Still replaying earlier commits; or, with holders, it has not the moments of that version.
  const bool early = !standing_.CanRead(reduce.step) ||
                     (!reduce.holders.empty() && reduce.step.value > standing_.version.value);
  if (early) {
    early_reduces_[{reduce.step, reduce.group}] = reduce;
    return {};
  }
  FoldState& state = steps_[reduce.step];
  FrozenGroup& group = state.groups[reduce.group];
  if (group.reduce && reduce.k <= group.reduce->k) return Refused("reduce attempt", key);
  const ClaimSet folded = FoldSet(reduce.step);
  const bool takes_part = std::ranges::find(reduce.participants, standing_.options.self.id) !=
                              reduce.participants.end() &&
                          reduce.claims.stage == standing_.stage();
  const bool same = takes_part && reduce.level == state.level &&
                    (reduce.claims == folded || !standing_.options.rules.compare_claims);
  if (!same) {
    return {action::Tell{
        ReduceRefused{reduce.generation, reduce.step, reduce.group, reduce.k, folded}}};
  }
  group.reduce = reduce;
  group.digest.reset();
  return {action::StartReduce{reduce}};
}

Actions Folds::OnGroupReduced(Step step, GroupIndex index, Attempt k, const Digest& digest,
                              std::vector<TensorNorm> norms, std::vector<PartDigest> parts) {
  const auto it = steps_.find(step);
  if (it == steps_.end()) return {};
  FrozenGroup& group = it->second.groups[index];
  if (!group.reduce || group.reduce->k != k) return {};  // thawed, or a higher attempt has begun
  group.digest = digest;
  return {action::Tell{Reduced{standing_.options.generation, step, index, k, digest,
                               std::move(norms), std::move(parts)}}};
}

void Folds::Void(const protocol::Void& message, Actions& actions) {
  FoldState& state = steps_[message.step];
  state.folded.clear();
  state.groups.clear();
  state.handed_over = false;  // the sums that were handed over are cleared
  std::erase_if(early_reduces_, [&](auto& entry) { return entry.first.first == message.step; });
  state.floor = message.number;
  state.level = message.level;
  actions.push_back(action::StopReduces{message.step});
  actions.push_back(action::ClearStep{message.step, message.level});
}

bool Folds::Thaw(Step step) {
  std::erase_if(early_reduces_, [&](auto& entry) { return entry.first.first == step; });
  const auto it = steps_.find(step);
  if (standing_.IsCommitted(step) || it == steps_.end()) return false;
  it->second.groups.clear();
  it->second.handed_over = false;
  return true;
}

void Folds::HandOver(const protocol::HandOver& message, Actions& actions) {
  FoldState& state = steps_[message.step];
  state.handed_over = true;
  action::SendParcel parcel{message.heir, message.step, state.level, {}};
  for (const auto& [microbatch, c] : state.folded) parcel.contributions.push_back(c);
  actions.push_back(std::move(parcel));
}

Actions Folds::OnParcel(const WorkerId& donor, Step step, Generation generation,
                        std::uint64_t level, std::vector<Contribution> contributions) {
  if (generation != standing_.options.generation || standing_.IsCommitted(step) ||
      standing_.evicted.contains(donor) || level != steps_[step].level) {
    return {action::DropParcel{donor, step}};
  }
  Actions actions;
  if (standing_.options.rules.adopt_only_by_roster) {
    steps_[step].parcels[donor] = contributions;
  } else {
    for (const Contribution& c : contributions) steps_[step].folded[c.microbatch] = c;
    actions.push_back(action::AdoptParcel{donor, step});
  }
  actions.push_back(action::Tell{ParcelHeld{generation, step, donor, std::move(contributions)}});
  return actions;
}

std::vector<Contribution> Folds::Adopt(const Adoption& adoption, Actions& actions) {
  const auto it = steps_.find(adoption.step);
  if (adoption.heir != standing_.options.self.id || it == steps_.end()) return {};
  FoldState& state = it->second;
  auto parcel = state.parcels.extract(adoption.donor);
  if (parcel.empty()) return {};
  const bool overlaps =
      std::any_of(parcel.mapped().begin(), parcel.mapped().end(),
                  [&](const Contribution& c) { return state.folded.contains(c.microbatch); });
  if (overlaps) {  // the claims will differ, and the trainer repairs the step by them
    actions.push_back(action::DropParcel{adoption.donor, adoption.step});
    return {};
  }
  for (const Contribution& c : parcel.mapped()) state.folded[c.microbatch] = c;
  actions.push_back(action::AdoptParcel{adoption.donor, adoption.step});
  return std::move(parcel.mapped());
}

std::vector<HeldStep> Folds::Describe(Actions& actions) {
  std::vector<HeldStep> steps;
  for (auto& [step, state] : steps_) {
    for (const auto& [donor, parcel] : state.parcels) {
      actions.push_back(action::DropParcel{donor, step});
    }
    state.parcels.clear();
    state.handed_over = false;  // the trainer that asked for it is gone
    HeldStep held{step, state.level, {}, {}};
    for (const auto& [microbatch, c] : state.folded) held.folded.push_back(c);
    for (const auto& [index, group] : state.groups) {
      if (!group.reduce) continue;
      held.reduces.push_back({index, group.reduce->k, group.reduce->participants});
    }
    steps.push_back(std::move(held));
  }
  return steps;
}

bool Folds::HoldsSum(Step step, const GroupResult& result) {
  const FrozenGroup& group = steps_[step].groups[result.group];
  if (!group.reduce || !group.digest) return false;
  if (!standing_.options.rules.compare_k) return true;
  // A holder knows the digests of its parts alone; k stands for them.
  return group.reduce->k == result.k &&
         (!result.holders.empty() || *group.digest == result.digest);
}

bool Folds::Holds(const CommitRecord& record) {
  return std::ranges::all_of(standing_.options.groups, [&](GroupIndex index) {
    return std::ranges::any_of(record.groups, [&](const GroupResult& result) {
      return result.group == index && HoldsSum(record.step, result);
    });
  });
}

bool Folds::HoldsParts(const CommitRecord& record) {
  return std::ranges::all_of(record.groups, [&](const GroupResult& result) {
    return result.holders.empty() ||
           std::ranges::count(standing_.options.groups, result.group) == 0 ||
           HoldsSum(record.step, result);
  });
}

void Folds::Forget(Step step, Actions& actions) {
  for (const auto& [donor, parcel] : steps_[step].parcels) {
    actions.push_back(action::DropParcel{donor, step});
  }
  steps_.erase(step);
  std::erase_if(early_reduces_, [&](const auto& entry) { return entry.first.first <= step; });
}

Actions Folds::OnVersion() {
  Actions actions;
  for (const auto& [name, reduce] : std::exchange(early_reduces_, {})) {
    Append(actions, OnReduce(reduce));
  }
  return actions;
}

}  // namespace swarm::protocol

#include "tests/simulation/invariants.h"

#include <algorithm>
#include <tuple>

#include "worker/protocol/roster.h"

namespace swarm::simulation {

using protocol::CommitRecord;
using protocol::Version;

namespace {

std::string StepText(const CommitRecord& record) {
  return "step " + std::to_string(record.step.value) + " of generation " +
         std::to_string(record.generation.value);
}

/// Everything but the k and the holders.
bool SameDecision(CommitRecord a, CommitRecord b) {
  for (CommitRecord* record : {&a, &b}) {
    record->generation = {};
    for (protocol::GroupResult& group : record->groups) {
      group.k = {};
      group.holders.clear();
      group.magnitude_bits.clear();
    }
  }
  return a == b;
}

}  // namespace

void Audit::Fail(const std::string& invariant, const std::string& text) {
  world_.Log("AUDIT", [&] { return invariant + " violated: " + text; });
  if (!violation_) violation_ = Violation{invariant, text};
}

void Audit::OnReduceStarted(const WorkerId& worker, const protocol::Reduce& reduce,
                            const Shares& before) {
  ReduceState& state = reduces_[{{reduce.generation, reduce.step}, reduce.group, reduce.k}];
  state.participants = reduce.participants.size();
  state.before[worker] = before;
}

void Audit::CheckShares(protocol::GroupIndex group, const CommitRecord& record) {
  const auto result = std::ranges::find(record.groups, group, &protocol::GroupResult::group);
  if (result == record.groups.end() || record.skip) return;
  auto& counted = counted_[{record.generation, group}];
  Shares now;
  const auto& reduce = reduces_[{{record.generation, record.step}, group, result->k}];
  for (const auto& [worker, shares] : reduce.before) {
    for (const Share& share : shares) {
      bool once = now.insert(share).second && share.first < record.step &&
                  (record.step.value - share.first.value) % job_.fragments != 0;
      for (const auto& [step, before] : counted) {
        const bool same =
            step < record.step && (record.step.value - step.value) % job_.fragments == 0;
        once = once && !(same && before.contains(share));
      }
      if (once) continue;
      Fail("AtMostOnce", StepText(record) + ": microbatch " + std::to_string(share.second.value) +
                             " of step " + std::to_string(share.first.value) + ", which " +
                             worker.value + " moved with, counts twice in a fragment");
    }
  }
  counted[record.step] = std::move(now);
}

void Audit::OnReduced(const WorkerId& worker, const protocol::Reduce& reduce,
                      const std::vector<std::optional<Element>>& sum) {
  ReduceState& state = reduces_[{{reduce.generation, reduce.step}, reduce.group, reduce.k}];
  state.finished.insert(worker);
  state.sum.resize(sum.size());
  for (std::size_t e = 0; e < sum.size(); ++e) {
    if (!sum[e]) continue;
    if (state.sum[e] && state.sum[e] != sum[e]) {
      Fail("AllOrNothing", worker.value + " holds another sum than others for one k, step " +
                               std::to_string(reduce.step.value));
    }
    state.sum[e] = sum[e];
  }
}

void Audit::OnRoster(const protocol::Roster& roster) {
  const auto age = [](const protocol::Roster& r) {
    return std::tuple(r.term, r.generation, r.epoch);
  };
  if (age(roster) > age(roster_)) roster_ = roster;
}

void Audit::OnRosterChange(const protocol::RosterChange& change) {
  const bool follows = change.term == roster_.term && change.generation == roster_.generation &&
                       change.epoch == roster_.epoch.Next();
  if (follows) protocol::Apply(change, &roster_);
}

bool Audit::TakesPart(Pid pid) const {
  return world_.IsAlive(pid) && protocol::FindMember(roster_, world_.name(pid)) != nullptr;
}

void Audit::OnDecided(const CommitRecord& record, const std::vector<WorkerId>& members) {
  auto& decided = decided_[{record.generation, record.step}];
  if (std::find(decided.begin(), decided.end(), record) != decided.end()) return;
  CheckDecision(record, members);
  decided.push_back(record);
  ++decisions_;
}

void Audit::CheckDecision(const CommitRecord& record, const std::vector<WorkerId>& members) {
  for (const Application& other : applied_[{record.generation, record.step}]) {
    if (other.record == record) return;  // a superseded trainer decided it
    const bool counts =
        world_.IsAlive(other.pid) &&
        std::find(members.begin(), members.end(), world_.name(other.pid)) != members.end();
    if (!counts) continue;
    Fail("AllOrNothing", StepText(record) + " is decided otherwise than " +
                             world_.name(other.pid).value + " has applied");
  }
  for (const protocol::GroupResult& result : record.groups) {
    const auto it = reduces_.find({{record.generation, record.step}, result.group, result.k});
    const std::string what = StepText(record) + ", group " + std::to_string(result.group.value);
    std::vector<Element> sum;
    for (std::uint64_t e = 0; it != reduces_.end() && e < it->second.sum.size(); ++e) {
      if (it->second.sum[e]) sum.push_back(*it->second.sum[e]);
    }
    if (sum.size() < kElements) {
      Fail("AllOrNothing", what + ": no worker holds the decided sum");
      continue;
    }
    const ReduceState& reduce = it->second;
    if (reduce.finished.size() != reduce.participants) {
      Fail("AllOrNothing", what + ": decided when " + std::to_string(reduce.finished.size()) +
                               " of " + std::to_string(reduce.participants) +
                               " participants held the sum");
    }
    if (DigestOf(job_, result.group, sum) != result.digest) {
      Fail("AllOrNothing", what + ": the digest decided is none of the sum");
    }
    CheckCounts(sum, result.group, what);
  }
  if (!job_.order_sensitive && !SameDecision(record, reference_.step(record.step).record)) {
    Fail("SameTrajectory", StepText(record) + ": loss, norm or digests differ from the reference");
  }
}

void Audit::CheckCounts(std::span<const Element> sum, protocol::GroupIndex group,
                        const std::string& what) {
  for (const Element& element : sum) {
    if (element.counts == CompleteCounts(job_, group)) continue;
    char counts[32];
    std::snprintf(counts, sizeof counts, "%llx", static_cast<unsigned long long>(element.counts));
    Fail("ExactlyOnce", what + ": contributions by microbatch " + std::string(counts));
    return;
  }
}

void Audit::OnApplied(Pid pid, protocol::StageIndex stage, const CommitRecord& record,
                      const std::vector<std::vector<Element>>& sums, const StageState& state) {
  const WorkerId& worker = world_.name(pid);
  const Digest digest = DigestOf(state);
  const auto groups = GroupsOf(job_, stage);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (IsDivided(job_, groups[i])) continue;
    CheckCounts(sums[i], groups[i], StepText(record) + " as " + worker.value + " applies it");
    for (const protocol::GroupResult& result : record.groups) {
      if (result.group == groups[i] &&
          result.digest != DigestOf(std::span<const Element>(sums[i]))) {
        Fail("AllOrNothing", worker.value + " applies " + StepText(record) + " with other sums");
      }
    }
  }
  auto& applications = applied_[{record.generation, record.step}];
  for (const Application& other : applications) {
    if (!TakesPart(pid) || !TakesPart(other.pid)) continue;
    const std::string who = worker.value + " and " + world_.name(other.pid).value;
    if (other.record != record) {
      Fail("AllOrNothing", who + " apply different records of " + StepText(record));
    } else if (other.stage == stage && other.state != digest) {
      Fail("SameTrajectory", who + " hold different weights after " + StepText(record));
    }
  }
  if (TakesPart(pid)) CheckShares(groups.front(), record);
  applications.push_back({pid, stage, record, digest});
  if (!job_.order_sensitive && !Agree(state, reference_.state(state.version, stage))) {
    Fail("SameTrajectory",
         worker.value + " holds other weights than the reference after " + StepText(record));
  }
}

void Audit::OnLoaded(const WorkerId& worker, protocol::StageIndex stage, const StageState& state) {
  if (!job_.order_sensitive && !Agree(state, reference_.state(state.version, stage))) {
    Fail("SameTrajectory", worker.value +
                               " begins with other weights than the reference has at "
                               "version " +
                               std::to_string(state.version.value));
  }
}

void Audit::OnValidated(Version version, double loss) {
  if (!job_.order_sensitive && loss != reference_.ValidationLoss(version)) {
    Fail("SameTrajectory",
         "the validation loss of version " + std::to_string(version.value) + " differs");
  }
}

void Audit::OnSettled(const std::vector<protocol::StageLoad>& stages) {
  const std::size_t spread = protocol::CountSpread(stages), most = protocol::MostSpread(stages);
  if (spread == most) return;
  Fail("TwoRegions", std::to_string(spread) + " stages are in two regions, " +
                         std::to_string(most) + " can be: " + protocol::DescribeOneRegion(stages));
}

void Audit::OnControlCarriedOut(const WorkerId& worker, protocol::Term promised,
                                protocol::Term term) {
  if (term < promised) {
    Fail("Fencing", worker.value + " has promised term " + std::to_string(promised.value) +
                        " and obeys term " + std::to_string(term.value));
  }
}

}  // namespace swarm::simulation

// WorkerProcess: what is copied between replicas: the state that a joiner begins with, the sums of
// steps that it took no part in, the accumulators of a leaver.
#include <algorithm>

#include "tests/simulation/worker_process.h"

namespace swarm::simulation {
namespace {

using protocol::FetchKind;
using std::chrono::milliseconds;

constexpr Duration kAnswerMin = milliseconds(300);
constexpr Duration kAnswerMax = milliseconds(1000);
constexpr std::size_t kEarlyFetchesMax = 256;

/// The state in pieces: (version, value), in the order of versions.
std::vector<Element> PiecesOf(const StageState& state) {
  std::vector<Element> pieces;
  for (const auto& [version, weights] : state.weights) {
    for (const std::uint64_t weight : weights) pieces.push_back({weight, version.value});
  }
  return pieces;
}

}  // namespace

void WorkerProcess::Serve(const WorkerId& from, const protocol::Fetch& fetch) {
  protocol::Fetched fetched{
      fetch.generation, fetch.kind, fetch.version, fetch.group, fetch.k, fetch.piece, 0, {}};
  Payload payload;
  const bool of_part = fetch.kind == FetchKind::kMoments || fetch.kind == FetchKind::kWeights;
  fetched.part = fetch.part;
  const auto pinned = pinned_.find(fetch.version);
  const auto sum = sums_.find({protocol::Step(fetch.version.value), fetch.group});
  if (!replica_ || fetch.generation != generation_) {
    fetched.error = "another generation";
  } else if (of_part) {
    if (!ServePart(fetch, &fetched, &payload)) {
      if (early_fetches_.size() < kEarlyFetchesMax) early_fetches_.emplace_back(from, fetch);
      return;
    }
  } else if (fetch.kind == FetchKind::kGradient) {
    if (sum == sums_.end() || sum->second.k != fetch.k) {
      fetched.error = "it is not here";
    } else {
      fetched.pieces = kElements;
      payload.elements.push_back(sum->second.elements.at(fetch.piece));
    }
  } else if (pinned == pinned_.end()) {
    fetched.error = "it is not pinned here";
  } else {
    const bool mixed = simulation_.mutations().mixed_join;
    std::vector<Element> pieces = PiecesOf(mixed ? state_ : pinned->second);
    fetched.pieces = pieces.size();
    if (fetch.kind == FetchKind::kStateIndex) {
      for (Element& piece : pieces) piece.value = Mix(piece.value);
      payload.elements = std::move(pieces);
    } else {
      payload.elements.push_back(pieces.at(fetch.piece));
      const bool damaged = world_.Chance(simulation_.scenario().corrupt_probability);
      if (damaged) payload.elements[0].value ^= 1;
    }
  }
  SendToPeer(from, Lane::kData, {fetched, std::move(payload)});
}

void WorkerProcess::BeginCopy(const protocol::Welcome& welcome) {
  copy_.emplace();
  copy_->welcome = welcome;
  for (const protocol::Member& donor : welcome.donors) copy_->donors.push_back(donor.id);
  AskForState();
}

void WorkerProcess::AskForState() {
  Copy& copy = *copy_;
  if (!copy.index.empty() && copy.pieces.size() == copy.index.size()) {
    FinishCopy();
    return;
  }
  if (copy.donors.empty()) {
    Rejoin("no donor answers");
    return;
  }
  protocol::Fetch fetch{
      copy.welcome.generation, FetchKind::kStateIndex, copy.welcome.version, {}, {}, 0};
  if (!copy.index.empty()) {
    fetch.kind = FetchKind::kState;
    while (copy.pieces.contains(fetch.piece)) ++fetch.piece;
  }
  copy.request = ++requests_;
  SendToPeer(copy.donors.front(), Lane::kControl, {fetch, {}});
  Later(world_.Draw(kAnswerMin, kAnswerMax), [this, request = copy.request] {
    if (copy_ && copy_->request == request) NextDonor();
  });
}

void WorkerProcess::NextDonor() {
  copy_->donors.pop_front();
  AskForState();
}

void WorkerProcess::OnStateFetched(const WorkerId& from, const protocol::Fetched& fetched,
                                   const Payload& payload) {
  if (!copy_ || copy_->donors.empty() || copy_->donors.front() != from ||
      fetched.version != copy_->welcome.version ||
      fetched.generation != copy_->welcome.generation) {
    return;
  }
  if (!fetched.error.empty()) {
    NextDonor();
    return;
  }
  Copy& copy = *copy_;
  const bool is_index = fetched.kind == FetchKind::kStateIndex;
  if (is_index != copy.index.empty()) return;  // a late answer
  ++copied_;
  if (is_index) {
    copy.index = payload.elements;
  } else {
    const bool intact = simulation_.mutations().mixed_join ||
                        Mix(payload.elements.at(0).value) == copy.index.at(fetched.piece).value;
    if (intact) copy.pieces[fetched.piece] = payload.elements.at(0).value;
  }
  // Pieces come from all donors in turn; a damaged one is asked for again, from another.
  copy.donors.push_back(copy.donors.front());
  copy.donors.pop_front();
  AskForState();
}

void WorkerProcess::FinishCopy() {
  const Copy copy = *std::move(copy_);
  copy_.reset();
  StageState state;
  state.version = copy.welcome.version;
  for (const auto& [piece, value] : copy.pieces) {
    state.weights[protocol::Version(copy.index[piece].counts)].push_back(value);
  }
  if (DigestOf(state) != copy.welcome.state && !simulation_.mutations().mixed_join) {
    Rejoin("the state copied is not the one announced");
    return;
  }
  BeginServing(copy.welcome.generation, std::move(state), false);
}

// ---- sums of steps that are decided ----

void WorkerProcess::AskForGradients(GradientFetch& fetch) {
  const protocol::Step step = fetch.record.step;
  if (fetch.peers.empty()) {
    Rejoin("no worker has the gradients of step " + std::to_string(step.value));
    return;
  }
  for (const protocol::GroupResult& result : fetch.record.groups) {
    const auto got = fetch.got.find(result.group);
    if (got == fetch.got.end()) continue;
    for (std::uint64_t e = 0; e < kElements; ++e) {
      if (got->second[e]) continue;
      fetch.request = ++requests_;
      SendToPeer(fetch.peers.front(), Lane::kControl,
                 {protocol::Fetch{generation_, FetchKind::kGradient, protocol::Version(step.value),
                                  result.group, result.k, e},
                  {}});
      Later(world_.Draw(kAnswerMin, kAnswerMax), [this, step, request = fetch.request] {
        const auto it = fetches_.find(step);
        if (it != fetches_.end() && it->second.request == request) NextGradientPeer(it->second);
      });
      return;
    }
  }
  for (const protocol::GroupResult& result : fetch.record.groups) {
    const auto got = fetch.got.find(result.group);
    if (got == fetch.got.end()) continue;
    Sum sum{result.k, {}};
    for (const auto& element : got->second) sum.elements.push_back(*element);
    sums_[{step, result.group}] = std::move(sum);
  }
  // Sums that others made at another scale must be read at that scale.
  const auto own = std::find_if(fetch.record.groups.begin(), fetch.record.groups.end(),
                                [&](const auto& r) { return r.group == groups_.front(); });
  Do(protocol::action::ClearStep{step, own->level});
  fetches_.erase(step);
  Carry(replica_->OnGradientsFetched(step));
}

void WorkerProcess::NextGradientPeer(GradientFetch& fetch) {
  fetch.peers.pop_front();
  AskForGradients(fetch);
}

void WorkerProcess::OnGradientFetched(const WorkerId& from, const protocol::Fetched& fetched,
                                      const Payload& payload) {
  const auto it = fetches_.find(protocol::Step(fetched.version.value));
  if (it == fetches_.end() || fetched.generation != generation_) return;
  GradientFetch& fetch = it->second;
  if (fetch.peers.empty() || fetch.peers.front() != from) return;
  if (!fetched.error.empty()) {
    NextGradientPeer(fetch);
    return;
  }
  const auto got = fetch.got.find(fetched.group);
  if (got == fetch.got.end() || got->second.at(fetched.piece)) return;
  ++copied_;
  got->second[fetched.piece] = payload.elements.at(0);
  AskForGradients(fetch);
}

// ---- parts ----

bool WorkerProcess::ServePart(const protocol::Fetch& fetch, protocol::Fetched* fetched,
                              Payload* payload) const {
  fetched->pieces = 1;
  if (fetch.kind == FetchKind::kMoments) {
    const auto moment = state_.moments.find({fetch.group, fetch.part});
    if (state_.version != fetch.version || moment == state_.moments.end()) {
      fetched->error = "it is not here";
    } else {
      payload->elements.push_back({moment->second, 0});
    }
    return true;
  }
  const auto updated = updated_.find({protocol::Step(fetch.version.value), fetch.group});
  if (updated != updated_.end() && updated->second.contains(fetch.part)) {
    payload->elements.push_back(updated->second.at(fetch.part));
    return true;
  }
  fetched->error = "it is not here any more";
  return fetch.version < state_.version || application_;
}

void WorkerProcess::AskForMoments(const protocol::Reduce& reduce) {
  bool missing = false;
  for (std::uint64_t p = 0; p < reduce.holders.size(); ++p) {
    const protocol::PartHolders& holders = reduce.holders[p];
    if (!holders.Has(id_) || state_.moments.contains({reduce.group, p})) continue;
    missing = true;
    SendToPeer(holders.first == id_ ? holders.second : holders.first, Lane::kControl,
               {protocol::Fetch{generation_,
                                FetchKind::kMoments,
                                protocol::Version(reduce.step.value),
                                reduce.group,
                                {},
                                0,
                                p},
                {}});
  }
  if (!missing) return;
  Later(world_.Draw(kAnswerMin, kAnswerMax), [this, reduce] {
    const auto active = reduces_.find({reduce.step, reduce.group});
    if (active != reduces_.end() && active->second.reduce.k == reduce.k) AskForMoments(reduce);
  });
}

void WorkerProcess::OnMomentsFetched(const protocol::Fetched& fetched, const Payload& payload) {
  const bool is_late = !replica_ || fetched.generation != generation_ ||
                       fetched.version != state_.version || application_;
  if (is_late || !fetched.error.empty()) return;
  const auto active = reduces_.find({protocol::Step(fetched.version.value), fetched.group});
  if (active == reduces_.end()) return;
  ++copied_;
  state_.moments.emplace(protocol::PartName{fetched.group, fetched.part},
                         payload.elements.at(0).value);
  FinishReduceIfDone(active->second);
}

void WorkerProcess::AskForWeights(protocol::Step step, bool second) {
  if (!application_ || application_->record.step != step || application_->missing.empty()) return;
  for (const auto& [name, missing] : application_->missing) {
    const protocol::PartHolders& holders = missing.holders;
    const bool other = holders.first == id_ || (second && holders.second != id_);
    if (other && holders.second.empty()) continue;
    SendToPeer(other ? holders.second : holders.first, Lane::kControl,
               {protocol::Fetch{generation_,
                                FetchKind::kWeights,
                                protocol::Version(step.value),
                                name.group,
                                {},
                                0,
                                name.part},
                {}});
  }
  Later(world_.Draw(kAnswerMin, kAnswerMax),
        [this, step, second] { AskForWeights(step, !second); });
}

void WorkerProcess::OnWeightsFetched(const WorkerId& from, const protocol::Fetched& fetched,
                                     const Payload& payload) {
  if (!replica_ || fetched.generation != generation_ || !application_ ||
      application_->record.step.value != fetched.version.value) {
    return;
  }
  const auto missing = application_->missing.find({fetched.group, fetched.part});
  if (missing == application_->missing.end()) return;
  if (!fetched.error.empty()) {
    missing->second.refused.insert(from);
    const protocol::PartHolders& holders = missing->second.holders;
    const bool alone = holders.second.empty() || holders.Has(id_);
    if (missing->second.refused.size() == (alone ? 1 : 2)) {
      Rejoin("no worker has the weights of a part");
    }
    return;
  }
  ++copied_;
  const Element& element = payload.elements.at(0);
  application_->next[missing->second.at] = element.value;
  wrong_weights_ |= element.counts != 0;
  application_->missing.erase(missing);
  if (application_->missing.empty()) PostState([this] { FinishApply(); });
}

// ---- parcels ----

void WorkerProcess::OnParcel(const WorkerId& from, const protocol::Parcel& parcel,
                             const Payload& payload) {
  if (!replica_ || parcel.generation != generation_ || parcel.stage != stage_) return;
  HeldParcel& held = parcels_[{from, parcel.step}];
  held.contributions = parcel.contributions;
  held.groups[parcel.group] = payload.elements;
  held.finite = parcel.finite;
  held.shares = payload.shares;
  if (held.groups.size() < groups_.size()) return;
  Carry(
      replica_->OnParcel(from, parcel.step, parcel.generation, parcel.level, parcel.contributions));
}

}  // namespace swarm::simulation

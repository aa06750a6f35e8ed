// WorkerProcess: what its compute thread does, one thing after the other, and the sums with others.
#include <algorithm>
#include <bit>

#include "tests/simulation/worker_process.h"
#include "worker/protocol/grid/reduce_grid.h"

namespace swarm::simulation {
namespace {

using protocol::ReduceChunk;
using std::chrono::microseconds;

/// Stands for memory that was never written.
constexpr std::uint64_t kGarbage = 0xdeadbeefdeadbeef;
constexpr std::size_t kEarlyChunksMax = 256;

std::uint64_t Read(const std::optional<std::uint64_t>& value) { return value.value_or(kGarbage); }

}  // namespace

void WorkerProcess::Later(Duration delay, std::function<void()> event) {
  world_.After(pid_, delay, [this, life = life_, event = std::move(event)] {
    if (gone_ || life != life_) return;
    event();
    if (!gone_) CheckBounds();
  });
}

void WorkerProcess::PostState(std::function<void()> job) {
  state_jobs_.push_back(std::move(job));
  Compute();
}

protocol::Heartbeat WorkerProcess::Beat() const {
  return {.term = promised_,
          .compute_progress = computed_,
          .queued_tasks = (replica_ ? replica_->queued() : 0) + state_jobs_.size(),
          .copied_bytes = copied_};
}

void WorkerProcess::Compute() {
  if (hangs_) return;
  while (!computing_ && !state_jobs_.empty()) {
    const auto job = std::move(state_jobs_.front());
    state_jobs_.pop_front();
    job();
  }
  if (computing_ || jobs_.empty()) return;
  const std::size_t pick = world_.Chance(0.3) ? world_.rng().Below(jobs_.size()) : 0;
  const Job job = jobs_[pick];
  jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(pick));
  RunTask(job);
}

void WorkerProcess::RunTask(const Job& job) {
  computing_ = true;
  const Scenario& scenario = simulation_.scenario();
  const Duration drawn = world_.Draw(scenario.compute_min, scenario.compute_max);
  const Duration took = std::chrono::duration_cast<Duration>(drawn * slowness_);
  Later(took, [this, job, took] {
    if (hangs_) return;
    ++computed_;
    const protocol::Cost cost{ToSeconds(took), 8};
    if (job.backward) {
      const std::uint64_t taken = TakenBy(job);
      const bool fits = FinishBackward(job);
      computing_ = false;
      Carry(replica_->OnBackwardDone(job.key, cost, fits, {taken, GivenBy(job)}));
    } else {
      const double loss = FinishForward(job);
      computing_ = false;
      const std::uint64_t given = MixAll(std::bit_cast<std::uint64_t>(loss), GivenBy(job));
      Carry(replica_->OnForwardDone(job.key, loss, cost, {TakenBy(job), given}));
    }
    if (!gone_) Compute();
  });
}

const Weights& WorkerProcess::WeightsOf(protocol::Version version) const {
  static const Weights garbage{kGarbage};
  // There is only one buffer: a reader of the previous version finds this one.
  if (simulation_.mutations().overwrite_early) version = state_.version;
  const auto it = state_.weights.find(version);
  return it == state_.weights.end() ? garbage : it->second;
}

Weights WorkerProcess::WeightsOfTask(protocol::Version version) const {
  Weights weights = WeightsOf(version);
  for (const auto& [step, moved] : moved_) weights.push_back(moved);
  return weights;
}

double WorkerProcess::FinishForward(const Job& job) {
  const auto it = tasks_.find(job.key);
  const bool is_last = stage_.value + 1 == job_.stages();
  if (it == tasks_.end()) {  // dropped meanwhile
    if (!is_last) outputs_[job.key] = kGarbage;
    return 0;
  }
  Task& task = it->second;
  task.has_graph = job.keep_graph;
  const Weights weights = job.keep_graph ? WeightsOfTask(task.version) : WeightsOf(task.version);
  const std::uint64_t x = ForwardOf(Read(task.x), weights, stage_.value);
  if (is_last) return LossOf(x, task.tokens);
  outputs_[job.key] = x;
  return 0;
}

std::uint64_t WorkerProcess::TakenBy(const Job& job) const {
  const auto it = tasks_.find(job.key);
  if (simulation_.scenario().audit_fraction == 0 || it == tasks_.end()) return 0;
  if (job.backward) return Read(it->second.g);
  return MixAll(Read(it->second.x), EmbedTokens(it->second.tokens));
}

std::uint64_t WorkerProcess::GivenBy(const Job& job) const {
  const auto& sent = job.backward ? gradients_ : outputs_;
  const auto it = sent.find(job.key);
  std::uint64_t given = it == sent.end() ? 0 : it->second;
  const auto task = tasks_.find(job.key);
  if (!job.backward || task == tasks_.end()) return given;
  for (const std::vector<Element>& group : task->second.fresh) {
    for (const Element& element : group) given = MixAll(given, element.value);
  }
  return given;
}

bool WorkerProcess::FinishBackward(const Job& job) {
  const auto it = tasks_.find(job.key);
  std::uint64_t gradient = kGarbage;
  if (it != tasks_.end() && it->second.has_graph) {
    Task& task = it->second;
    const Weights weights = WeightsOfTask(task.version);
    const std::uint64_t x = Read(task.x);
    const bool is_last = stage_.value + 1 == job_.stages();
    const std::uint64_t g =
        is_last ? LossGradientOf(ForwardOf(x, weights, stage_.value), task.tokens) : Read(task.g);
    gradient = InputGradientOf(g, x, weights, stage_.value);
    task.fresh = ContributionOf(g, x, weights, stage_.value, groups_, job.key.microbatch.value);
    // Members of the roster may be a commit behind, so that no audit asks them.
    if (flips_gradient_ && job_.replicas[stage_.value] >= 3 && CountReplicas() >= 3) {
      flips_gradient_ = false;
      (stage_.value > 0 && world_.Chance(0.5) ? gradient : task.fresh.front().front().value) ^= 1;
    }
    if (job_.local) {
      std::uint64_t& moved = moved_[job.key.step];
      moved = MixAll(moved, task.fresh.front().front().value);
    }
  }
  if (stage_.value > 0) gradients_[job.key] = gradient;
  const auto accumulator = accumulators_.find(job.key.step);
  const std::uint64_t level = accumulator == accumulators_.end() ? 0 : accumulator->second.level;
  return level >= LevelNeeded(job_, job.key.step, stage_.value, job.key.microbatch.value);
}

void WorkerProcess::Apply(const protocol::CommitRecord& record, bool holds) {
  if (!state_.weights.contains(state_.version)) {
    simulation_.audit().Fail("SameTrajectory", id_.value + " has no weights of its own version");
    return;
  }
  Application& application = application_.emplace();
  application.record = record;
  application.next = state_.weights.at(state_.version);
  const std::uint64_t level = AccumulatorOf(record.step).level;
  std::size_t at = 0;
  for (const protocol::GroupIndex group : groups_) {
    const auto sum = sums_.find({record.step, group});
    if (!IsDivided(job_, group)) {
      if (record.skip) break;  // a worker that took no part has no sums and needs none
      if (sum == sums_.end()) {
        simulation_.audit().Fail("AllOrNothing",
                                 id_.value + " applies a sum that it does not hold");
        return;
      }
      application.sums.push_back(sum->second.elements);
      std::uint64_t& weight = application.next[at++];
      weight = Update(record, level, sum->second.elements, weight, nullptr);
      continue;
    }
    application.sums.emplace_back();
    const auto result = std::ranges::find(record.groups, group, &protocol::GroupResult::group);
    for (std::uint64_t e = 0; e < kElements; ++e, ++at) {
      const protocol::PartName name{group, e};
      const bool own = holds && result->holders[e].Has(id_);
      if (!own) {
        if (!record.skip) application.missing[name] = {result->holders[e], at, {}};
        continue;
      }
      const auto moment = state_.moments.find(name);
      if (moment == state_.moments.end() || sum == sums_.end() || sum->second.k != result->k) {
        simulation_.audit().Fail("AllOrNothing", id_.value + " updates a part that it lacks");
        return;
      }
      std::uint64_t next = moment->second;
      application.next[at] = Update(record, level, std::span(sum->second.elements).subspan(e, 1),
                                    application.next[at], &next);
      application.moments[name] = next;
      // What it alone holds nobody can compare.
      if (flips_weights_ && !result->holders[e].second.empty() && !record.skip) {
        flips_weights_ = false;
        wrong_weights_ = true;
        application.next[at] ^= 1;
      }
      updated_[{record.step, group}][e] = {application.next[at], wrong_weights_ ? 1u : 0u};
    }
  }
  for (auto& [from, fetch] : std::exchange(early_fetches_, {})) Serve(from, fetch);
  if (application.missing.empty()) return FinishApply();
  AskForWeights(record.step, false);
}

void WorkerProcess::FinishApply() {
  const Application application = *std::move(application_);
  application_.reset();
  const protocol::CommitRecord& record = application.record;
  const std::vector<std::vector<Element>>& sums = application.sums;
  Advance(job_, application.next, &state_);
  state_.moments = application.moments;
  KeepShares(record);
  // What follows from wrong weights is wrong, too; the others must not follow it.
  if (!wrong_weights_) simulation_.audit().OnApplied(pid_, stage_, record, sums, state_);
  if (flips_weights_ && CountReplicas() > 1) {
    flips_weights_ = false;
    wrong_weights_ = true;
    state_.weights.at(state_.version).front() ^= 1;
  }
  computing_ = true;
  Later(world_.Draw(microseconds(50), std::chrono::milliseconds(2)),
        [this, step = record.step, digest = ReportDigest(), parts = ReportParts()] {
          computing_ = false;
          Later(DrawReadOfState(),
                [=, this] { Carry(replica_->OnStateRead(step, digest, parts)); });
          Carry(replica_->OnApplied(step));
          if (!gone_) Compute();
        });
}

Duration WorkerProcess::DrawReadOfState() {
  using std::chrono::milliseconds;
  const Duration takes = world_.Chance(0.1) ? world_.Draw(milliseconds(5), milliseconds(200))
                                            : world_.Draw(microseconds(0), milliseconds(5));
  state_read_ = std::max(state_read_, world_.now()) + takes;
  return state_read_ - world_.now();
}

std::int64_t WorkerProcess::CountReplicas() const {
  return std::ranges::count(replica_->roster().members, stage_, &protocol::Member::stage);
}

Digest WorkerProcess::ReportDigest() {
  Digest digest = DigestOf(state_);
  if (std::exchange(flips_digest_, false)) digest.low ^= 1;
  return digest;
}

std::vector<protocol::PartDigest> WorkerProcess::ReportParts() const {
  std::vector<protocol::PartDigest> parts;
  const std::vector<protocol::PartName> names = PartsOf(job_, stage_);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto moment = state_.moments.find(names[i]);
    if (moment == state_.moments.end()) continue;
    parts.push_back({names[i], {state_.weights.at(state_.version)[i], moment->second}});
  }
  return parts;
}

Shares WorkerProcess::SharesBefore(protocol::Step step) {
  Shares shares = AccumulatorOf(step).adopted;
  const Shares& kept = kept_shares_[step.value % job_.fragments];
  shares.insert(kept.begin(), kept.end());
  return shares;
}

void WorkerProcess::KeepShares(const protocol::CommitRecord& record) {
  const std::uint64_t due = record.step.value % job_.fragments;
  const Shares& folded = AccumulatorOf(record.step).folded;
  for (std::uint64_t f = 0; f < job_.fragments; ++f) {
    if (f == due) {
      kept_shares_[f].clear();
    } else if (!record.skip) {
      kept_shares_[f].insert(folded.begin(), folded.end());
    }
  }
  // In all fragments of the weights now, or void.
  if (record.step.value + 1 >= job_.fragments) {
    const protocol::Step oldest(record.step.value + 1 - job_.fragments);
    moved_.erase(moved_.begin(), moved_.upper_bound(oldest));
  }
}

WorkerProcess::Accumulator& WorkerProcess::AccumulatorOf(protocol::Step step) {
  Accumulator& accumulator = accumulators_[step];
  if (accumulator.groups.empty()) {
    accumulator.groups.assign(groups_.size(), std::vector<Element>(kElements));
  }
  return accumulator;
}

// ---- reduces ----

namespace {

/// A participant's place in the grid of a sum. Elements take turns in which piece they are, so that
/// all places of the grid are used.
class GridPlace {
 public:
  GridPlace(const protocol::Reduce& reduce, const WorkerId& self)
      : seated_(reduce.participants),
        holders_(reduce.holders),
        turn_(reduce.k.n),
        grid_(seated_.size(), reduce.rows, reduce.regions),
        seat_(static_cast<std::size_t>(std::ranges::find(seated_, self) - seated_.begin())) {}

  std::size_t row() const { return grid_.RowOf(seat_); }
  std::size_t region() const { return grid_.RegionOf(seat_); }
  std::size_t rows_in_region() const { return grid_.RowsOf(region()).size(); }
  std::size_t regions() const { return grid_.regions(); }
  std::vector<WorkerId> Row() const {
    std::vector<WorkerId> members;
    for (std::size_t column = 0; column < grid_.RowSize(row()); ++column) {
      members.push_back(seated_[grid_.SeatAt(row(), column)]);
    }
    return members;
  }
  const WorkerId& RowAdder(std::uint64_t e) const {
    if (!holders_.empty()) return holders_[e].first;
    return seated_[grid_.AdderOf(row(), PieceOf(e))];
  }
  /// Adds the partial sums of the region.
  const WorkerId& Head(std::uint64_t e) const {
    return holders_.empty() ? seated_[grid_.HeadOf(region(), PieceOf(e))] : holders_[e].first;
  }
  const WorkerId& Owner(std::uint64_t e) const {
    return holders_.empty() ? seated_[grid_.OwnerOf(PieceOf(e))] : holders_[e].first;
  }
  /// It gets the sum of the element.
  bool Needs(std::uint64_t e) const { return holders_.empty() || holders_[e].Has(seated_[seat_]); }
  /// Who sends this one the sum.
  const WorkerId& SumSender(std::uint64_t e) const {
    if (!holders_.empty()) return Needs(e) ? holders_[e].first : seated_[seat_];
    if (seated_[seat_] == Head(e)) return Owner(e);
    return seated_[seat_] == RowAdder(e) ? Head(e) : RowAdder(e);
  }

 private:
  std::size_t PieceOf(std::uint64_t e) const { return (e + turn_) % grid_.pieces(); }

  const std::vector<WorkerId>& seated_;
  const std::vector<protocol::PartHolders>& holders_;
  const std::uint64_t turn_;
  const protocol::ReduceGrid grid_;
  const std::size_t seat_;
};

}  // namespace

void WorkerProcess::BeginReduce(const protocol::Reduce& reduce) {
  const auto group = std::find(groups_.begin(), groups_.end(), reduce.group);
  ActiveReduce& active = reduces_[{reduce.step, reduce.group}];
  active = {};
  active.reduce = reduce;
  const Accumulator& sums = AccumulatorOf(reduce.step);
  active.own = sums.groups.at(static_cast<std::size_t>(group - groups_.begin()));
  active.finite = sums.finite;
  active.scattered.resize(kElements);
  active.partials.resize(kElements);
  active.regions.resize(kElements);
  active.result.resize(kElements);
  simulation_.audit().OnReduceStarted(id_, reduce, SharesBefore(reduce.step));
  const GridPlace place(reduce, id_);
  for (std::uint64_t e = 0; e < kElements; ++e) {
    const WorkerId& adder = place.RowAdder(e);
    if (adder == id_) {
      Scatter(active, id_, e, active.own[e]);
    } else {
      SendChunk(adder, reduce, ReduceChunk::Phase::kScatter, e, active.own[e]);
    }
  }
  const auto early = early_chunks_.extract({reduce.step, reduce.group, reduce.k});
  std::erase_if(early_chunks_, [&](const auto& c) {
    const auto& [step, index, k] = c.first;
    return step == reduce.step && index == reduce.group && k < reduce.k;
  });
  AskForMoments(reduce);
  FinishReduceIfDone(active);
  ReportLater(reduce);
  if (early.empty()) return;
  for (const EarlyChunk& c : early.mapped()) OnChunk(c.from, c.chunk, c.element);
}

void WorkerProcess::ReportLater(const protocol::Reduce& reduce) {
  Later(std::chrono::seconds(1), [this, reduce] {
    const auto it = reduces_.find({reduce.step, reduce.group});
    if (it == reduces_.end() || it->second.reduce.k != reduce.k || it->second.done) return;
    const ActiveReduce& active = it->second;
    protocol::Awaiting awaiting{reduce.generation, reduce.step, reduce.group, reduce.k};
    const GridPlace place(reduce, id_);
    std::set<WorkerId> contributors, adders, heads, senders;
    for (std::uint64_t e = 0; e < kElements; ++e) {
      if (active.result[e]) {
        ++awaiting.chunks;
        continue;
      }
      if (!place.Needs(e)) continue;
      awaiting.chunks +=
          active.scattered[e].size() + active.partials[e].size() + active.regions[e].size();
      if (place.Owner(e) != id_) senders.insert(place.SumSender(e));
      for (const WorkerId& p : reduce.participants) {
        const GridPlace other(reduce, p);
        const bool mate = other.row() == place.row();
        if (mate && place.RowAdder(e) == id_ && !active.scattered[e].contains(p)) {
          contributors.insert(p);
        }
        const bool near = other.region() == place.region();
        if (near && place.Head(e) == id_ && other.RowAdder(e) == p &&
            !active.partials[e].contains(p)) {
          adders.insert(p);
        }
        if (!near && place.Owner(e) == id_ && other.Head(e) == p &&
            !active.regions[e].contains(p)) {
          heads.insert(p);
        }
      }
    }
    for (std::uint64_t e = 0; e < reduce.holders.size(); ++e) {
      const protocol::PartHolders& holders = reduce.holders[e];
      if (!holders.Has(id_)) continue;
      if (state_.moments.contains({reduce.group, e})) {
        ++awaiting.chunks;
      } else {
        senders.insert(holders.first == id_ ? holders.second : holders.first);
      }
    }
    const std::set<WorkerId>& from = !contributors.empty() ? contributors
                                     : !adders.empty()     ? adders
                                     : !heads.empty()      ? heads
                                                           : senders;
    awaiting.from.assign(from.begin(), from.end());
    Tell(std::move(awaiting));
    ReportLater(reduce);
  });
}

void WorkerProcess::SendChunk(const WorkerId& to, const protocol::Reduce& reduce,
                              ReduceChunk::Phase phase, std::uint64_t e, const Element& element) {
  const ReduceChunk chunk{reduce.generation, reduce.step, reduce.group, reduce.k, phase, e};
  SendToPeer(to, Lane::kData, {chunk, {0, {element}}});
}

void WorkerProcess::Scatter(ActiveReduce& active, const WorkerId& from, std::uint64_t e,
                            const Element& element) {
  auto& parts = active.scattered[e];
  if (!parts.emplace(from, element).second) return;
  const GridPlace place(active.reduce, id_);
  const std::vector<WorkerId> row = place.Row();
  if (parts.size() < row.size()) return;
  Element partial;
  for (const WorkerId& p : row) AddTo(job_, parts.at(p), &partial);
  if (place.Head(e) == id_) {
    ScatterPartial(active, id_, e, partial);
  } else {
    SendChunk(place.Head(e), active.reduce, ReduceChunk::Phase::kScatter, e, partial);
  }
}

void WorkerProcess::ScatterPartial(ActiveReduce& active, const WorkerId& from, std::uint64_t e,
                                   const Element& partial) {
  auto& parts = active.partials[e];
  if (!parts.emplace(from, partial).second) return;
  const GridPlace place(active.reduce, id_);
  std::size_t rows = place.rows_in_region();
  if (simulation_.mutations().half_region && place.Owner(e) != id_ && rows > 1) --rows;
  if (parts.size() != rows) return;
  const Element sum = AddInOrder(active.reduce, parts);
  if (place.regions() == 1) {
    Gather(active, e, sum);
  } else if (place.Owner(e) == id_) {
    ScatterRegion(active, id_, e, sum);
  } else {
    SendChunk(place.Owner(e), active.reduce, ReduceChunk::Phase::kScatter, e, sum);
  }
}

void WorkerProcess::ScatterRegion(ActiveReduce& active, const WorkerId& from, std::uint64_t e,
                                  const Element& sum) {
  auto& parts = active.regions[e];
  if (!parts.emplace(from, sum).second) return;
  if (parts.size() < GridPlace(active.reduce, id_).regions()) return;
  Gather(active, e, AddInOrder(active.reduce, parts));
}

Element WorkerProcess::AddInOrder(const protocol::Reduce& reduce,
                                  const std::map<WorkerId, Element>& parts) const {
  Element sum;
  for (const WorkerId& p : reduce.participants) {
    if (parts.contains(p)) AddTo(job_, parts.at(p), &sum);
  }
  return sum;
}

void WorkerProcess::Gather(ActiveReduce& active, std::uint64_t e, const Element& sum) {
  if (std::exchange(active.result[e], sum)) return;
  for (const WorkerId& p : active.reduce.participants) {
    if (p != id_ && GridPlace(active.reduce, p).SumSender(e) == id_) {
      SendChunk(p, active.reduce, ReduceChunk::Phase::kGather, e, sum);
    }
  }
}

void WorkerProcess::OnChunk(const WorkerId& from, const ReduceChunk& chunk,
                            const Element& element) {
  if (!replica_ || chunk.generation != generation_ || chunk.step < reduce_floor_) return;
  const auto it = reduces_.find({chunk.step, chunk.group});
  if (it == reduces_.end() || it->second.reduce.k < chunk.k) {
    // The peer heard of the reduce first.
    auto& early = early_chunks_[{chunk.step, chunk.group, chunk.k}];
    if (early.size() < kEarlyChunksMax) early.push_back({from, chunk, element});
    return;
  }
  ActiveReduce& active = it->second;
  if (active.reduce.k != chunk.k || active.done) return;
  const auto& participants = active.reduce.participants;
  const bool takes_part = std::ranges::find(participants, from) != participants.end();
  if (!takes_part) return;
  if (chunk.phase == ReduceChunk::Phase::kGather) {
    Gather(active, chunk.offset, element);
  } else {
    const GridPlace own(active.reduce, id_), other(active.reduce, from);
    if (own.row() == other.row()) {
      Scatter(active, from, chunk.offset, element);
    } else if (own.region() == other.region()) {
      ScatterPartial(active, from, chunk.offset, element);
    } else {
      ScatterRegion(active, from, chunk.offset, element);
    }
  }
  FinishReduceIfDone(active);
}

void WorkerProcess::FinishReduceIfDone(ActiveReduce& active) {
  const protocol::Reduce& reduce = active.reduce;
  const GridPlace place(reduce, id_);
  if (active.done) return;
  for (std::uint64_t e = 0; e < kElements; ++e) {
    if (!place.Needs(e)) continue;
    const bool lacks = !reduce.holders.empty() && !state_.moments.contains({reduce.group, e});
    if (lacks || !active.result[e]) return;
  }
  active.done = true;
  Sum sum{reduce.k, {}};
  for (const auto& element : active.result) sum.elements.push_back(element.value_or(Element{}));
  simulation_.audit().OnReduced(id_, reduce, active.result);
  // What it alone holds nobody can compare.
  const bool shares = reduce.holders.empty()
                          ? reduce.participants.size() > 1
                          : place.Needs(0) && !reduce.holders.front().second.empty();
  if (shares && std::exchange(flips_sum_, false)) {
    sum.elements.front().value ^= 1;
  }
  Later(world_.Draw(microseconds(0), microseconds(100)),
        [this, step = reduce.step, group = reduce.group, sum = std::move(sum),
         finite = active.finite, holders = reduce.holders] {
          const std::span<const Element> elements(sum.elements);
          std::vector<protocol::TensorNorm> norms;
          if (holders.empty()) norms.push_back(NormOf(group, elements, finite));
          std::vector<protocol::PartDigest> parts;
          for (std::uint64_t e = 0; e < holders.size(); ++e) {
            const bool own = holders[e].Has(id_);
            if (own) parts.push_back({{group, e}, DigestOf(elements.subspan(e, 1))});
            if (own || !finite) norms.push_back(NormOf({group, e}, elements[e], finite));
          }
          const Digest digest = holders.empty() ? DigestOf(elements) : Digest();
          auto actions = replica_->OnGroupReduced(step, group, sum.k, digest, std::move(norms),
                                                  std::move(parts));
          if (actions.empty()) return;  // superseded
          sums_[{step, group}] = sum;
          Carry(std::move(actions));
        });
}

}  // namespace swarm::simulation

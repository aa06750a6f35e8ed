// WorkerProcess: frames that come in, and the replica's actions.
#include <algorithm>
#include <utility>

#include "tests/simulation/describe.h"
#include "tests/simulation/worker_process.h"
#include "worker/protocol/roster.h"

namespace swarm::simulation {

using protocol::TaskKey;
using std::chrono::milliseconds;
namespace action = protocol::action;

namespace {

/// More payloads than that are a leak: far above what the limits in flight and M allow.
constexpr std::size_t kPayloadsMax = 600;

bool Refuses(const protocol::Actions& actions, const TaskKey& key) {
  return std::any_of(actions.begin(), actions.end(), [&](const protocol::Action& a) {
    const auto* refuse = std::get_if<action::Refuse>(&a);
    return refuse != nullptr && refuse->key == key;
  });
}

}  // namespace

void WorkerProcess::OnForward(const WorkerId& from, const protocol::Forward& frame,
                              const Payload& payload) {
  if (!replica_) return;
  const bool full =
      simulation_.mutations().admission_waits_bytes && outputs_.size() + gradients_.size() >= 2;
  if (full) {
    waiting_.emplace_back(from, frame, payload);
  } else {
    Accept(from, frame, payload);
  }
}

void WorkerProcess::Accept(const WorkerId& from, const protocol::Forward& frame,
                           const Payload& payload) {
  Task& task = tasks_[frame.key];
  const bool had_input = task.x.has_value();
  if (!had_input) {
    task.tokens = frame.tokens;
    task.x = frame.key.stage.value == 0 ? EmbedTokens(frame.tokens) : payload.value;
  }
  auto actions =
      replica_->OnForward(IsTrainer(from) ? WorkerId("trainer") : from, frame, kPayloadBytes);
  if (Refuses(actions, frame.key) && !had_input) {
    task.x.reset();
    if (!task.g) tasks_.erase(frame.key);
  }
  Carry(std::move(actions));
}

void WorkerProcess::OnBackward(const WorkerId& from, const protocol::Backward& frame,
                               const Payload& payload) {
  if (!replica_) return;
  Task& task = tasks_[frame.key];
  const bool had_gradient = task.g.has_value();
  if (!had_gradient) task.g = payload.value;
  auto actions = replica_->OnBackward(from, frame, kPayloadBytes);
  if (Refuses(actions, frame.key) && !had_gradient) {
    task.g.reset();
    if (!task.x) tasks_.erase(frame.key);
  }
  Carry(std::move(actions));
}

void WorkerProcess::CheckBounds() {
  if (!replica_) return;
  const Scenario& scenario = simulation_.scenario();
  const std::size_t payloads = tasks_.size() + outputs_.size() + gradients_.size();
  if (payloads > kPayloadsMax || replica_->parked() > 2 * scenario.parked_max ||
      outputs_.size() + gradients_.size() > kPayloadsMax ||
      replica_->retained_bytes() > scenario.retained_bytes_max ||
      replica_->queued() > kPayloadsMax) {
    simulation_.audit().Fail("Bounded",
                             id_.value + " holds " + std::to_string(payloads) + " payloads and " +
                                 std::to_string(replica_->retained_bytes()) + " retained bytes, " +
                                 std::to_string(replica_->queued()) + " tasks");
  }
}

// ---- actions ----

void WorkerProcess::Carry(protocol::Actions actions) {
  std::size_t last = actions.size();
  if (crash_soon_ && last > 1) last = world_.rng().Below(last);
  const std::uint64_t life = life_;
  for (std::size_t i = 0; i < last; ++i) {
    if (gone_ || life != life_) return;
    world_.Log(id_.value, [&] { return "  does " + simulation::Describe(actions[i]); });
    simulation_.fingerprint().Add(actions[i]);
    std::visit([&](const auto& a) { Do(a); }, actions[i]);
  }
  if (last < actions.size() && !gone_) {
    world_.Log(id_.value, [] { return std::string("crashes"); });
    gone_ = true;
    simulation_.RestartWorker(pid_, world_.Draw(milliseconds(10), milliseconds(800)));
  }
}

template <typename Frame>
void WorkerProcess::SendData(const WorkerId& to, const Frame& frame, Payload payload) {
  if (world_.Chance(simulation_.scenario().resend_probability)) {
    world_.After(pid_, world_.Draw(milliseconds(0), milliseconds(100)), [=, this] {
      if (!gone_) SendToPeer(to, Lane::kData, {frame, payload});
    });
  }
  SendToPeer(to, Lane::kData, {frame, std::move(payload)});
}

void WorkerProcess::Do(const action::RunForward& a) {
  tasks_[a.key].version = a.version;
  jobs_.push_back({a.key, false, a.keep_graph});
  Compute();
}

void WorkerProcess::Do(const action::RunBackward& a) {
  jobs_.push_back({a.key, true, true});
  Compute();
}

void WorkerProcess::Do(const action::SendForward& a) {
  const auto output = outputs_.find(a.source);
  if (output == outputs_.end()) {
    simulation_.audit().Fail("Bounded", id_.value + " is to send an output that it has released");
    return;
  }
  SendData(a.to, a.message, {output->second, {}});
}

void WorkerProcess::Do(const action::SendBackward& a) {
  const auto gradient = gradients_.find(a.source);
  if (gradient == gradients_.end()) {
    simulation_.audit().Fail("Bounded", id_.value + " is to send a gradient that it has released");
    return;
  }
  SendData(a.to, a.message, {gradient->second, {}});
}

void WorkerProcess::Do(const action::FoldGradients& a) {
  const auto task = tasks_.extract(a.key);
  if (task.empty() || task.mapped().fresh.empty()) {
    simulation_.audit().Fail("ExactlyOnce", id_.value + " is to fold gradients that are not there");
    return;
  }
  PostState([this, key = a.key, fresh = std::move(task.mapped().fresh)] {
    Accumulator& into = AccumulatorOf(key.step);
    const bool finite = IsFinite(job_, key.step, stage_.value, key.microbatch.value);
    into.finite = into.finite && finite;
    into.folded.emplace(key.step, key.microbatch);
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      for (std::uint64_t e = 0; e < kElements; ++e) {
        AddTo(job_, Quantize(fresh[i][e], into.level, finite), &into.groups[i][e]);
      }
    }
  });
}

void WorkerProcess::Do(const action::DropTask& a) { tasks_.erase(a.key); }

void WorkerProcess::Do(const action::ReleaseRetained& a) {
  (a.gradient ? gradients_ : outputs_).erase(a.key);
}

void WorkerProcess::Do(const action::StartReduce& a) {
  PostState([this, reduce = a.reduce] { BeginReduce(reduce); });
}

void WorkerProcess::Do(const action::StopReduces& a) {
  PostState([this, step = a.step] {
    std::erase_if(reduces_, [&](const auto& r) { return r.first.first == step; });
  });
}

void WorkerProcess::Do(const action::FetchGradients& a) {
  GradientFetch& fetch = fetches_[a.record.step];
  fetch.record = a.record;
  for (const protocol::GroupIndex group : groups_) {
    if (!IsDivided(job_, group)) fetch.got[group].resize(kElements);
  }
  const auto donors = welcome_ ? welcome_->donors : std::vector<protocol::Member>();
  const auto peers = protocol::ReplicasOf(replica_->roster(), stage_, id_, donors);
  fetch.peers.assign(peers.begin(), peers.end());
  AskForGradients(fetch);
}

void WorkerProcess::Do(const action::ApplyCommit& a) {
  PostState([this, a] { Apply(a.record, a.holds); });
}

void WorkerProcess::Do(const action::ReleaseStep& a) {
  const auto over = [&](const auto& entry) { return entry.first.step <= a.step; };
  std::erase_if(tasks_, over);
  std::erase_if(outputs_, over);
  std::erase_if(gradients_, over);
  std::erase_if(reduces_, [&](const auto& r) { return r.first.first <= a.step; });
  reduce_floor_ = std::max(reduce_floor_, a.step.Next());
  std::erase_if(early_chunks_, [&](const auto& c) { return std::get<0>(c.first) < reduce_floor_; });
  std::erase_if(parcels_, [&](const auto& p) { return p.first.second <= a.step; });
  std::erase_if(fetches_, [&](const auto& f) { return f.first <= a.step; });
  PostState([this, step = a.step] { accumulators_.erase(step); });
  for (auto& [from, frame, payload] : std::exchange(waiting_, {})) OnForward(from, frame, payload);
}

void WorkerProcess::Do(const action::ReleaseSums& a) {
  std::erase_if(sums_, [&](const auto& s) { return s.first.first < a.below; });
  std::erase_if(updated_, [&](const auto& u) { return u.first.first < a.below; });
}

void WorkerProcess::Do(const action::ClearStep& a) {
  PostState([this, a] {
    Accumulator old = std::exchange(accumulators_[a.step], {});
    AccumulatorOf(a.step).level = a.level;
    if (simulation_.mutations().keep_cleared) AccumulatorOf(a.step).folded = old.folded;
  });
}

void WorkerProcess::Do(const action::TakeCheckpoint& a) {
  PostState([this, request = a.request] {
    const std::string file = DurableStore::FileOf(request.generation, request.version, stage_) +
                             (request.weights ? "" : "@" + id_.value);
    const bool fails = simulation_.FailsToWrite();
    const auto took = simulation_.DiskTime(id_);
    if (!took) return;
    StageState state = state_;
    if (job_.divided) state.moments.clear();
    // The request may have been made to an earlier process of this worker's name.
    bool lacks = false;
    for (const protocol::PartName& name : request.moments) {
      const auto moment = state_.moments.find(name);
      lacks |= moment == state_.moments.end();
      if (!lacks) state.moments.insert(*moment);
    }
    if (!request.weights) state.weights.clear();
    Later(*took, [=, this] {
      protocol::CheckpointWritten written{request.generation, request.version, stage_, {}, {},
                                          request.weights,    request.moments};
      if (fails || lacks) {
        written.error = lacks ? "moments are not here" : "the disk is full";
      } else {
        simulation_.store().Write(file, state);
        written.files.push_back({file, 8, DigestOf(state)});
      }
      Tell(written);
    });
  });
}

void WorkerProcess::Do(const action::PinCopy& a) {
  PostState([this, request = a.request] {
    pinned_[request.version] = state_;
    Tell(protocol::StatePinned{request.generation,
                               request.version,
                               ReportDigest(),
                               {},
                               simulation_.scenario().kept_steps_max});
  });
}

void WorkerProcess::Do(const action::UnpinCopy& a) { pinned_.erase(a.version); }

void WorkerProcess::Do(const action::SendParcel& a) {
  PostState([this, a] {
    const Accumulator& sums = AccumulatorOf(a.step);
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const protocol::Parcel parcel{.generation = generation_,
                                    .step = a.step,
                                    .stage = stage_,
                                    .group = groups_[i],
                                    .count = kElements,
                                    .level = a.level,
                                    .finite = sums.finite,
                                    .contributions = a.contributions};
      SendToPeer(a.to, Lane::kData, {parcel, {0, sums.groups[i], SharesBefore(a.step)}});
    }
  });
}

void WorkerProcess::Do(const action::AdoptParcel& a) {
  const auto parcel = parcels_.extract({a.donor, a.step});
  if (parcel.empty()) {
    simulation_.audit().Fail("ExactlyOnce", id_.value + " is to adopt a parcel that is not there");
    return;
  }
  PostState([this, step = a.step, held = parcel.mapped()] {
    Accumulator& into = AccumulatorOf(step);
    into.finite = into.finite && held.finite;
    into.adopted.insert(held.shares.begin(), held.shares.end());
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      for (std::uint64_t e = 0; e < kElements; ++e) {
        AddTo(job_, held.groups.at(groups_[i])[e], &into.groups[i][e]);
      }
    }
  });
}

void WorkerProcess::Do(const action::DropParcel& a) { parcels_.erase({a.donor, a.step}); }

void WorkerProcess::Do(const action::BeginAnew& a) {
  promised_ = std::max(promised_, a.request.term);
  ForgetEverything();
  early_.clear();
  kept_.reset();
  welcome_.reset();
  stage_ = a.request.stage;
  LoadCheckpoint(a.request.generation, a.request.version, a.request.checkpoint_uri);
}

void WorkerProcess::Do(const action::Tell& a) { Tell(a.message); }
void WorkerProcess::Do(const action::Refuse&) {}
void WorkerProcess::Do(const action::Rejoin& a) { Rejoin(a.reason); }

}  // namespace swarm::simulation

#include "tests/simulation/worker_process.h"

#include <algorithm>
#include <utility>

#include "base/rng.h"
#include "tests/simulation/describe.h"

namespace swarm::simulation {

using protocol::TaskKey;
using std::chrono::microseconds;
using std::chrono::milliseconds;
namespace action = protocol::action;

namespace {

/// The term of a control message of a trainer.
protocol::Term TermOf(const protocol::Message& message) {
  return std::visit(
      [](const auto& m) {
        if constexpr (requires { m.term; } && !requires { m.self; } && !requires { m.id; }) {
          return m.term;
        } else {
          return protocol::Term();
        }
      },
      message);
}

}  // namespace

WorkerProcess::WorkerProcess(Simulation* simulation, WorkerId id, protocol::Incarnation incarnation,
                             double slowness, std::optional<KeptState> kept)
    : simulation_(*simulation),
      world_(simulation->world()),
      network_(simulation->network()),
      job_(simulation->job()),
      id_(std::move(id)),
      incarnation_(incarnation),
      slowness_(slowness),
      kept_(std::move(kept)),
      neighbours_(id_, simulation->scenario().mesh, simulation->scenario().flat_reduce_max) {}

void WorkerProcess::Start(Pid pid) {
  pid_ = pid;
  FollowTrainer(simulation_.trainer_name());
  TendNeighbours();
}

std::vector<protocol::Member> WorkerProcess::Members() const {
  return replica_ ? replica_->roster().members.elements() : std::vector<protocol::Member>();
}

/// The simulation sends no single beats, as with heartbeats.
void WorkerProcess::TendNeighbours() {
  if (gone_) return;
  for (const protocol::Member& member : Members()) {
    if (network_.CouldHear(pid_, member.id)) neighbours_.OnBeat(member.id, world_.now());
  }
  auto due = neighbours_.OnTick(world_.now());
  const auto links = link_reports_.OnLook(DrawLinks(), world_.now());
  if (network_.IsConnected(pid_, trainer_)) {
    if (due.report) Tell(*std::move(due.report));
    if (links) Tell(*links);
  }
  world_.After(pid_, milliseconds(250), [this] { TendNeighbours(); });
}

std::map<WorkerId, protocol::Link> WorkerProcess::DrawLinks() {
  std::map<WorkerId, protocol::Link> links;
  if (!simulation_.scenario().unlike_links) return links;
  for (const protocol::Member& member : Members()) {
    const double milliseconds = static_cast<double>(world_.rng().Below(1000));
    const double filled = world_.Chance(0.5) ? 1e3 : 0;
    links[member.id] = {milliseconds * 1e-3,
                        filled * static_cast<double>(world_.rng().Below(1000))};
  }
  return links;
}

void WorkerProcess::SendToPeer(const WorkerId& to, Lane lane, Envelope envelope) {
  neighbours_.OnExchange(to, envelope.message, world_.now());
  const auto via = detours_.find(to);
  if (via == detours_.end()) return network_.Send(pid_, to, lane, std::move(envelope));
  envelope.from = id_;
  envelope.to = to;
  network_.Send(pid_, via->second, lane, std::move(envelope));
}

bool WorkerProcess::IsTrainer(const WorkerId& peer) const { return peer.value.starts_with('t'); }

void WorkerProcess::FollowTrainer(const WorkerId& trainer) {
  if (gone_ || trainer.empty() || trainer == trainer_) return;
  const WorkerId old = std::exchange(trainer_, trainer);
  if (!old.empty()) {
    if (simulation_.scenario().outbox_survives_trainer) {
      network_.MoveOutbox(pid_, old, trainer);
    } else {
      network_.DropOutbox(pid_, old);
    }
    // Else the old one is still heard for a while.
    if (world_.Chance(0.5)) network_.Forget(pid_, old);
  }
  network_.Dial(pid_, trainer_);
}

void WorkerProcess::BeginLeaving(Timepoint deadline) {
  if (gone_ || leaving_) return;
  leaving_ = deadline;
  if (network_.IsConnected(pid_, trainer_)) {
    Tell(protocol::Leaving{ToSeconds(deadline - world_.now())});
  }
}

void WorkerProcess::SayHello() {
  if (!replica_) {  // it reports that it holds nothing, so it must continue to hold nothing
    ForgetEverything();
    early_.clear();
  }
  const protocol::Term term = replica_ ? std::max(promised_, replica_->term()) : promised_;
  protocol::HeldState offer;
  if (kept_) offer = {kept_->stage, kept_->state.version, DigestOf(kept_->state)};
  const std::uint64_t pods = simulation_.scenario().pods;
  network_.Send(
      pid_, trainer_, Lane::kControl,
      {protocol::Hello{.id = id_,
                       .incarnation = incarnation_,
                       .cluster = "c",
                       .addresses = {},
                       .threads = 1,
                       .term = term,
                       .serving = replica_.has_value(),
                       .numeric_class = "n",
                       .region = simulation_.scenario().RegionOf(id_),
                       .pod = pods == 0 ? "" : std::to_string(MixName(1, id_.value) % pods),
                       .offers = kept_.has_value(),
                       .offer = offer},
       {}});
  if (leaving_) Tell(protocol::Leaving{ToSeconds(*leaving_ - world_.now())});
}

void WorkerProcess::OnPeerUp(const WorkerId& peer) {
  if (!gone_ && peer == trainer_) SayHello();
}

void WorkerProcess::OnPeerDown(const WorkerId& peer) {
  if (gone_) return;
  if (peer == trainer_) network_.Dial(pid_, trainer_);
  if (copy_ && !copy_->donors.empty() && copy_->donors.front() == peer) NextDonor();
}

void WorkerProcess::Tell(protocol::Message message) {
  if (auto* progress = std::get_if<protocol::Progress>(&message)) {
    if (simulation_.scenario().unlike_links) {
      for (protocol::TaskReport& report : progress->reports) report.boundary_bytes = 1000;
    }
    progress_.reports.insert(progress_.reports.end(), progress->reports.begin(),
                             progress->reports.end());
    if (std::exchange(flush_scheduled_, true)) return;
    world_.After(pid_, world_.Draw(microseconds(0), milliseconds(1)), [this] {
      flush_scheduled_ = false;
      FlushProgress();
    });
    return;
  }
  FlushProgress();
  network_.Send(pid_, trainer_, Lane::kControl, {std::move(message), {}});
}

void WorkerProcess::FlushProgress() {
  if (gone_ || progress_.reports.empty()) return;
  network_.Send(pid_, trainer_, Lane::kControl, {std::exchange(progress_, {}), {}});
}

void WorkerProcess::OnMessage(const WorkerId& hop, const Envelope& envelope) {
  if (gone_) return;
  if (!envelope.to.empty() && envelope.to != id_) {
    if (hop == envelope.from) network_.Send(pid_, envelope.to, Lane::kData, envelope);
    return;
  }
  const WorkerId& from = envelope.to.empty() ? hop : envelope.from;
  // An endpoint has one connection to the trainer, whichever process that is. With a part in the
  // job a worker is fenced by terms as well, and here hears both. Without one it has told the later
  // trainer that it holds nothing, and that stays true only since the earlier one is not heard any
  // more.
  if (!replica_ && IsTrainer(from) && from != trainer_) return;
  world_.Log(id_.value,
             [&] { return "from " + from.value + ": " + simulation::Describe(envelope.message); });
  neighbours_.OnExchange(from, envelope.message, world_.now());
  const Payload& payload = envelope.payload;
  std::visit(
      [&](const auto& m) {
        using M = std::decay_t<decltype(m)>;
        if constexpr (std::is_same_v<M, protocol::Forward>) {
          OnForward(from, m, payload);
        } else if constexpr (std::is_same_v<M, protocol::Backward>) {
          OnBackward(from, m, payload);
        } else if constexpr (std::is_same_v<M, protocol::ReduceChunk>) {
          OnChunk(from, m, payload.elements.at(0));
        } else if constexpr (std::is_same_v<M, protocol::Fetch>) {
          Serve(from, m);
        } else if constexpr (std::is_same_v<M, protocol::Fetched>) {
          if (m.kind == protocol::FetchKind::kGradient) {
            OnGradientFetched(from, m, payload);
          } else if (m.kind == protocol::FetchKind::kMoments) {
            OnMomentsFetched(m, payload);
          } else if (m.kind == protocol::FetchKind::kWeights) {
            OnWeightsFetched(from, m, payload);
          } else {
            OnStateFetched(from, m, payload);
          }
        } else if constexpr (std::is_same_v<M, protocol::Parcel>) {
          OnParcel(from, m, payload);
        } else if constexpr (std::is_same_v<M, protocol::Welcome>) {
          On(m);
        } else if constexpr (std::is_same_v<M, protocol::Shutdown>) {
          if (m.term < promised_) return;
          if (m.rejoin) {
            Rejoin(m.reason);
          } else {
            Leave();
          }
        } else if constexpr (std::is_same_v<M, protocol::Detours>) {
          if (m.term < promised_) return;
          detours_.clear();
          for (const protocol::Detour& detour : m.detours) detours_[detour.peer] = detour.via;
        } else if (replica_) {
          Obey(m);
        } else {
          early_.push_back(m);
        }
      },
      envelope.message);
  if (!gone_) CheckBounds();
}

void WorkerProcess::Obey(const protocol::Message& message) {
  const protocol::Term term = TermOf(message);
  protocol::Replica& replica = *replica_;
  const protocol::Epoch epoch = replica.roster().epoch;
  protocol::Actions actions = replica.OnControl(message);
  if (replica.roster().epoch != epoch) {
    neighbours_.OnRoster(replica.roster(), job_.stages(), job_.tied_head, world_.now());
    link_reports_.OnRoster(replica.roster());
  }
  const bool refused = std::all_of(actions.begin(), actions.end(), [](const auto& a) {
    return std::holds_alternative<action::Refuse>(a);
  });
  if (!refused) simulation_.audit().OnControlCarriedOut(id_, obeyed_, term);
  if (term > obeyed_) detours_.clear();
  obeyed_ = std::max(obeyed_, term);
  promised_ = std::max(promised_, replica.term());
  Carry(std::move(actions));
}

void WorkerProcess::On(const protocol::Welcome& welcome) {
  if (welcome.term < promised_ || (replica_ && welcome.term == promised_)) return;
  ForgetEverything();
  promised_ = welcome.term;
  welcome_ = welcome;
  stage_ = welcome.stage;
  early_.clear();
  if (welcome.goes_on) return GoOn(welcome);
  if (kept_) simulation_.OnDeclined();
  kept_.reset();
  if (welcome.donors.empty()) {
    LoadCheckpoint(welcome.generation, welcome.version, welcome.checkpoint_uri);
  } else {
    BeginCopy(welcome);
  }
}

void WorkerProcess::GoOn(const protocol::Welcome& welcome) {
  simulation_.OnReturn();
  StageState state = std::exchange(kept_, std::nullopt)->state;
  Later(world_.Draw(milliseconds(1), milliseconds(30)),
        [this, generation = welcome.generation, state = std::move(state)] {
          BeginServing(generation, state, false);
        });
}

void WorkerProcess::LoadCheckpoint(protocol::Generation generation, protocol::Version version,
                                   const std::string& uri) {
  const auto took =
      uri.empty() ? world_.Draw(milliseconds(1), milliseconds(30)) : simulation_.DiskTime(id_);
  if (!took) return;
  Later(*took, [=, this] {
    if (uri.empty()) {
      BeginServing(generation, InitialState(job_, stage_), true);
      return;
    }
    const StageState* state = simulation_.store().Load(uri, stage_);
    if (state == nullptr || state->version != version) {
      simulation_.audit().Fail("NothingLost", id_.value +
                                                  " is sent to a checkpoint that is none: " + uri +
                                                  ", version " + std::to_string(version.value));
      return;
    }
    BeginServing(generation, *state, true);
  });
}

void WorkerProcess::BeginServing(protocol::Generation generation, StageState state, bool whole) {
  state_ = std::move(state);
  moved_.clear();
  simulation_.audit().OnLoaded(id_, stage_, state_);
  generation_ = generation;
  groups_ = GroupsOf(job_, stage_);
  const Scenario& scenario = simulation_.scenario();
  replica_.emplace(
      protocol::ReplicaOptions{.self = {id_, incarnation_, stage_, "c", {}},
                               .stages = job_.stages(),
                               .groups = groups_,
                               .keeps_previous_version = job_.delayed,
                               .term = promised_,
                               .generation = generation,
                               .floor = welcome_ ? welcome_->floor : protocol::Attempt(),
                               .version = state_.version,
                               .whole = whole,
                               .parked_max = scenario.parked_max,
                               .parked_bytes_max = scenario.parked_bytes_max,
                               .retained_bytes_max = scenario.retained_bytes_max,
                               .kept_steps_max = scenario.kept_steps_max,
                               .rules = simulation_.mutations().replica});
  obeyed_ = promised_;
  neighbours_.Clear();
  Digest digest = DigestOf(state_);
  if (simulation_.mutations().mixed_join && welcome_ && !welcome_->donors.empty()) {
    digest = welcome_->state;
  }
  world_.Log(id_.value, [&] {
    return "serves stage " + std::to_string(stage_.value) + " from version " +
           std::to_string(state_.version.value);
  });
  Tell(protocol::Ready{generation, stage_, state_.version, digest});
  for (const protocol::Message& message : std::exchange(early_, {})) {
    if (gone_ || !replica_) return;
    Obey(message);
  }
}

void WorkerProcess::ForgetEverything() {
  ++life_;
  replica_.reset();
  neighbours_.Clear();
  detours_.clear();
  tasks_.clear();
  outputs_.clear();
  gradients_.clear();
  accumulators_.clear();
  moved_.clear();
  kept_shares_.clear();
  sums_.clear();
  reduces_.clear();
  application_.reset();
  updated_.clear();
  early_fetches_.clear();
  early_chunks_.clear();
  reduce_floor_ = {};
  wrong_weights_ = false;
  parcels_.clear();
  pinned_.clear();
  copy_.reset();
  fetches_.clear();
  computing_ = false;
  state_jobs_.clear();
  jobs_.clear();
  waiting_.clear();
  progress_ = {};
}

void WorkerProcess::Leave() {
  gone_ = true;
  world_.Log(id_.value, [] { return std::string("leaves"); });
  // The worker was not told to end: as the job may not be over, a new worker takes its place.
  if (!leaving_) {
    simulation_.StartWorker(simulation_.NewWorkerName(),
                            world_.Draw(milliseconds(1000), milliseconds(2000)));
  }
  simulation_.EndProcess(pid_, milliseconds(50));
}

void WorkerProcess::Rejoin(const std::string& why) {
  gone_ = true;
  world_.Log(id_.value, [&] { return "comes back: " + why; });
  // A process that will be ended anyway does not come back.
  if (leaving_) {
    simulation_.EndProcess(pid_, milliseconds(50));
  } else {
    std::optional<KeptState> kept;
    if (replica_ && simulation_.scenario().keeps_states) {
      kept = {stage_, state_};
      kept->state.moments.clear();  // the others go on without them
    }
    simulation_.RestartWorker(pid_, world_.Draw(milliseconds(5), milliseconds(100)),
                              std::move(kept));
  }
}

std::string WorkerProcess::Describe() const {
  std::string text = id_.value + " (" + std::to_string(incarnation_.value) + ")";
  if (!replica_) return text + (copy_ ? " copies state" : " has no replica");
  text += " stage " + std::to_string(stage_.value) + " generation " +
          std::to_string(generation_.value) + " version " +
          std::to_string(replica_->version().value) + " promised " +
          std::to_string(replica_->term().value) + " queued " + std::to_string(replica_->queued()) +
          " parked " + std::to_string(replica_->parked()) + " tasks";
  for (const auto& [key, task] : tasks_) text += " " + simulation::Describe(key);
  return text + (fetches_.empty() ? "" : " fetches gradients");
}

}  // namespace swarm::simulation

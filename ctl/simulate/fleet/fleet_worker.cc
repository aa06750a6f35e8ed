#include "ctl/simulate/fleet/fleet_worker.h"

#include <utility>

namespace swarm::ctl {

using protocol::WorkerId;

namespace {

/// To make the initial weights.
constexpr Duration kInitialization = std::chrono::milliseconds(100);

}  // namespace

FleetWorker::FleetWorker(const World& world, WorkerIdentity identity)
    : world_(world),
      identity_(std::move(identity)),
      kind_(world.fleet.groups.at(identity_.group)),
      rng_(MixAll(MixName(identity_.incarnation.value, identity_.id.value))),
      device_(&world.queue) {}

void FleetWorker::Start() {
  Tell(protocol::Hello{.id = identity_.id,
                       .incarnation = identity_.incarnation,
                       .cluster = "",
                       .addresses = {},
                       .threads = 1,
                       .term = term_,
                       .numeric_class = "",
                       .region = kind_.machines.region});
}

void FleetWorker::BeginLeaving(double seconds) {
  if (!alive_ || leave_by_) return;
  leave_by_ = world_.queue.now() + FromSeconds(seconds);
  Tell(protocol::Leaving{seconds});
}

void FleetWorker::Kill() {
  Forget();
  alive_ = false;
}

protocol::Heartbeat FleetWorker::Beat() const {
  return {.term = term_,
          .compute_progress = device_.finished(),
          .queued_tasks = device_.queued(),
          .busy_seconds = device_.busy_seconds(),
          .copied_bytes = static_cast<std::uint64_t>(copied_bytes_)};
}

void FleetWorker::ReportLinks(const std::map<WorkerId, protocol::Link>& links) {
  if (!replica_) return;
  link_reports_.OnRoster(replica_->roster());
  if (auto report = link_reports_.OnLook(links, world_.queue.now())) Tell(*std::move(report));
}

void FleetWorker::Tell(protocol::Message message) {
  world_.host.SendToTrainer(*this, std::move(message));
}

void FleetWorker::Later(Duration delay, std::function<void()> event) {
  world_.queue.After(delay, [this, life = life_, event = std::move(event)] {
    if (life == life_) event();
  });
}

double FleetWorker::Jittered(double seconds) {
  return kind_.jitter > 0 ? seconds * (1 + kind_.jitter * (2 * rng_.Uniform() - 1)) : seconds;
}

Digest FleetWorker::StateDigest(protocol::Version version) const {
  return {stage_.value + 1, version.value + 1};
}

void FleetWorker::OnMessage(const WorkerId& from, const protocol::Message& message) {
  std::visit(
      [&](const auto& m) {
        using M = std::decay_t<decltype(m)>;
        if constexpr (std::is_same_v<M, protocol::Forward>) {
          OnForward(from, m);
        } else if constexpr (std::is_same_v<M, protocol::Backward>) {
          if (replica_) Carry(replica_->OnBackward(from, m));
        } else if constexpr (std::is_same_v<M, protocol::Fetch>) {
          Serve(from, m);
        } else if constexpr (std::is_same_v<M, protocol::Fetched>) {
          OnFetched(from, m);
        } else if constexpr (std::is_same_v<M, protocol::Parcel>) {
          if (!replica_ || m.generation != generation_ || m.stage != stage_) return;
          Carry(replica_->OnParcel(from, m.step, m.generation, m.level, m.contributions));
        } else if constexpr (std::is_same_v<M, protocol::Welcome>) {
          On(m);
        } else if constexpr (std::is_same_v<M, protocol::Shutdown>) {
          world_.host.End(*this, m.rejoin && !leave_by_);
        } else if (replica_) {
          Carry(replica_->OnControl(message));
        } else {
          early_.push_back(message);
        }
      },
      message);
}

void FleetWorker::OnForward(const WorkerId& from, const protocol::Forward& frame) {
  if (!replica_) return;
  protocol::Actions actions = replica_->OnForward(from, frame);
  const bool refused =
      !actions.empty() && std::holds_alternative<protocol::action::Refuse>(actions.front());
  const bool folds = frame.kind == protocol::TaskKind::kTrain && frame.hops.at(stage_.value).fold;
  if (!refused && folds) cells_.insert(CellOf(frame.key));
  Carry(std::move(actions));
}

void FleetWorker::On(const protocol::Welcome& welcome) {
  if (replica_) return;
  Forget();
  term_ = welcome.term;
  stage_ = welcome.stage;
  floor_ = welcome.floor;
  if (welcome.donors.empty()) {
    Load(welcome.generation, welcome.version, welcome.checkpoint_uri);
    return;
  }
  donors_ = welcome.donors;
  BeginCopy(welcome);
}

void FleetWorker::Load(protocol::Generation generation, protocol::Version version,
                       const std::string& uri) {
  const auto loaded = [this, life = life_, generation, version] {
    if (life == life_) Install(generation, version);
  };
  if (uri.empty()) {
    Later(kInitialization, loaded);
  } else {
    world_.host.UseStorage(*this, world_.fleet.job.StateBytes(stage_.value), false, loaded);
  }
}

void FleetWorker::Install(protocol::Generation generation, protocol::Version version) {
  device_.PostState(0, [=, this] { BeginServing(generation, version); });
}

void FleetWorker::BeginServing(protocol::Generation generation, protocol::Version version) {
  generation_ = generation;
  replica_.emplace(protocol::ReplicaOptions{
      .self = {identity_.id, identity_.incarnation, stage_, "", {}, kind_.machines.region, ""},
      .stages = world_.fleet.job.stages,
      .groups = {group()},
      .keeps_previous_version = world_.fleet.job.delayed,
      .term = term_,
      .generation = generation,
      .floor = floor_,
      .version = version,
      .retained_bytes_max = static_cast<std::uint64_t>(world_.fleet.job.retained_bytes),
      .rules = {}});
  Tell(protocol::Ready{generation, stage_, version, StateDigest(version)});
  for (const protocol::Message& message : std::exchange(early_, {})) {
    if (!replica_) return;
    Carry(replica_->OnControl(message));
  }
}

void FleetWorker::Forget() {
  ++life_;
  device_.Clear();
  world_.sums.Remove(identity_.id);
  replica_.reset();
  early_.clear();
  donors_.clear();
  cells_.clear();
  sums_.clear();
  pinned_.clear();
  copy_.reset();
  gradient_copies_.clear();
  asks_later_ = false;
}

}  // namespace swarm::ctl

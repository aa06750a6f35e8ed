// FleetWorker: what the replica orders.
#include <memory>
#include <utility>

#include "ctl/simulate/fleet/fleet_worker.h"

namespace swarm::ctl {

namespace action = protocol::action;

namespace {

constexpr Duration kReportInterval = std::chrono::seconds(1);
/// Of one thread that computes the digest of a state (bench/joining_bench, BM_DigestState).
constexpr double kReadBytesPerSecond = 15e9;

}  // namespace

void FleetWorker::Carry(protocol::Actions actions) {
  const std::uint64_t life = life_;
  for (const protocol::Action& each : actions) {
    if (life != life_) return;
    std::visit([this](const auto& a) { Do(a); }, each);
  }
}

void FleetWorker::Do(const action::RunForward& a) {
  const FleetJob& job = world_.fleet.job;
  const double seconds = Jittered(MicrobatchSeconds(job, kind_, stage_.value) * job.forward_share);
  const bool last = stage_.value + 1 == job.stages;
  device_.PostTask(a.key.step, WorkKind::kForward, seconds, [this, key = a.key, seconds, last] {
    const double bytes = last ? 0 : world_.fleet.job.boundary_bytes;
    Carry(replica_->OnForwardDone(key, 1.0, {seconds, static_cast<std::uint64_t>(bytes)}));
  });
}

void FleetWorker::Do(const action::RunBackward& a) {
  const FleetJob& job = world_.fleet.job;
  const double seconds =
      Jittered(MicrobatchSeconds(job, kind_, stage_.value) * (1 - job.forward_share));
  const double bytes = stage_.value == 0 ? 0 : job.boundary_bytes;
  device_.PostTask(a.key.step, WorkKind::kBackward, seconds, [this, key = a.key, seconds, bytes] {
    Carry(replica_->OnBackwardDone(key, {seconds, static_cast<std::uint64_t>(bytes)}));
  });
}

void FleetWorker::Do(const action::SendForward& a) {
  world_.host.SendToWorker(*this, a.to, a.message, Traffic::kActivations,
                           world_.fleet.job.boundary_bytes);
}

void FleetWorker::Do(const action::SendBackward& a) {
  world_.host.SendToWorker(*this, a.to, a.message, Traffic::kGradients,
                           world_.fleet.job.boundary_bytes);
}

void FleetWorker::Do(const action::FoldGradients& a) { world_.host.OnFolded(CellOf(a.key)); }

void FleetWorker::Do(const action::DropTask& a) { cells_.erase(CellOf(a.key)); }

void FleetWorker::Do(const action::ClearStep& a) {
  std::erase_if(cells_, [&](const Cell& cell) { return cell.step == a.step; });
}

void FleetWorker::Do(const action::StartReduce& a) {
  // Behind the work on the state that stands in the queue already.
  device_.PostState(0, [this, reduce = std::make_shared<const protocol::Reduce>(a.reduce)] {
    world_.sums.Stop(identity_.id, reduce->generation, reduce->step);
    const auto done = [this, life = life_, step = reduce->step, k = reduce->k] {
      if (life != life_) return;
      protocol::Actions actions = replica_->OnGroupReduced(
          step, group(), k, {step.value + 1, k.n}, {{"stage" + std::to_string(stage_.value), 1}});
      if (actions.empty()) return;  // superseded
      sums_[step] = k;
      Carry(std::move(actions));
    };
    world_.sums.Begin(*reduce, {identity_.id, identity_.node,
                                world_.fleet.job.GradientBytes(stage_.value), done});
    ReportSumLater(reduce);
  });
}

void FleetWorker::ReportSumLater(std::shared_ptr<const protocol::Reduce> reduce) {
  Later(kReportInterval, [this, reduce = std::move(reduce)] {
    auto awaiting = world_.sums.Describe(identity_.id, *reduce);
    if (!awaiting) return;
    Tell(*std::move(awaiting));
    ReportSumLater(reduce);
  });
}

void FleetWorker::Do(const action::StopReduces& a) {
  device_.PostState(0,
                    [this, step = a.step] { world_.sums.Stop(identity_.id, generation_, step); });
}

void FleetWorker::Do(const action::ApplyCommit& a) {
  device_.PostState(world_.fleet.job.optimizer_seconds, [this, step = a.record.step] {
    Later(FromSeconds(world_.fleet.job.StateBytes(stage_.value) / kReadBytesPerSecond),
          [this, step] {
            Carry(replica_->OnStateRead(step, StateDigest(protocol::Version(step.value + 1))));
          });
    Carry(replica_->OnApplied(step));
  });
}

void FleetWorker::Do(const action::ReleaseStep& a) {
  std::erase_if(cells_, [&](const Cell& cell) { return cell.step <= a.step; });
  std::erase_if(gradient_copies_, [&](const auto& copy) { return copy.first <= a.step; });
}

void FleetWorker::Do(const action::ReleaseSums& a) {
  std::erase_if(sums_, [&](const auto& sum) { return sum.first < a.below; });
}

void FleetWorker::Do(const action::TakeCheckpoint& a) {
  const double bytes = world_.fleet.job.StateBytes(stage_.value);
  const protocol::CheckpointFile file{"stage" + std::to_string(stage_.value),
                                      static_cast<std::uint64_t>(bytes),
                                      StateDigest(a.request.version)};
  world_.host.UseStorage(*this, bytes, true, [this, life = life_, request = a.request, file] {
    if (life != life_) return;
    Tell(protocol::CheckpointWritten{request.generation, request.version, stage_, {}, {file}});
  });
}

void FleetWorker::Do(const action::PinCopy& a) {
  pinned_.insert(a.request.version);
  Tell(protocol::StatePinned{
      a.request.generation, a.request.version, StateDigest(a.request.version), {}});
}

void FleetWorker::Do(const action::UnpinCopy& a) { pinned_.erase(a.version); }

void FleetWorker::Do(const action::SendParcel& a) {
  const double bytes = world_.fleet.job.GradientBytes(stage_.value);
  world_.host.SendToWorker(*this, a.to,
                           protocol::Parcel{.generation = generation_,
                                            .step = a.step,
                                            .stage = stage_,
                                            .group = group(),
                                            .count = static_cast<std::uint64_t>(bytes),
                                            .level = a.level,
                                            .contributions = a.contributions},
                           Traffic::kParcels, bytes);
}

void FleetWorker::Do(const action::BeginAnew& a) {
  Forget();
  term_ = a.request.term;
  stage_ = a.request.stage;
  Load(a.request.generation, a.request.version, a.request.checkpoint_uri);
}

void FleetWorker::Do(const action::Tell& a) { Tell(a.message); }

void FleetWorker::Do(const action::Rejoin&) { world_.host.End(*this, !leave_by_); }

}  // namespace swarm::ctl

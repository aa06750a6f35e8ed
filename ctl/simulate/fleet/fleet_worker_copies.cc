// FleetWorker: the state that a joiner copies from the replicas of its stage, and the reduced
// gradients of steps in which it took no part (rule 17). protocol::Fetcher decides whom to ask.
#include <algorithm>
#include <cmath>
#include <utility>

#include "ctl/simulate/fleet/fleet_worker.h"
#include "worker/protocol/roster.h"

namespace swarm::ctl {

using protocol::FetchKind;
using protocol::WorkerId;

namespace {

/// As checkpoint::PiecedBytes cuts them.
constexpr double kPieceBytes = 4 * 1024 * 1024;
constexpr Duration kAskAgain = std::chrono::milliseconds(250);

/// Pieces of so many bytes, with the index, which is piece 0.
std::uint64_t PieceCount(double bytes) {
  return 1 + static_cast<std::uint64_t>(std::ceil(bytes / kPieceBytes));
}

/// The size of a piece; the index is small.
double PieceBytes(double bytes, std::uint64_t piece) {
  if (piece == 0) return 0;
  return std::min(kPieceBytes, bytes - kPieceBytes * static_cast<double>(piece - 1));
}

}  // namespace

protocol::Fetcher FleetWorker::FetcherFromReplicas() const {
  const protocol::Roster roster = replica_ ? replica_->roster() : protocol::Roster();
  std::vector<WorkerId> donors = protocol::ReplicasOf(roster, stage_, identity_.id, donors_);
  std::set<WorkerId> far = protocol::FarFrom(
      kind_.machines.region, donors, roster.members.empty() ? donors_ : roster.members.elements());
  return protocol::Fetcher({.donors = std::move(donors), .far = std::move(far)});
}

void FleetWorker::BeginCopy(const protocol::Welcome& welcome) {
  copy_.emplace(StateCopy{welcome, FetcherFromReplicas()});
  copy_->fetcher.Want(PieceCount(world_.fleet.job.StateBytes(stage_.value)));
  AskForPieces();
}

void FleetWorker::Do(const protocol::action::FetchGradients& a) {
  protocol::Fetcher fetcher = FetcherFromReplicas();
  fetcher.Want(PieceCount(world_.fleet.job.GradientBytes(stage_.value)));
  gradient_copies_.erase(a.record.step);
  gradient_copies_.emplace(a.record.step, GradientCopy{a.record, std::move(fetcher)});
  AskForPieces();
}

void FleetWorker::Ask(protocol::Fetcher& fetcher, protocol::Fetch fetch) {
  for (const protocol::Fetcher::Ask& ask : fetcher.Next(world_.queue.now())) {
    fetch.piece = ask.piece;
    world_.host.SendToWorker(*this, ask.donor, fetch, Traffic::kState, 0);
  }
}

void FleetWorker::AskForPieces() {
  if (copy_) {
    Ask(copy_->fetcher,
        {copy_->welcome.generation, FetchKind::kState, copy_->welcome.version, {}, {}, 0});
  }
  for (auto& [step, copy] : gradient_copies_) {
    const auto& groups = copy.record.groups;
    const auto own = std::ranges::find(groups, group(), &protocol::GroupResult::group);
    if (own == groups.end()) continue;
    Ask(copy.fetcher, {copy.record.generation, FetchKind::kGradient, protocol::Version(step.value),
                       own->group, own->k, 0});
  }
  // Donors that do not answer are noticed by asking again.
  if ((!copy_ && gradient_copies_.empty()) || std::exchange(asks_later_, true)) return;
  Later(kAskAgain, [this] {
    asks_later_ = false;
    FinishCopies();
    if (alive_) AskForPieces();
  });
}

double FleetWorker::CopiedBytes(FetchKind kind) const {
  const FleetJob& job = world_.fleet.job;
  return kind == FetchKind::kGradient ? job.GradientBytes(stage_.value)
                                      : job.StateBytes(stage_.value);
}

void FleetWorker::Serve(const WorkerId& from, const protocol::Fetch& fetch) {
  protocol::Fetched fetched{
      fetch.generation, fetch.kind, fetch.version, fetch.group, fetch.k, fetch.piece, 0, {}};
  const bool gradient = fetch.kind == FetchKind::kGradient;
  const auto sum = sums_.find(protocol::Step(fetch.version.value));
  const bool here =
      gradient ? sum != sums_.end() && sum->second == fetch.k : pinned_.contains(fetch.version);
  const double bytes = CopiedBytes(fetch.kind);
  if (!here || !replica_ || fetch.generation != generation_) fetched.error = "it is not here";
  world_.host.SendToWorker(*this, from, fetched, gradient ? Traffic::kReplay : Traffic::kState,
                           fetched.error.empty() ? PieceBytes(bytes, fetch.piece) : 0);
}

void FleetWorker::OnFetched(const WorkerId& from, const protocol::Fetched& fetched) {
  const auto take = [&](protocol::Fetcher& fetcher) {
    if (fetched.error.empty()) {
      copied_bytes_ += PieceBytes(CopiedBytes(fetched.kind), fetched.piece);
      fetcher.OnPiece(from, fetched.piece, true, world_.queue.now());
    } else {
      fetcher.OnGone(from, fetched.error);
    }
  };
  if (fetched.kind == FetchKind::kGradient) {
    const auto copy = gradient_copies_.find(protocol::Step(fetched.version.value));
    if (copy != gradient_copies_.end()) take(copy->second.fetcher);
  } else if (copy_ && fetched.version == copy_->welcome.version) {
    take(copy_->fetcher);
  }
  FinishCopies();
  if (alive_) AskForPieces();
}

void FleetWorker::FinishCopies() {
  if (copy_) {
    if (!copy_->fetcher.failure().empty()) return world_.host.End(*this, true);
    if (!copy_->fetcher.done()) return;
    const protocol::Welcome welcome = std::exchange(copy_, std::nullopt)->welcome;
    Install(welcome.generation, welcome.version);
  }
  std::vector<protocol::CommitRecord> done;
  for (const auto& [step, copy] : gradient_copies_) {
    if (!copy.fetcher.failure().empty()) return world_.host.End(*this, true);
    if (copy.fetcher.done()) done.push_back(copy.record);
  }
  for (const protocol::CommitRecord& record : done) {
    if (!replica_ || gradient_copies_.erase(record.step) == 0) continue;
    const auto own = std::ranges::find(record.groups, group(), &protocol::GroupResult::group);
    sums_[record.step] = own->k;
    Carry(replica_->OnGradientsFetched(record.step));
  }
}

}  // namespace swarm::ctl

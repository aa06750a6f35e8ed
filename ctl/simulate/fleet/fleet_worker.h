// A worker of a simulated fleet: the real Replica, and around it a shell as worker/stage has it,
// in which computing takes virtual seconds and payloads are numbers of bytes. Tensors do not exist:
// all replicas agree on all sums and states.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "base/rng.h"
#include "ctl/simulate/fleet/device.h"
#include "ctl/simulate/fleet/fleet.h"
#include "ctl/simulate/fleet/sums.h"
#include "worker/protocol/fetcher.h"
#include "worker/protocol/reachability/link_reports.h"
#include "worker/protocol/replica/replica.h"

namespace swarm::ctl {

class FleetWorker;

/// A contribution that a job needs, whoever computes it.
struct Cell {
  protocol::Generation generation;
  protocol::Step step;
  protocol::Microbatch microbatch;
  protocol::StageIndex stage;
  auto operator<=>(const Cell&) const = default;
};
inline Cell CellOf(const protocol::TaskKey& key) {
  return {key.generation, key.step, key.microbatch, key.stage};
}

/// What a worker asks of the world around it.
class WorkerHost {
 public:
  virtual ~WorkerHost() = default;
  virtual void SendToTrainer(const FleetWorker& from, protocol::Message message) = 0;
  /// The message arrives when its bytes have, if both workers still live.
  virtual void SendToWorker(const FleetWorker& from, const protocol::WorkerId& to,
                            protocol::Message message, Traffic kind, double bytes) = 0;
  /// Bytes from or to the storage of the checkpoints; `done` is called if the worker still lives.
  virtual void UseStorage(const FleetWorker& worker, double bytes, bool upload,
                          std::function<void()> done) = 0;
  virtual void OnFolded(const Cell& cell) = 0;
  /// The process ends. `again`: it comes back with the same name, and knows nothing.
  virtual void End(FleetWorker& worker, bool again) = 0;
};

/// Who a worker is.
struct WorkerIdentity {
  protocol::WorkerId id;
  protocol::Incarnation incarnation;
  std::size_t group = 0;  ///< of the fleet
  Region region = 0;
  FlowNetwork::Node node = 0;
};

/// More than 25 methods: one for each action and message, as in a worker.
class FleetWorker {
 public:
  /// All outlive the worker.
  struct World {
    const Fleet& fleet;
    EventQueue& queue;
    Sums& sums;
    WorkerHost& host;
  };

  FleetWorker(const World& world, WorkerIdentity identity);

  /// Reports to the trainer.
  void Start();
  /// The machine will go in so many seconds, and the worker says so.
  void BeginLeaving(double seconds);
  /// The process is no more. It does nothing from now on, and forgets what it has.
  void Kill();

  void OnMessage(const protocol::WorkerId& from, const protocol::Message& message);
  protocol::Heartbeat Beat() const;
  /// Reports what is new about its connections, which are `links`. Call it every few seconds.
  void ReportLinks(const std::map<protocol::WorkerId, protocol::Link>& links);

  const WorkerIdentity& identity() const { return identity_; }
  bool alive() const { return alive_; }
  double busy_seconds() const { return device_.busy_seconds(); }
  /// Accepted or folded here, in steps that are not committed.
  const std::set<Cell>& cells() const { return cells_; }

 private:
  /// A copy from other replicas in pieces. Piece 0 is the index.
  struct StateCopy {
    protocol::Welcome welcome;
    protocol::Fetcher fetcher;
  };
  struct GradientCopy {
    protocol::CommitRecord record;
    protocol::Fetcher fetcher;
  };

  // fleet_worker.cc
  void Tell(protocol::Message message);
  void OnForward(const protocol::WorkerId& from, const protocol::Forward& frame);
  void On(const protocol::Welcome& welcome);
  void Load(protocol::Generation generation, protocol::Version version, const std::string& uri);
  /// The state is here: puts it on the device, and serves.
  void Install(protocol::Generation generation, protocol::Version version);
  void BeginServing(protocol::Generation generation, protocol::Version version);
  void Forget();
  /// Carries `event` out later, unless the process or its state is gone by then.
  void Later(Duration delay, std::function<void()> event);
  double Jittered(double seconds);
  /// Asks the others of the stage, the near ones first.
  protocol::Fetcher FetcherFromReplicas() const;
  protocol::GroupIndex group() const { return protocol::GroupIndex(stage_.value); }
  /// Of the state of this stage at that version: the same at all replicas.
  Digest StateDigest(protocol::Version version) const;

  // fleet_worker_copies.cc
  void BeginCopy(const protocol::Welcome& welcome);
  /// Of all pieces of a state or a gradient of this stage.
  double CopiedBytes(protocol::FetchKind kind) const;
  void Serve(const protocol::WorkerId& from, const protocol::Fetch& fetch);
  void OnFetched(const protocol::WorkerId& from, const protocol::Fetched& fetched);
  void AskForPieces();
  void Ask(protocol::Fetcher& fetcher, protocol::Fetch fetch);
  void FinishCopies();

  // fleet_worker_actions.cc
  void Carry(protocol::Actions actions);
  void Do(const protocol::action::RunForward& a);
  void Do(const protocol::action::RunBackward& a);
  void Do(const protocol::action::SendForward& a);
  void Do(const protocol::action::SendBackward& a);
  void Do(const protocol::action::FoldGradients& a);
  void Do(const protocol::action::DropTask& a);
  void Do(const protocol::action::ClearStep& a);
  void Do(const protocol::action::StartReduce& a);
  void Do(const protocol::action::StopReduces& a);
  void Do(const protocol::action::FetchGradients& a);
  void Do(const protocol::action::ApplyCommit& a);
  void Do(const protocol::action::ReleaseStep& a);
  void Do(const protocol::action::ReleaseSums& a);
  void Do(const protocol::action::TakeCheckpoint& a);
  void Do(const protocol::action::PinCopy& a);
  void Do(const protocol::action::UnpinCopy& a);
  void Do(const protocol::action::SendParcel& a);
  void Do(const protocol::action::BeginAnew& a);
  void Do(const protocol::action::Tell& a);
  void Do(const protocol::action::Rejoin& a);
  /// What concerns payloads, of which there are none.
  template <typename A>
  void Do(const A&) {}
  void ReportSumLater(std::shared_ptr<const protocol::Reduce> reduce);

  const World world_;
  const WorkerIdentity identity_;
  const FleetGroup& kind_;
  Rng rng_;
  Device device_;
  bool alive_ = true;
  std::uint64_t life_ = 0;  // counts what was forgotten
  std::optional<Timepoint> leave_by_;

  std::optional<protocol::Replica> replica_;
  protocol::Term term_;
  protocol::StageIndex stage_;
  protocol::Generation generation_;
  protocol::Attempt floor_;
  std::vector<protocol::Message> early_;  // control that came before the replica was there
  std::vector<protocol::Member> donors_;
  std::set<Cell> cells_;
  std::map<protocol::Step, protocol::Attempt> sums_;
  std::set<protocol::Version> pinned_;
  std::optional<StateCopy> copy_;
  std::map<protocol::Step, GradientCopy> gradient_copies_;
  double copied_bytes_ = 0;
  protocol::LinkReports link_reports_;
  bool asks_later_ = false;
};

}  // namespace swarm::ctl

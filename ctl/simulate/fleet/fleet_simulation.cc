#include "ctl/simulate/fleet/fleet_simulation.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "ctl/simulate/fleet/fleet_worker.h"
#include "ctl/simulate/fleet/link_meters.h"
#include "ctl/simulate/fleet/presence.h"
#include "ctl/simulate/fleet/progress.h"
#include "ctl/simulate/fleet/recoveries.h"

namespace swarm::ctl {
namespace {

using protocol::Message;
using protocol::WorkerId;

/// As workers send them.
constexpr Duration kBeat = std::chrono::milliseconds(250);
/// As workers look at their links, but not as often.
constexpr Duration kLook = protocol::LinkReports::kInterval;
/// Lines of the trainer's events that are kept: the first.
constexpr std::size_t kLogMax = 1'000'000;
/// A job that has failed is noticed within this virtual time.
constexpr Duration kSlice = std::chrono::seconds(1);

class Simulation final : public WorkerHost, public TrainerHost {
 public:
  Simulation(const Fleet& fleet, std::uint64_t seed, const FleetTrainer::Stopwatch& stopwatch)
      : fleet_(fleet),
        links_(fleet),
        trainer_region_(links_.RegionOf(fleet.trainer_region)),
        begin_(queue_.now()),
        network_(&queue_),
        storage_(network_.Add(kUnlimited, kUnlimited)),
        sums_(&queue_, &network_, &links_, &traffic_,
              [this](const WorkerId& id) { return regions_.at(id); }),
        trainer_(fleet, seed, &queue_, this, stopwatch),
        stays_(DrawStays(fleet, seed)) {}

  FleetResult Run();

  // WorkerHost
  void SendToTrainer(const FleetWorker& from, Message message) override;
  void SendToWorker(const FleetWorker& from, const WorkerId& to, Message message, Traffic kind,
                    double bytes) override;
  void UseStorage(const FleetWorker& worker, double bytes, bool upload,
                  std::function<void()> done) override;
  void OnFolded(const Cell& cell) override { recoveries_.OnFolded(cell, queue_.now()); }
  void End(FleetWorker& worker, bool again) override;

  // TrainerHost
  void SendFromTrainer(const WorkerId& to, Message message) override;
  void SendTokens(const WorkerId& to, protocol::Forward frame) override;
  void OnEvent(const protocol::order::Event& event) override;
  void OnStep(const protocol::CommitRecord& record) override;
  void OnRolledBack(protocol::Version version) override;

 private:
  struct Machine {
    const Stay* stay = nullptr;
    Region region = 0;
    FlowNetwork::Node node = 0;
    FleetWorker* worker = nullptr;  ///< its process; null: between two, or gone
    std::uint64_t incarnations = 0;
    bool gone = false;
  };

  Timepoint At(double seconds) const { return begin_ + FromSeconds(seconds); }
  void Arrive(const Stay& stay);
  void Depart(Machine& machine);
  void StartProcess(Machine& machine);
  void StopProcess(FleetWorker& worker);
  FleetWorker* Find(const WorkerId& id) const;
  /// Hands the message over after the way, if the worker still lives then.
  void Deliver(const WorkerId& from, FleetWorker* to, std::shared_ptr<const Message> message,
               Duration way);
  void Beat();
  void LookAtLinks();
  double BusySeconds() const;

  const Fleet& fleet_;
  EventQueue queue_;
  const Links links_;
  const Region trainer_region_;
  const Timepoint begin_;
  FlowNetwork network_;
  const FlowNetwork::Node storage_;
  TrafficCounts traffic_;
  Sums sums_;
  FleetTrainer trainer_;
  const std::vector<Stay> stays_;
  std::map<WorkerId, Region> regions_;
  std::map<WorkerId, Machine> machines_;
  std::map<WorkerId, FleetWorker*> living_;
  /// All processes that ever were: events may still name those that have ended.
  std::deque<std::unique_ptr<FleetWorker>> processes_;
  LinkMeters link_meters_;
  Recoveries recoveries_;
  Progress progress_;
  std::vector<FleetResult::Event> log_;
  std::uint64_t lost_ = 0, arrived_ = 0;
};

FleetResult Simulation::Run() {
  for (const Stay& stay : stays_) {
    queue_.At(At(stay.begin), [this, &stay] { Arrive(stay); });
  }
  trainer_.Start();
  Beat();
  if (fleet_.job.reports_links) LookAtLinks();
  double busy_before = 0;
  queue_.At(At(fleet_.warm_up_seconds), [&] { busy_before = BusySeconds(); });
  while (queue_.now() < At(fleet_.seconds) && trainer_.failure().empty()) {
    queue_.RunUntil(std::min(queue_.now() + kSlice, At(fleet_.seconds)));
  }
  const double end = ToSeconds(queue_.now() - begin_);
  const double warm_up = std::min(fleet_.warm_up_seconds, end);
  FleetResult result = progress_.Summarize(fleet_, stays_, warm_up, end);
  result.failure = trainer_.failure();
  const double machine_seconds = result.workers * result.seconds;
  if (machine_seconds > 0) result.busy_share = (BusySeconds() - busy_before) / machine_seconds;
  result.lost = lost_;
  result.arrived = arrived_;
  result.counts = trainer_.Counts();
  result.recoveries = recoveries_.Times();
  result.traffic = traffic_;
  result.traffic_seconds = end;
  result.trainer = trainer_.load();
  result.log = std::move(log_);
  result.events = queue_.events();
  return result;
}

double Simulation::BusySeconds() const {
  double busy = 0;
  for (const auto& process : processes_) busy += process->busy_seconds();
  return busy;
}

// ---- machines ----

void Simulation::Arrive(const Stay& stay) {
  if (stay.begin > 0) ++arrived_;
  const FleetGroup& group = fleet_.groups[stay.group];
  const auto rate = [](double bytes) { return bytes > 0 ? bytes : kUnlimited; };
  const WorkerId id(stay.name);
  Machine& machine = machines_[id];
  machine.stay = &stay;
  machine.region = regions_[id] = links_.RegionOf(group.machines.region);
  machine.node = network_.Add(rate(group.machines.upload), rate(group.machines.download));
  StartProcess(machine);
  if (stay.end >= fleet_.seconds) return;
  queue_.At(At(stay.end), [this, &machine] { Depart(machine); });
  if (group.notice_seconds <= 0) return;
  queue_.At(At(stay.end - group.notice_seconds), [this, &machine, end = At(stay.end)] {
    if (machine.worker != nullptr) {
      machine.worker->BeginLeaving(ToSeconds(end - queue_.now()));
    }
  });
}

void Simulation::Depart(Machine& machine) {
  ++lost_;
  machine.gone = true;
  if (machine.worker == nullptr) return;
  const WorkerId id = machine.worker->identity().id;
  recoveries_.OnLost(machine.worker->cells(), queue_.now());
  StopProcess(*machine.worker);
  queue_.After(FromSeconds(fleet_.detect_seconds),
               [this, id] { trainer_.OnWorkerLost(id, "no sign of life", true); });
}

void Simulation::StartProcess(Machine& machine) {
  const WorkerId id(machine.stay->name);
  processes_.push_back(std::make_unique<FleetWorker>(
      FleetWorker::World{fleet_, queue_, sums_, *this},
      WorkerIdentity{id, protocol::Incarnation(++machine.incarnations), machine.stay->group,
                     machine.region, machine.node}));
  machine.worker = living_[id] = processes_.back().get();
  machine.worker->Start();
}

void Simulation::StopProcess(FleetWorker& worker) {
  worker.Kill();
  link_meters_.Forget(worker.identity().id);
  network_.Remove(worker.identity().node);
  living_.erase(worker.identity().id);
  machines_.at(worker.identity().id).worker = nullptr;
}

void Simulation::End(FleetWorker& worker, bool again) {
  if (!worker.alive()) return;
  const WorkerId id = worker.identity().id;
  StopProcess(worker);
  queue_.After(links_.OneWay(worker.identity().region, trainer_region_),
               [this, id] { trainer_.OnWorkerLost(id, "the connection broke", false); });
  if (!again) return;
  queue_.After(FromSeconds(fleet_.restart_seconds), [this, id] {
    Machine& machine = machines_.at(id);
    if (!machine.gone) StartProcess(machine);
  });
}

// ---- messages ----

FleetWorker* Simulation::Find(const WorkerId& id) const {
  const auto at = living_.find(id);
  return at == living_.end() ? nullptr : at->second;
}

void Simulation::Deliver(const WorkerId& from, FleetWorker* to,
                         std::shared_ptr<const Message> message, Duration way) {
  queue_.After(way, [=, message = std::move(message)] {
    if (to->alive()) to->OnMessage(from, *message);
  });
}

void Simulation::SendToTrainer(const FleetWorker& from, Message message) {
  const auto shared = std::make_shared<const Message>(std::move(message));
  queue_.After(links_.OneWay(from.identity().region, trainer_region_),
               [this, id = from.identity().id, shared] { trainer_.OnMessage(id, *shared); });
}

void Simulation::SendFromTrainer(const WorkerId& to, Message message) {
  FleetWorker* worker = Find(to);
  if (worker == nullptr) return;
  Deliver(WorkerId("trainer"), worker, std::make_shared<const Message>(std::move(message)),
          links_.OneWay(trainer_region_, worker->identity().region));
}

void Simulation::SendTokens(const WorkerId& to, protocol::Forward frame) {
  // The inputs and, shifted by one, the labels, of four bytes each.
  const std::uint64_t ids = fleet_.job.sequences * (fleet_.job.sequence_length + 1);
  traffic_.Add(Traffic::kTokens, 4.0 * static_cast<double>(ids));
  SendFromTrainer(to, std::move(frame));
}

void Simulation::SendToWorker(const FleetWorker& from, const WorkerId& to, Message message,
                              Traffic kind, double bytes) {
  FleetWorker* worker = Find(to);
  if (worker == nullptr) return;
  const auto& [id, incarnation, group, region, node] = from.identity();
  const Region target = worker->identity().region;
  const Duration way = links_.OneWay(region, target);
  auto shared = std::make_shared<const Message>(std::move(message));
  if (bytes <= 0) return Deliver(id, worker, std::move(shared), way);
  network_.Start({.from = node,
                  .to = worker->identity().node,
                  .bytes = bytes,
                  .rate_max = links_.RateMax(region, target),
                  .done = [=, this, id = id, shared = std::move(shared)](double seconds) {
                    traffic_.Add(kind, bytes);
                    link_meters_.OnSent(id, to, 2 * way, bytes, seconds, queue_.now());
                    Deliver(id, worker, shared, way);
                  }});
}

void Simulation::UseStorage(const FleetWorker& worker, double bytes, bool upload,
                            std::function<void()> done) {
  const FlowNetwork::Node node = worker.identity().node;
  network_.Start({.from = upload ? node : storage_,
                  .to = upload ? storage_ : node,
                  .bytes = bytes,
                  .done = [this, bytes, done = std::move(done)](double) {
                    traffic_.Add(Traffic::kCheckpoints, bytes);
                    done();
                  }});
}

void Simulation::Beat() {
  for (const auto& [id, worker] : living_) trainer_.OnBeat(id, worker->Beat());
  queue_.After(kBeat, [this] { Beat(); });
}

void Simulation::LookAtLinks() {
  for (const auto& [id, worker] : living_) {
    worker->ReportLinks(link_meters_.Links(id, queue_.now()));
  }
  queue_.After(kLook, [this] { LookAtLinks(); });
}

// ---- what the trainer says ----

void Simulation::OnEvent(const protocol::order::Event& event) {
  if (log_.size() >= kLogMax) return;
  log_.push_back({ToSeconds(queue_.now() - begin_), event.kind, event.text});
}

void Simulation::OnStep(const protocol::CommitRecord& record) {
  progress_.OnStep(record.step, ToSeconds(queue_.now() - begin_));
  recoveries_.OnCommitted(record.generation, record.step, queue_.now());
}

void Simulation::OnRolledBack(protocol::Version version) {
  progress_.OnRolledBack(version);
  recoveries_.OnRolledBack();
}

}  // namespace

FleetResult SimulateFleet(const Fleet& fleet, std::uint64_t seed,
                          const FleetTrainer::Stopwatch& stopwatch) {
  return Simulation(fleet, seed, stopwatch).Run();
}

}  // namespace swarm::ctl

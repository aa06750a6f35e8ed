// One run of one seed: the world, the job's programs in it, their faults, and the verdict.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/durable_store.h"
#include "tests/simulation/fingerprint.h"
#include "tests/simulation/invariants.h"
#include "tests/simulation/network.h"
#include "tests/simulation/scenario.h"

namespace swarm::simulation {

class WorkerProcess;
class TrainerProcess;

/// The state of a stage, in a worker that has been sent away and comes back.
struct KeptState {
  protocol::StageIndex stage;
  StageState state;
};

/// What is the matter with the disk of a machine.
enum class DiskTrouble : std::uint8_t { kNone, kSlow, kHung };

struct Outcome {
  std::optional<Violation> violation;
  std::uint64_t events = 0;
  std::uint64_t decisions = 0;
  double seconds = 0;  ///< of virtual time
  std::uint64_t generations = 0;
  std::uint64_t trainers = 0;
  std::uint64_t incarnations = 0;  ///< worker processes that were started
  /// Each stage had serving workers in two regions when a region was lost; none: none was lost.
  std::optional<bool> held_apart = {};
  std::uint64_t departures = 0;   ///< workers that a trainer has let go
  std::uint64_t returns = 0;      ///< workers that went on from the state that they had kept
  std::uint64_t declined = 0;     ///< workers that had kept a state and were to get another one
  bool stopped = false;           ///< ended early, on request
  std::uint64_t fingerprint = 0;  ///< of all orders and actions
};

/// The world, the job and the counts that all processes of a run share. Not thread-safe; one thread
/// runs one simulation. More than 25 methods and 15 fields: an accessor for each shared part.
class Simulation {
 public:
  Simulation(Scenario scenario, Mutations mutations, bool verbose);
  ~Simulation();

  Outcome Run();

  const Scenario& scenario() const { return scenario_; }
  const Job& job() const { return scenario_.job; }
  const Mutations& mutations() const { return mutations_; }
  World& world() { return world_; }
  Network& network() { return network_; }
  Audit& audit() { return audit_; }
  DurableStore& store() { return store_; }
  Fingerprint& fingerprint() { return fingerprint_; }
  const Bytes& Tokens(protocol::TaskKind kind, protocol::Step step, protocol::Microbatch m);

  /// Whether a disk is full now: not often enough to end the job.
  bool FailsToWrite();
  /// How long the worker's disk takes for a file. Nothing: it never answers.
  std::optional<Duration> DiskTime(const WorkerId& worker);
  void TroubleDisk(const WorkerId& worker, DiskTrouble trouble) { disks_[worker] = trouble; }
  /// Whether a bit may flip: once a run, as three are no fault of a device.
  bool MayFlip() { return !std::exchange(flipped_, true); }

  // Acts on processes, by themselves and by faults.

  Pid StartWorker(const WorkerId& id, Duration delay, std::optional<KeptState> kept = std::nullopt);
  /// The process ends; its peers notice within `notice`.
  void EndProcess(Pid pid, Duration notice);
  /// The process ends and comes back as a new incarnation.
  void RestartWorker(Pid pid, Duration delay, std::optional<KeptState> kept = std::nullopt);
  void StartTrainer(Duration delay);
  /// The newest trainer's network name.
  const WorkerId& trainer_name() const { return trainer_name_; }
  std::optional<Pid> trainer() const;
  /// Living worker processes, by pid.
  std::vector<Pid> Workers() const;
  WorkerProcess& worker(Pid pid);
  void OnDeparture() { ++departures_; }
  /// Before the first loss of a region.
  void OnRegionLost(bool held_apart) {
    if (!held_apart_) held_apart_ = held_apart;
  }
  void OnReturn() { ++returns_; }
  void OnDeclined() { ++declined_; }
  WorkerId NewWorkerName() { return WorkerId("w" + std::to_string(names_++)); }
  void OnFinished(protocol::Term term, bool succeeded, bool stopped, const std::string& reason);

 private:
  void CheckEnd();
  /// After the last fault, mends everything that can be mended. Then the job must come to its end.
  void MendEverything();
  std::string DescribeState();

  const Scenario scenario_;
  const Mutations mutations_;
  World world_;
  Network network_;
  const Reference reference_;
  Audit audit_;
  DurableStore store_;
  Fingerprint fingerprint_;
  std::map<std::tuple<protocol::TaskKind, protocol::Step, protocol::Microbatch>, Bytes> tokens_;
  std::vector<Pid> workers_;
  std::vector<Pid> trainers_;
  WorkerId trainer_name_;
  std::uint64_t names_ = 0;
  std::uint64_t incarnations_ = 0;
  std::uint64_t departures_ = 0;
  std::optional<bool> held_apart_;
  std::uint64_t returns_ = 0;
  std::uint64_t declined_ = 0;
  std::uint64_t write_failures_ = 0;
  std::map<WorkerId, DiskTrouble> disks_;
  bool flipped_ = false;
  bool finished_ = false;
  bool stopped_ = false;
  bool trainer_coming_ = false;
  std::optional<Timepoint> mended_;
};

/// The whole: scenario, run, verdict.
Outcome RunSeed(std::uint64_t seed, const Wishes& wishes, const Mutations& mutations, bool verbose);

}  // namespace swarm::simulation

// The faults of a run: drawn from the seed, one after the other.
#pragma once

#include "tests/simulation/simulation.h"

namespace swarm::simulation {

class Faults {
 public:
  explicit Faults(Simulation* simulation) : simulation_(*simulation) {}

  /// Begins. Calls `over` when the last fault has happened and all cuts are mended, except that one
  /// pair may stay cut: a job of three workers or more goes on with that.
  void Start(std::function<void()> over);

 private:
  void ScheduleNext();
  void Happen(FaultKind kind);
  std::optional<Pid> PickWorker();
  void KillWorker(Pid pid);
  void LoseStage();
  /// Empty: no worker is alive.
  std::vector<Pid> PickRegion();
  void LoseRegion();
  void CutRegion();
  void CutOff();
  void Isolate();
  void SendAway();
  /// Nothing goes between the two until then; one way or both, as drawn.
  void Cut(Pid a, Pid b, std::uint64_t ways, Timepoint until);
  void CutPair();
  void Drain();
  void KillTrainer();
  void ReplaceTrainer();

  Simulation& simulation_;
  std::uint64_t left_ = 0;
  std::vector<std::pair<WorkerId, WorkerId>> cuts_, isolations_;  // for long
  std::function<void()> over_;
};

}  // namespace swarm::simulation

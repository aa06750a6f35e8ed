// A trainer as worker/trainer has it: the shell around the real Coordinator. What it must not lose
// is in the DurableStore, fenced by its term.
#pragma once

#include <map>
#include <memory>

#include "tests/simulation/simulation.h"

namespace swarm::simulation {

class TrainerProcess : public Process {
 public:
  /// Claims the next term. `take_over`: there was a trainer before.
  TrainerProcess(Simulation* simulation, bool take_over);

  void Start(Pid pid);
  /// The process ends between two orders that belong together.
  void CrashSoon() { crash_soon_ = true; }
  /// Takes a living worker for silent.
  void RaiseFalseAlarm();
  void RaiseFalseAlarm(const WorkerId& id);
  void RequestStop();
  /// The process continues after a pause. Members that it did not hear meanwhile do not count as
  /// silent.
  void OnContinued();

  protocol::Term term() const { return term_; }
  std::string Describe() const;
  /// Every stage has ready replicas in two regions.
  bool IsInTwoRegions() const;

  void OnMessage(const WorkerId& from, const Envelope& envelope) override;
  void OnPeerUp(const WorkerId& peer) override;
  void OnPeerDown(const WorkerId& peer) override;

 private:
  void Tick();
  void CheckSilence();
  void CheckRegions();
  /// By stage, all that are there, with their regions.
  std::vector<protocol::StageLoad> Loads(const protocol::JobStatus& status) const;
  bool IsSuperseded();
  void Carry(protocol::Orders orders);
  void Do(const protocol::order::Tell& o);
  void Do(const protocol::order::Issue& o);
  void Do(const protocol::order::StepDone& o);
  void Do(const protocol::order::Validated& o);
  void Do(const protocol::order::PublishCheckpoint& o);
  void Do(const protocol::order::Event& o);
  void Do(const protocol::order::BeginGeneration& o);
  void Do(const protocol::order::Forget& o);
  void Do(const protocol::order::Retire&) {}  // no operator is simulated
  void Do(const protocol::order::Finish& o);

  Simulation& simulation_;
  World& world_;
  Network& network_;
  const protocol::Term term_;
  const Duration silence_max_;
  Pid pid_ = 0;
  bool gone_ = false;
  bool crash_soon_ = false;
  std::unique_ptr<protocol::Coordinator> coordinator_;
  protocol::Generation generation_;
  std::map<WorkerId, Timepoint> heard_;
  bool stopping_ = false;  // on request
  /// Who served what at the last tick, and since when: in ticks.
  std::vector<std::pair<WorkerId, protocol::StageIndex>> settled_;
  int settled_ticks_ = 0;
};

}  // namespace swarm::simulation

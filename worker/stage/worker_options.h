// How a stage worker is set up.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/spans.h"
#include "base/time.h"
#include "worker/chaos/holds.h"
#include "worker/protocol/ids.h"
#include "worker/protocol/messages/control.h"
#include "worker/stage/load.h"

namespace swarm::stage {

struct WorkerOptions {
  protocol::WorkerId id;
  protocol::Incarnation incarnation;
  std::string cluster = "local";
  std::string region = "local";  ///< for the count of bytes that cross regions
  std::string pod;               ///< that it shares with other workers; empty: none
  protocol::WorkerId trainer;
  std::vector<protocol::Address> trainer_addresses;
  int threads = 1;
  std::string device = "cpu";
  std::string numeric_class;  ///< of this process; see model/numeric_class.h
  /// How long the worker goes on without a trainer before it gives up. The next trainer may take a
  /// while to start.
  Duration trainer_patience = std::chrono::seconds(60);
  /// Bytes of the machine's memory that this worker may use; 0: all.
  std::uint64_t memory = 0;
  /// Bytes that the worker may hold beside the state that it serves (memory/account.h); 0: what
  /// the job says, or else what `memory` has room for.
  std::uint64_t memory_budget = 0;
  /// Called on the compute thread when a piece of work on a training step begins; may block it.
  /// Empty outside of experiments.
  std::function<void(chaos::WorkPhase, protocol::Step)> at_phase = {};
  /// Called on the compute thread before a backward: whether it is to be wrong by a bit. Empty
  /// outside of experiments.
  std::function<bool()> errs = {};
  /// Called on the control thread: these workers have ended for good, so their certificates count
  /// no more. Empty: the caller does not need to know.
  std::function<void(const protocol::Retired&)> on_retired = {};
  /// Gets what the worker does, for a profile; outlives it. Null: there is none.
  Spans* spans = nullptr;
  /// False: the trainer hears nothing of this worker's links. Experiments compare with that.
  bool reports_links = true;
  /// Called on the compute thread. Experiments without training replace it.
  CreateStage create_stage = model::Stage::Create;
};

}  // namespace swarm::stage

// How a stage worker is set up.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

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
  protocol::WorkerId trainer;
  std::vector<protocol::Address> trainer_addresses;
  int threads = 1;
  std::string device = "cpu";
  std::string numeric_class;  ///< of this process; see model/numeric_class.h
  /// How long the worker goes on without a trainer before it gives up. The next trainer may take a
  /// while to start.
  Duration trainer_patience = std::chrono::seconds(60);
  std::uint64_t retained_bytes_max = 1ull << 30;  ///< see protocol::ReplicaOptions
  /// Called on the compute thread when a piece of work on a training step begins; may block it.
  /// Empty outside of experiments.
  std::function<void(chaos::WorkPhase, protocol::Step)> at_phase = {};
  /// Called on the compute thread. Experiments without training replace it.
  CreateStage create_stage = model::Stage::Create;
};

}  // namespace swarm::stage

// How a trainer is set up.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "api/swarmjob.h"
#include "base/time.h"
#include "worker/protocol/coordinator/coordinator.h"

namespace swarm::trainer {

struct TrainerOptions {
  api::SwarmJob job;
  std::string job_uid;
  std::vector<std::uint64_t> replicas;  ///< wanted, per stage
  std::string out_dir;                  ///< steps.jsonl, events.jsonl
  std::string region = {};              ///< of the trainer, which reads the data that are near it
  protocol::Term term{1};  ///< above 1: workers may hold the state of a trainer before this one
  protocol::BalancePolicy balance =
      protocol::BalancePolicy::kNone;  ///< which workers move between stages
  bool resume = false;                 ///< go on from the newest checkpoint, if there is one
  bool keep_workers = false;           ///< when stopped early: they wait for the next trainer
  bool trace_progress = false;         ///< write progress.jsonl: for measurements
  /// How long to ask for a bucket that does not answer before Start fails.
  Duration storage_patience = std::chrono::minutes(10);
  std::stop_token cancelled = {};  ///< ends that wait, with kCancelled
  /// Called on the control thread: these workers have ended for good, so their certificates count
  /// no more. Empty: the caller does not need to know.
  std::function<void(const protocol::Retired&)> on_retired = {};
};

}  // namespace swarm::trainer

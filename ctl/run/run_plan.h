// What the programs of a job are started with: the contract with swarm-worker. Pure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ctl/run/backend.h"
#include "ctl/run/identity.h"
#include "ctl/run/run_folder.h"

namespace swarm::ctl {

struct RunPlan {
  std::filesystem::path out;
  std::vector<std::uint64_t> layout;  ///< replicas per stage
  std::uint64_t threads_per_worker = 1;
  std::string job_uid;
  bool resume = false;
  bool follow_chaos = false;    ///< the programs follow chaos_rules_file()
  bool trace_progress = false;  ///< the trainer writes progress.jsonl
  bool moves = true;            ///< workers move between stages

  std::uint64_t workers() const;
  std::filesystem::path job_file() const { return RunFolder::JobFile(out); }
  std::filesystem::path address_file() const { return out / "trainer.address"; }
  std::filesystem::path steps_file() const { return out / "steps.jsonl"; }
  std::filesystem::path tls_directory() const { return out / "tls"; }
  /// Where each program says at which address it serves metrics, in a file of its name.
  std::filesystem::path metrics_directory() const { return out / "metrics"; }
  std::filesystem::path chaos_rules_file() const { return out / "chaos.rules"; }
  /// The faults that were carried out, an object a line.
  std::filesystem::path chaos_file() const { return out / "chaos.jsonl"; }
  std::filesystem::path log_directory() const { return out / "workers"; }
};

/// The trainer of a term, 1 for the first. `listen` is host:port; empty: any port of 127.0.0.1. No
/// identity: plaintext.
WorkerSpec TrainerSpec(const RunPlan& plan, const std::optional<IdentityFiles>& identity,
                       std::uint64_t term, const std::string& listen);

/// A worker that the trainer at `trainer_address` gives a stage.
WorkerSpec StageSpec(const RunPlan& plan, const std::optional<IdentityFiles>& identity,
                     const std::string& id, const std::string& trainer_address);

}  // namespace swarm::ctl

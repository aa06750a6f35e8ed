// The flags with which `swarmctl run` starts the programs of a job. Pure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ctl/run/identity_files.h"
#include "ctl/run/run_folder.h"
#include "worker/flags/flags.h"

namespace swarm::ctl {

struct RunPlan {
  std::filesystem::path out;
  std::vector<std::uint64_t> layout;  ///< replicas per stage
  /// Of all workers, those that start on this machine; none: all.
  std::optional<std::uint64_t> here;
  /// With --listen: where the trainer and the workers listen. All follow revoked_file(). Empty: at
  /// any port of 127.0.0.1.
  std::string trainer_listen, worker_listen;
  /// Of each pod: its workers compute on one each, and share a process that starts them. Empty or
  /// one: a worker is alone.
  std::vector<std::string> devices;
  /// In which the workers (or pods) of this machine are said to be, in turns; empty: in none.
  std::vector<std::string> regions;
  std::uint64_t threads_per_worker = 1;
  std::uint64_t memory = 0;  ///< bytes of this machine; the workers have equal parts of it
  std::string job_uid;
  bool resume = false;
  bool follow_chaos = false;    ///< the programs follow chaos_rules_file()
  bool trace_progress = false;  ///< the trainer writes progress.jsonl
  std::string log_level = "info";
  bool moves = true;     ///< workers move between stages
  bool profile = false;  ///< each worker writes a file of its name into profile_directory()
  std::string page;      ///< address:port at which the trainer serves the page; empty: none

  static std::filesystem::path ProfileDirectory(const std::filesystem::path& out) {
    return out / "profile";
  }
  std::uint64_t workers() const;
  /// Workers that start on this machine.
  std::uint64_t workers_here() const { return here.value_or(workers()); }
  /// Programs to begin with beside the trainer: pods, or lone workers.
  std::uint64_t pods() const;
  /// The devices of the pod with this number; the last one to begin with may have fewer.
  std::vector<std::string> DevicesOf(std::uint64_t pod) const;
  std::filesystem::path job_file() const { return RunFolder::JobFile(out); }
  std::filesystem::path address_file() const { return out / "trainer.address"; }
  std::filesystem::path page_address_file() const { return out / "page.address"; }
  /// With --listen: where machines enrol, and the fingerprint of the authority.
  std::filesystem::path home_file() const { return out / "home.address"; }
  std::filesystem::path revoked_file() const { return tls_directory() / "revoked"; }
  std::filesystem::path enrolment_file() const { return out / "enrolment.jsonl"; }
  std::filesystem::path steps_file() const { return out / "steps.jsonl"; }
  std::filesystem::path tls_directory() const { return out / "tls"; }
  /// Each program writes the address of its metrics into a file of its name here.
  std::filesystem::path metrics_directory() const { return out / "metrics"; }
  std::filesystem::path profile_directory() const { return ProfileDirectory(out); }
  std::filesystem::path chaos_rules_file() const { return out / "chaos.rules"; }
  /// The faults that were carried out, one JSON object a line.
  std::filesystem::path chaos_file() const { return out / "chaos.jsonl"; }
  std::filesystem::path log_directory() const { return out / "workers"; }
};

/// The trainer of a term, 1 for the first. `listen` is host:port; empty: as the plan says.
/// Without an identity it uses plaintext.
WorkerFlags TrainerFlags(const RunPlan& plan, const std::optional<IdentityFiles>& identity,
                         std::uint64_t term, const std::string& listen);

/// A worker, or a pod of one for each device, that joins the trainer at `trainer_address`. Where
/// there are regions, its number at the end of `id` chooses one.
WorkerFlags StageFlags(const RunPlan& plan, const std::optional<IdentityFiles>& identity,
                       const std::string& id, const std::vector<std::string>& devices,
                       const std::string& trainer_address);

}  // namespace swarm::ctl

// The command line of swarm-worker. Whatever starts the program (swarmctl, the operator, tests)
// writes its arguments with ToArguments; the program reads them with ParseWorkerFlags. Both know
// the options from one list (flags.cc), which is also the only unit here that includes CLI11.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "worker/protocol/balance/balance.h"
#include "worker/protocol/messages/control.h"

namespace swarm {

enum class WorkerRole { kTrainer, kStage };

/// As the address to listen at: nobody can reach this program, which dials its peers.
inline constexpr std::string_view kDialOnly = "none";

/// The options of swarm-worker. A default here is what the program does without the option.
struct WorkerFlags {
  WorkerRole role = WorkerRole::kStage;

  // Of both roles.
  std::string listen = "127.0.0.1:0";  ///< host:port; port 0: a free one; "none": only dial
  std::string advertise;               ///< host:port for the peers; empty: where it listens
  std::string metrics_listen;          ///< address:port; empty: no metrics and no probes
  std::string metrics_address_file;    ///< gets the address of the metrics; empty: none
  std::string chaos_file;              ///< rules of faults (worker/chaos); empty: no faults
  std::string job_uid = "local";
  std::string tls_ca, tls_cert, tls_key;  ///< PEM files; required unless `plaintext`
  bool plaintext = false;
  std::string revoked_file;  ///< ids of workers that may not take part any more; empty: none
  std::string log_level = "info";

  // Of the trainer.
  std::string job;                    ///< file: the SwarmJob as JSON; required
  std::string out;                    ///< folder; required
  std::string address_file;           ///< gets the address it listens at; empty: none
  std::vector<std::uint64_t> layout;  ///< replicas of each stage, at least one each; required
  std::uint64_t term = 1;
  protocol::BalancePolicy balance = protocol::BalancePolicy::kEvent;
  bool resume = false;
  bool keep_workers = false;
  int stop_seconds = 50;       ///< from SIGTERM to the end of the program
  int storage_patience = 600;  ///< seconds to wait at the start for a storage without answer
  bool trace_progress = false;
  std::string page;               ///< address:port to serve the page at (worker/page); empty: none
  std::string page_address_file;  ///< gets the address of the page; empty: none

  // Of a worker.
  std::string id;       ///< required
  std::string trainer;  ///< host:port; required
  /// How it reaches the trainer if that is in another cluster (ParseGateway); empty: as `trainer`.
  std::string trainer_gateway;
  int threads = 1;
  int trainer_patience = 3600;       ///< seconds to wait for a trainer while there is none
  std::string device = "cpu";        ///< or "cuda:N"
  std::vector<std::string> devices;  ///< not empty: start a worker for each (worker/pod)
  std::string pod;                   ///< that it shares with other workers; empty: none
  std::uint64_t pod_memory = 0;      ///< inherited descriptor (net/pod/pod_memory.h); 0: none
  std::uint64_t pod_worker = 0;      ///< this one's number among those of `pod_memory`
  std::string region = "local";
  std::string cluster = "local";  ///< workers of one reach each other's own addresses
  std::string gateway;  ///< how workers of other clusters reach it (ParseGateway); empty: as others
  int drain_seconds = 25;           ///< from SIGTERM to the end of the program
  std::uint64_t memory = 0;         ///< bytes of the machine's that it may use; 0: all
  std::uint64_t memory_budget = 0;  ///< bytes beside its state; 0: as the job says
  std::string profile;              ///< gets spans at the end (base/spans.h); empty: none

  bool operator==(const WorkerFlags&) const = default;
};

/// Whether `name` is that of a device: "cpu" or "cuda:N". Errors: kInvalidArgument.
Status CheckDevice(const std::string& name);
/// Reads "HOST:PORT/NAME": a gateway, and the name by which it knows who is behind it (SNI).
/// Errors: kInvalidArgument.
Result<protocol::Address> ParseGateway(const std::string& text);
/// Reads "cuda:0,cuda:1". Errors: kInvalidArgument (none; one that is no device).
Result<std::vector<std::string>> ParseDevices(const std::string& list);

/// The arguments, without the program's name, that ParseWorkerFlags reads as `flags`. Each is
/// --NAME=VALUE or --NAME. Options with their default value are left out, so that a program that
/// does not know a new option yet can be started by one that does not use it.
std::vector<std::string> ToArguments(const WorkerFlags& flags);

/// What a command line asks for.
struct WorkerCommand {
  WorkerFlags flags;
  std::string print;  ///< not empty: print this and end, for --help and --version
};

/// Reads `arguments`, without the program's name. SWARM_REGION of the environment is the region
/// where --region is not given. Errors: kInvalidArgument, with the option and what it takes.
Result<WorkerCommand> ParseWorkerFlags(std::vector<std::string> arguments);

}  // namespace swarm

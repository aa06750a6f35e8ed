// What the folder of a run holds, as values: the lines of its files, each with its place, and
// nothing that follows from them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/swarmjob.h"

namespace swarm::ctl {

/// What a step took at a stage: seconds of all its workers together (order::StageTime).
struct StageRow {
  std::uint64_t workers = 0;
  double task_seconds = 0;
  double busy_seconds = 0;
  double reduce_seconds = 0;  ///< of the sum: the workers make it side by side
};

/// A line of steps.jsonl. Numbers that are not finite are NaN: the file has null for them.
struct StepRow {
  std::uint64_t step = 0;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  std::uint64_t tokens = 0;
  double seconds = 0;  ///< since the commit before, of the same trainer
  std::uint64_t boundary_bytes = 0;
  std::vector<StageRow> stages = {};  ///< none: nobody has measured them
};

/// A worker's part of a sum.
struct LedgerPart {
  std::string worker;
  std::uint64_t stage = 0;
  std::vector<std::uint64_t> microbatches;
};

struct LedgerGroup {
  std::uint64_t group = 0;
  std::uint64_t term = 0;  ///< of the trainer that ordered the sum
  std::vector<LedgerPart> parts;
};

/// What the digest at the end of a line (base/chained_line.h) says of it and of its place.
enum class Chain {
  kNone,  ///< the line has no digest: an older program wrote it
  kHolds,
  kBroken,
};

/// A line of ledger.jsonl.
struct LedgerRow {
  std::uint64_t line = 0;  ///< in the file, from 1
  std::uint64_t step = 0;
  std::uint64_t generation = 0;
  Chain chain = Chain::kNone;
  bool adopted = false;  ///< decided by the trainer before, so its parts are not known
  std::vector<LedgerGroup> groups;
};

/// A line of a file that is not what its writer writes.
struct DamagedLine {
  std::uint64_t line = 0;  ///< from 1
  std::string problem;
};

/// A line of events.jsonl.
struct EventRow {
  double time = 0;  ///< seconds since 1970
  std::string kind;
  std::string text;
  std::optional<std::uint64_t> version;  ///< of the weights, then; none: an older program wrote it
  double loss = 0;                       ///< Validation
  // As protocol::EventFields.
  std::string worker = {};
  std::optional<std::uint64_t> stage = {};
  std::string cause = {};
  std::optional<double> seconds = {};
};

/// A line of chaos.jsonl: a fault that was injected.
struct FaultRow {
  double time = 0;         ///< seconds since 1970
  std::uint64_t step = 0;  ///< steps that were committed
  std::string text;        ///< "kill worker-1"
  bool over = false;       ///< the end of a fault
  std::string error;       ///< why it was impossible; empty: it was done
};

/// A file of the data, as it was at a start.
struct DataFile {
  std::string uri;
  std::uint64_t bytes = 0;
  std::string digest;  ///< XXH3-128; empty: the file was large
};

/// A line of starts.jsonl: a start of swarmctl.
struct StartRow {
  double time = 0;  ///< seconds since 1970
  std::string version;
  std::vector<std::string> command;
  std::string folder;  ///< in which it was called
  std::string host, system, processor;
  std::uint64_t processors = 0;
  std::uint64_t memory_bytes = 0;
  std::vector<DataFile> data;  ///< those that were files of this machine
};

struct RunRecord {
  std::string folder;
  api::SwarmJob job;
  std::vector<StartRow> starts;  ///< none: another program, or an older one, began the run
  std::vector<StepRow> steps;    ///< in the order of the file
  bool has_ledger = false;       ///< false: one process trained, without workers
  std::vector<LedgerRow> ledger;
  std::vector<DamagedLine> damaged_ledger;  ///< lines that are left out of `ledger`
  std::vector<EventRow> events;
  std::vector<FaultRow> faults;
  bool running = false;   ///< a program holds the folder's lock
  std::string prompt;     ///< to sample from the model with
  std::string sample;     ///< the prompt, and what the newest checkpoint makes of it; may be empty
  std::string no_sample;  ///< why there is none
};

}  // namespace swarm::ctl

// The files a run leaves below its --out folder: steps.jsonl, one object a committed step, and
// events.jsonl, the same for a swarm and for the single-process reference; of a swarm also
// ledger.jsonl, the contributions of each worker to each committed step, and, for measurements,
// progress.jsonl. Each line of the ledger has a digest of itself and of the line before
// (base/chained_line.h).
//
// On a full disk the lines wait in memory until there is room again (LineFile); the training goes
// on. A trainer that another trainer has replaced writes nothing more (FenceCheck). Not
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "worker/protocol/coordinator/order.h"
#include "worker/protocol/ledger.h"
#include "worker/protocol/messages/control.h"
#include "worker/trainer/log/line_file.h"

namespace swarm::trainer {

/// One line of steps.jsonl.
struct StepLine {
  protocol::CommitRecord record;
  std::uint64_t tokens = 0;
  double seconds = 0;
  std::uint64_t boundary_bytes = 0;
  std::vector<protocol::order::StageTime> times = {};  ///< by stage; empty: nobody has measured
};

/// One line of ledger.jsonl.
struct LedgerLine {
  protocol::CommitRecord record;
  /// Claims of each group of the record, which its sum binds; empty: unknown, the line says
  /// "adopted".
  std::vector<std::vector<protocol::Participant>> claims;
  std::vector<protocol::Redone> redone = {};
};

/// The time in seconds since 1970, for logs.
double UnixSeconds();

/// The line of steps.jsonl, without its end.
std::string FormatStep(const StepLine& line);

class RunLog {
 public:
  /// Asked before anything is written; kAborted: another trainer writes now.
  using FenceCheck = std::function<Status()>;

  /// Writes the lines that wait, if there is room.
  ~RunLog() { Flush(); }
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  /// Keeps all existing lines.
  static constexpr std::uint64_t kKeepAll = ~std::uint64_t{0};

  /// Opens the files in `folder`, which is made if need be. steps.jsonl and ledger.jsonl are cut to
  /// the steps before `first_step`, so that a resumed run goes on without a gap or a doubled line;
  /// 0 begins events.jsonl anew as well. Errors: kUnavailable, naming the file.
  static Result<std::unique_ptr<RunLog>> Open(const std::string& folder, std::uint64_t first_step,
                                              FenceCheck fence = nullptr);

  /// Cuts steps.jsonl and ledger.jsonl to the steps before `first_step`. Errors: as Open, and the
  /// log then goes on where it was; also if lines still wait for room on the disk; kAborted
  /// (another trainer writes now).
  Status CutTo(std::uint64_t first_step);
  /// Asks the fence. False: another trainer writes now, and this log has stopped.
  bool MayWrite();
  /// Whether the fence's last answer was that another trainer writes.
  bool fenced() const { return fence_said_.code() == StatusCode::kAborted; }
  const Status& fence() const { return fence_said_; }
  /// False: the step has a line already, of an earlier trainer, and gets no second one.
  bool Step(const StepLine& line);
  /// As Step; the file is made with the first line.
  void Ledger(const LedgerLine& line);
  /// Begins to write progress.jsonl, after its existing lines, for Progress and Step: a line for
  /// each piece of work that a worker reports and for each commit, with the time at which the
  /// trainer learned of it. Errors: kUnavailable, naming the file.
  Status TraceProgress();
  /// Does nothing without TraceProgress.
  void Progress(const std::string& worker, const protocol::Progress& progress);
  /// The line also has the version of the weights: where the event is among the steps. Fields that
  /// are not there have no key.
  void Event(protocol::EventKind kind, const std::string& text,
             const protocol::EventFields& fields = {});
  /// False: the version has a line already.
  bool Validation(protocol::Version version, double loss);
  /// Tries again to write the lines that wait for room. Call it now and then.
  void Flush();

 private:
  RunLog(std::string folder, LineFile events, FenceCheck fence)
      : folder_(std::move(folder)), fence_(std::move(fence)), events_(std::move(events)) {}
  /// Whether no line waits after another try.
  bool Settle();

  const std::string folder_;
  const FenceCheck fence_;
  Status fence_said_;
  LineFile steps_;
  LineFile events_;
  LineFile ledger_;    // made with the first line
  LineFile progress_;  // if traced
  std::uint64_t next_step_ = 0;
  std::uint64_t next_ledger_step_ = 0;
  std::string ledger_digest_;    // of its last line
  std::uint64_t validated_ = 0;  // the newest version with a line
};

}  // namespace swarm::trainer

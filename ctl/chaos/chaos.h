// Faults by script: what `swarmctl run --chaos` does to the programs of a job, for users who want
// to see it live through them and for tests. Pure: text in, faults out; carried out elsewhere
// (chaos_driver.h).
//
// One fault a line, or several separated by `;`. `#` begins a comment. A fault is a verb, whom it
// meets, and clauses in any order:
//
//   kill TARGET                    SIGKILL
//   stop TARGET [for T]            SIGSTOP, and SIGCONT when T is over
//   continue NAME                  SIGCONT
//   slow TARGET by FACTOR [for T]  computes FACTOR times slower
//   cut TARGET [for T]             no message from or to anybody
//   cut TARGET from NAME [for T]   none between the two
//   cut TARGET to NAME|all [for T] none in this direction; `cut all to NAME` is the other one
//   delay TARGET by T [for T]      every message from or to it is so much later
//   join [N]                       one more worker, or N
//   drain TARGET [grace T]         SIGTERM, and SIGKILL when the grace (30s) is over
//
//   TARGET  worker-3 | trainer | any | any of stage 2      (any: a worker, drawn from the seed)
//
//   at step N            when N steps are committed
//   at PHASE of step N [in worker-M]
//                        as worker-M, or else the target, begins its part of that phase (forward,
//                        backward, reduce, commit) of step N or, if it has none, of the next step
//                        in which it has one; it waits there until the fault is done
//   at T                 so long after the start of the workers
//   every T              again and again, first after T
//   about every T        again and again, at random (Poisson)
//   after step N | T     for `every`: counts from there
//   until step N | T     for `every`: not later
//   seed N               for what is drawn (0)
//
//   T       500ms | 2.5s | 3m
//
// Example: kill worker-1 at step 7; stop any at 12s for 3s; kill any about every 2s until step 100
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "base/status.h"
#include "base/time.h"
#include "worker/chaos/holds.h"

namespace swarm::ctl {

/// The grammar above, for --help.
extern const std::string_view kChaosGrammar;

enum class FaultKind { kKill, kStop, kContinue, kSlow, kCut, kDelay, kJoin, kDrain };

/// What is to be done now.
struct Fault {
  FaultKind kind = FaultKind::kKill;
  /// A program; of a cut also "all". Empty for kJoin.
  std::string target;
  /// Of a cut: the other side, a program or "all".
  std::string other;
  bool one_way = false;                  ///< of a cut: only from `target` to `other`
  double factor = 1;                     ///< of kSlow
  Duration amount{};                     ///< of kDelay: the delay; of kDrain: the grace
  std::uint64_t count = 1;               ///< of kJoin
  bool over = false;                     ///< an earlier fault with `for` ends: undo it
  std::optional<chaos::Hold> hold = {};  ///< it meets its target while a worker waits in this
  bool operator==(const Fault&) const = default;
};

/// In words: "stop worker-2", "cut worker-1 from all", "slow worker-0 by 4 is over".
std::string Describe(const Fault& fault);
/// The verb alone.
std::string_view NameOf(FaultKind kind);

/// A moment of the run: a count of committed steps, or a time.
struct ChaosMoment {
  std::optional<std::uint64_t> step;
  Duration time{};  ///< since the start; where there is no step
  bool operator==(const ChaosMoment&) const = default;
};

/// One line of a script.
struct ChaosLine {
  Fault fault;  ///< the target is drawn later where `any` is set
  bool any = false;
  std::optional<std::uint64_t> any_of_stage;
  std::optional<Duration> lasts;
  std::optional<ChaosMoment> at;  ///< once, then (or in fault.hold); else again and again
  std::optional<Duration> every;
  bool random = false;  ///< `about every`
  ChaosMoment after;
  std::optional<ChaosMoment> until;
  std::uint64_t seed = 0;
};

/// Errors: kInvalidArgument names the line, the fault and what is expected.
Result<std::vector<ChaosLine>> ParseChaos(std::string_view script);

/// A program that runs.
struct LivingProgram {
  std::string name;
  bool trainer = false;
  std::optional<std::uint64_t> stage;  ///< of a worker, where it is known
};

/// Says which faults are due. Deterministic for a script and what it is asked. Not thread-safe.
class ChaosSchedule {
 public:
  explicit ChaosSchedule(std::vector<ChaosLine> lines);

  /// The faults that have become due since the last call, in order. `held`: the holds in which a
  /// worker is waiting. A fault whose target does not live waits until it does; repetitions that
  /// are late by more than a second are left out, lest a program that was stopped itself makes up
  /// for lost time with a salvo.
  std::vector<Fault> Due(Duration since_start, std::uint64_t steps_committed,
                         const std::vector<LivingProgram>& living,
                         const std::vector<chaos::Hold>& held = {});

 private:
  struct Entry {
    ChaosLine line;
    Rng rng;
    bool started = false;  // `after` has come
    Duration next{};       // repetition
    bool done = false;
  };
  struct Lasting {
    Duration end;
    Fault fault;
  };

  bool IsDue(Entry& entry, Duration now, std::uint64_t steps,
             const std::vector<chaos::Hold>& held) const;
  void Emit(Entry& entry, Duration now, std::vector<LivingProgram>& living,
            std::vector<Fault>& due);
  static void Advance(Entry& entry);

  std::vector<Entry> entries_;
  std::vector<Lasting> lasting_;
};

}  // namespace swarm::ctl

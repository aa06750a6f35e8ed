// Scripts of faults that `swarmctl run --chaos` injects into the programs of a job, for tests and
// demonstrations. Pure: text in, faults out. chaos_driver.h carries them out.
//
// One fault on each line, or several separated by `;`. `#` begins a comment. A fault is a verb, its
// target, and clauses in any order:
//
//   kill TARGET                    SIGKILL
//   stop TARGET [for T]            SIGSTOP, and SIGCONT after T
//   continue NAME                  SIGCONT
//   slow TARGET by FACTOR [for T]  computes FACTOR times slower
//   cut TARGET [for T]             no message from or to any program
//   cut TARGET from NAME [for T]   no message between the two
//   cut TARGET to NAME|all [for T] no message in this direction; `cut all to NAME`: in the other
//   delay TARGET by T [for T]      delays every message from or to the target by T
//   corrupt TARGET [for T]         flips a bit of every gradient that it receives or returns
//   join [N]                       one more worker, or N
//   drain TARGET [grace T]         SIGTERM, and SIGKILL after the grace period (30s)
//
//   TARGET  worker-3 | trainer | any | any of stage 2      (any: a worker, drawn from the seed)
//
//   at step N            when N steps are committed
//   at PHASE of step N [in worker-M]
//                        when worker-M (default: the target) begins its part of that phase
//                        (forward, backward, reduce, commit) of step N or, if it has none, of the
//                        next step in which it has one; it waits there until the fault is done
//   at T                 T after the start of the workers
//   every T              again and again, first after T
//   about every T        again and again, at random (Poisson)
//   after step N | T     for `every`: counts from there
//   until step N | T     for `every`: not later
//   seed N               of random draws (0)
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

enum class FaultKind { kKill, kStop, kContinue, kSlow, kCut, kDelay, kCorrupt, kJoin, kDrain };

/// A fault to carry out now.
struct Fault {
  FaultKind kind = FaultKind::kKill;
  /// A program, or for a cut "all". Empty for kJoin.
  std::string target;
  /// The other side of a cut: a program or "all".
  std::string other;
  bool one_way = false;                  ///< of a cut: only from `target` to `other`
  double factor = 1;                     ///< of kSlow
  Duration amount{};                     ///< of kDelay: the delay; of kDrain: the grace
  std::uint64_t count = 1;               ///< of kJoin
  bool over = false;                     ///< the end of an earlier fault with `for`: undo it
  std::optional<chaos::Hold> hold = {};  ///< a worker waits in this during the fault
  bool operator==(const Fault&) const = default;
};

/// In words: "stop worker-2", "cut worker-1 from all", "slow worker-0 by 4 is over".
std::string Describe(const Fault& fault);
/// The verb alone.
std::string_view NameOf(FaultKind kind);

/// A moment of the run: a count of committed steps, or a time.
struct ChaosMoment {
  std::optional<std::uint64_t> step;
  Duration time{};  ///< since the start; used if there is no step
  bool operator==(const ChaosMoment&) const = default;
};

/// One line of a script.
struct ChaosLine {
  Fault fault;  ///< if `any` is set, the target is drawn later
  bool any = false;
  std::optional<std::uint64_t> any_of_stage;
  std::optional<Duration> lasts;
  std::optional<ChaosMoment> at;  ///< a single time (as is fault.hold); none: repeatedly
  std::optional<Duration> every;
  bool random = false;  ///< `about every`
  ChaosMoment after;
  std::optional<ChaosMoment> until;
  std::uint64_t seed = 0;
};

/// Errors: kInvalidArgument with the line, the fault and what is expected.
Result<std::vector<ChaosLine>> ParseChaos(std::string_view script);

/// A program that runs.
struct LivingProgram {
  std::string name;
  bool trainer = false;
  std::optional<std::uint64_t> stage;  ///< of a worker, if known
};

/// Says which faults are due. Deterministic for a script and a sequence of calls. Not thread-safe.
class ChaosSchedule {
 public:
  explicit ChaosSchedule(std::vector<ChaosLine> lines);

  /// The faults that have become due since the last call, in order. `held`: the holds in which a
  /// worker waits. A fault waits until its target runs. Repetitions that are more than a second
  /// late are skipped, so that a swarmctl that was itself stopped does not inject many faults at
  /// once.
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

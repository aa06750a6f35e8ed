// The one thread of a worker that executes its stage, and the order of its work: first the work
// that unblocks other workers, then older steps, and within a step backward before forward
// (docs/protocol.md, rule 24).
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "base/time.h"
#include "base/virtual_time.h"
#include "worker/protocol/ids.h"

namespace swarm::stage {

enum class ComputeKind : std::uint8_t { kBackward = 0, kForward = 1 };

/// How long a stage that collects tasks waits for another one, when it has some and may have more,
/// and last worked for `work`. Tasks of a step come shortly after each other, and one that comes
/// too late costs such a stage another pass.
Duration PatienceAfter(Duration work);

/// When a task was computed.
struct Computed {
  Timepoint begin, end;
  double seconds() const { return ToSeconds(end - begin); }
};

class Compute {
 public:
  Compute();
  /// Stops.
  ~Compute();
  Compute(const Compute&) = delete;
  Compute& operator=(const Compute&) = delete;

  /// Work on the state itself (fold, seal, apply, snapshot): first come, first served, before all
  /// else.
  void PostState(std::function<void()> work);
  /// The turn of a task, from its submission until its result is there. A device has two: it
  /// computes the one, and does not wait for the host before the other. So the order of tasks is
  /// decided late. The last reference ends the turn.
  class Turn {
   public:
    explicit Turn(Compute* compute);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    /// The result is there. Gives the time since the task's submission, or since the result of the
    /// task before it if that came later. From any thread, once.
    Computed Finish();

   private:
    Compute* const compute_;
    const Timepoint begin_;
  };
  /// Work on a microbatch: submits it, and keeps the turn until the result is there. Bounded by the
  /// tasks that the replica admits.
  void PostTask(const protocol::TaskKey& task, ComputeKind kind,
                std::function<void(std::shared_ptr<Turn>)> work);

  /// What the stage wants (model::Stage's functions of these names). On the compute thread.
  struct Stage {
    std::size_t tasks_at_once = 2;
    std::function<bool()> work = nullptr;
    std::function<bool()> in_pass = nullptr;
    std::function<void()> abandon = nullptr;
  };
  /// From now on. What the stage before has collected is abandoned, and so are its turns. Called by
  /// work on the state.
  void SetStage(Stage stage);

  /// Drops the waiting work on the task, which is closed: its result would be of no use.
  void Drop(const protocol::TaskKey& task);
  /// Drops the waiting work on microbatches.
  void DropTasks();

  /// Finishes what runs or has a turn, unless it was only collected, and drops all other work,
  /// later work too. Idempotent.
  void Stop();

  /// Seconds spent in work so far, and pieces of work finished. From any thread.
  double busy_seconds() const { return busy_nanoseconds_.load() * 1e-9; }
  std::uint64_t finished() const { return finished_.load(); }
  /// Pieces of work that wait or run. From any thread.
  std::uint64_t queued() const { return queued_.load(); }

 private:
  // (0 for state, step, kind, order of arrival)
  using Order = std::tuple<int, std::uint64_t, int, std::uint64_t>;
  using TaskName = std::pair<protocol::TaskKey, ComputeKind>;
  struct Work {
    std::function<void(std::shared_ptr<Turn>)> run;
    std::optional<TaskName> task;  // has a turn; none: work on the state
  };
  void Post(Order order, Work work);
  void Run();
  /// The first piece of work may run.
  bool HasWork() const;
  /// The stage may have something to do with what it was given.
  bool HasCollected() const { return collected_ && stage_.work != nullptr; }
  /// Lets the stage do it.
  void RunCollected(std::unique_lock<std::mutex>& lock);
  /// Another task has come while the stage waited for it.
  bool AwaitMore(std::unique_lock<std::mutex>& lock);
  void EndTurn();
  /// Does the first piece of work of the queue.
  void RunOne(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<Order, Work> queue_;
  std::map<TaskName, Order> tasks_;  // those in the queue
  std::uint64_t arrivals_ = 0;
  std::size_t turns_ = 0;
  Stage stage_;
  bool collected_ = false;  // something ran since the stage had nothing to do
  Duration patience_{};     // of a stage that collects
  Duration spent_{};        // by it in the pass that goes on
  Timepoint last_result_ = Timepoint::min();
  bool stopping_ = false;
  std::atomic<std::int64_t> busy_nanoseconds_{0};
  std::atomic<std::uint64_t> finished_{0};
  std::atomic<std::uint64_t> queued_{0};
  std::optional<VirtualTime::Actor> actor_;
  std::thread thread_;  // last: starts when all other members exist
};

}  // namespace swarm::stage

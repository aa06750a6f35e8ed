// Time that passes only while nothing is left to do. Under it the loops of many programs run on one
// thread, in an order that a seed decides, and hours of them take seconds. For tests that run the
// real shells: the same seed gives the same run.
//
// A loop (loop.h), and whatever else would have a thread, is an *actor*: it does one piece of work
// after the other. A piece takes no time, unless it says so with Spend.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/time.h"

namespace swarm {

class VirtualTime {
 public:
  /// All actors that this thread makes from now on live in this time.
  explicit VirtualTime(std::uint64_t seed);
  /// All its actors are gone by then.
  ~VirtualTime();
  VirtualTime(const VirtualTime&) = delete;
  VirtualTime& operator=(const VirtualTime&) = delete;

  /// The one of this thread. Null: time is real.
  static VirtualTime* Current();

  /// For the piece of work that runs, its own time: with what it has spent.
  Timepoint now() const;
  /// The piece of work that runs takes so much longer. What it does afterwards, it does later.
  void Spend(Duration length);
  /// Does what is due, event by event, until `done`, or until nothing is due up to `latest`.
  /// Returns whether `done`. An actor may call it, and so waits; it does nothing else meanwhile.
  bool RunUntil(const std::function<bool()>& done, Timepoint latest = Timepoint::max());
  bool RunFor(Duration length, const std::function<bool()>& done = [] { return false; });

  /// Actors belong to a process: that of the actor whose work makes them, or else this one.
  void SetProcess(std::uint64_t process) { process_ = process; }
  /// The actors of the process do nothing until then, as if it were stopped.
  void Freeze(std::uint64_t process, Timepoint until) { frozen_[process] = until; }
  /// Whether a piece of work of the process runs, or waits.
  bool IsRunning(std::uint64_t process) const;

  class Actor {
   public:
    /// `run` does the next piece of work and returns true; false: there is none.
    explicit Actor(std::function<bool()> run);
    /// `run` is not called any more.
    ~Actor();
    Actor(const Actor&) = delete;
    Actor& operator=(const Actor&) = delete;
    /// There is work, from `when` on.
    void Wake(Timepoint when);
    bool running() const;

   private:
    friend class VirtualTime;
    struct State;
    const std::shared_ptr<State> state_;
  };

 private:
  using State = Actor::State;
  struct Piece {
    State* actor;
    Timepoint now;
  };
  /// The time when the actor may begin a piece of work.
  Timepoint FreeAt(const State& actor) const;
  void Schedule(const std::shared_ptr<State>& actor, Timepoint when);
  void Run(const std::shared_ptr<State>& actor);

  Rng rng_;
  Timepoint now_{std::chrono::hours(1)};
  std::uint64_t process_ = 0;
  std::map<std::uint64_t, Timepoint> frozen_;
  std::uint64_t numbers_ = 0;
  std::map<std::pair<Timepoint, std::uint64_t>, std::weak_ptr<State>> events_;
  std::vector<Piece> pieces_;  // that run: an inner one while an outer one waits
};

/// Waits for `future`, which a loop makes ready.
template <typename T>
void Await(const std::shared_future<T>& future) {
  VirtualTime* const time = VirtualTime::Current();
  if (time == nullptr) return future.wait();
  time->RunUntil(
      [&] { return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
}

}  // namespace swarm

// Virtual time and the processes that live in it. Everything that happens is an event of this
// queue, and all chance is drawn from one seed: the same seed gives the same run, event by event.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "worker/protocol/messages/message.h"

namespace swarm::simulation {

using protocol::WorkerId;

/// One process: a restarted worker keeps its name and gets another number.
using Pid = std::size_t;

/// A microbatch of a step, with which a replica has moved its weights.
using Share = std::pair<protocol::Step, protocol::Microbatch>;
using Shares = std::set<Share>;

/// What a message carries besides itself: numbers that stand for tensors.
struct Element {
  std::uint64_t value = 0;
  std::uint64_t counts = 0;  ///< how often each microbatch is in it: four bits for the
                             ///< contributions of stage 0, four for those of another stage
  bool operator==(const Element&) const = default;
};
struct Payload {
  std::uint64_t value = 0;
  std::vector<Element> elements;
  Shares shares = {};
};
struct Envelope {
  protocol::Message message;
  Payload payload;
  WorkerId from = {}, to = {};  ///< on a detour: its ends
};

/// A program that runs in the world. Its events come one at a time.
class Process {
 public:
  virtual ~Process() = default;
  virtual void OnMessage(const WorkerId& from, const Envelope& envelope) = 0;
  virtual void OnPeerUp(const WorkerId& peer) = 0;
  virtual void OnPeerDown(const WorkerId& peer) = 0;
};

class World {
 public:
  using Event = std::function<void()>;

  World(std::uint64_t seed, bool verbose);

  Timepoint now() const { return now_; }
  Rng& rng() { return rng_; }
  /// Uniform between the two.
  Duration Draw(Duration least, Duration most);
  bool Chance(double probability) { return rng_.Uniform() < probability; }
  bool verbose() const { return verbose_; }
  /// A line of the event log; `text` is called only if there is one.
  template <typename Text>
  void Log(const std::string& who, const Text& text) {
    if (verbose_) Print(who, text());
  }

  /// Something that happens to the world after `delay`.
  void After(Duration delay, Event event);
  /// Something that process `pid` does after `delay`: never if it is dead by then, and when it is
  /// continued if it is paused.
  void After(Pid pid, Duration delay, Event event);
  /// The same, now.
  void RunIn(Pid pid, Event event);

  /// The next event. False if there is none.
  bool Step();
  std::uint64_t events() const { return events_; }

  Pid Add(std::string name, std::unique_ptr<Process> process);
  void Kill(Pid pid);
  void Pause(Pid pid) { slots_[pid].paused = true; }
  void Continue(Pid pid);
  bool IsAlive(Pid pid) const { return slots_[pid].alive; }
  bool IsPaused(Pid pid) const { return slots_[pid].paused; }
  bool IsRunning(Pid pid) const { return IsAlive(pid) && !IsPaused(pid); }
  const WorkerId& name(Pid pid) const { return slots_[pid].name; }
  Process* process(Pid pid) const { return slots_[pid].process.get(); }
  /// The youngest living process of that name.
  const Pid* Find(const WorkerId& name) const;
  std::size_t process_count() const { return slots_.size(); }

 private:
  struct Slot {
    WorkerId name;
    std::unique_ptr<Process> process;
    bool alive = true;
    bool paused = false;
    std::deque<Event> backlog;
  };
  struct Entry {
    Timepoint at;
    std::uint64_t number;
    std::size_t event;
  };
  void Print(const std::string& who, const std::string& text) const;

  Timepoint now_;
  Rng rng_;
  bool verbose_;
  std::uint64_t numbers_ = 0;
  std::uint64_t events_ = 0;
  std::vector<Entry> heap_;
  std::vector<Event> pool_;
  std::vector<std::size_t> free_;
  std::deque<Slot> slots_;
  std::vector<std::pair<WorkerId, Pid>> living_;
};

}  // namespace swarm::simulation

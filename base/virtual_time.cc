#include "base/virtual_time.h"

#include <algorithm>

#include "base/status.h"

namespace swarm {

namespace {

thread_local VirtualTime* current = nullptr;

/// How long an actor takes at most to begin what is due.
constexpr double kWakeMax = 20e-6;  // seconds

}  // namespace

Clock::time_point Clock::now() {
  return current == nullptr ? std::chrono::steady_clock::now() : current->now();
}

struct VirtualTime::Actor::State {
  std::function<bool()> run;
  std::uint64_t process = 0;
  Timepoint busy_until{};
  Timepoint wakes = Timepoint::max();  // next
  bool running = false;
};

VirtualTime::VirtualTime(std::uint64_t seed) : rng_(seed) {
  SWARM_CHECK(current == nullptr, "a thread has two virtual times");
  current = this;
}

VirtualTime::~VirtualTime() { current = nullptr; }

VirtualTime* VirtualTime::Current() { return current; }

Timepoint VirtualTime::now() const { return pieces_.empty() ? now_ : pieces_.back().now; }

void VirtualTime::Spend(Duration length) {
  SWARM_CHECK(!pieces_.empty(), "only a piece of work can take time");
  pieces_.back().now += length;
}

bool VirtualTime::RunUntil(const std::function<bool()>& done, Timepoint latest) {
  while (!done()) {
    if (events_.empty() || events_.begin()->first.first > latest) {
      if (latest != Timepoint::max()) now_ = std::max(now_, latest);
      if (!pieces_.empty()) pieces_.back().now = std::max(pieces_.back().now, now_);
      return false;
    }
    const auto event = events_.extract(events_.begin());
    now_ = std::max(now_, event.key().first);
    if (const auto actor = event.mapped().lock()) Run(actor);
    if (!pieces_.empty()) pieces_.back().now = std::max(pieces_.back().now, now_);
  }
  return true;
}

bool VirtualTime::RunFor(Duration length, const std::function<bool()>& done) {
  return RunUntil(done, now() + length);
}

bool VirtualTime::IsRunning(std::uint64_t process) const {
  return std::ranges::any_of(
      pieces_, [&](const Piece& piece) { return piece.actor->process == process; });
}

Timepoint VirtualTime::FreeAt(const State& actor) const {
  const auto frozen = frozen_.find(actor.process);
  return frozen == frozen_.end() ? actor.busy_until : std::max(actor.busy_until, frozen->second);
}

void VirtualTime::Schedule(const std::shared_ptr<State>& actor, Timepoint when) {
  if (actor->wakes <= when) return;
  actor->wakes = when;
  events_.emplace(std::pair(when, numbers_++), actor);
}

void VirtualTime::Run(const std::shared_ptr<State>& actor) {
  if (actor->wakes > now_) return;  // it was woken earlier
  actor->wakes = Timepoint::max();
  if (actor->running) return;  // it waits, and looks for work when it is done
  if (const Timepoint free = FreeAt(*actor); free > now_) return Schedule(actor, free);
  pieces_.push_back({actor.get(), now_});
  actor->running = true;
  const bool worked = actor->run && actor->run();
  actor->running = false;
  actor->busy_until = pieces_.back().now;
  pieces_.pop_back();
  if (worked) Schedule(actor, actor->busy_until + FromSeconds(rng_.Uniform() * kWakeMax));
}

VirtualTime::Actor::Actor(std::function<bool()> run) : state_(std::make_shared<State>()) {
  SWARM_CHECK(current != nullptr, "an actor without virtual time");
  state_->run = std::move(run);
  state_->process =
      current->pieces_.empty() ? current->process_ : current->pieces_.back().actor->process;
}

VirtualTime::Actor::~Actor() { state_->run = nullptr; }

void VirtualTime::Actor::Wake(Timepoint when) {
  const Timepoint soonest =
      current->now() + FromSeconds(current->rng_.Uniform() * kWakeMax);
  current->Schedule(state_, std::max(when, soonest));
}

bool VirtualTime::Actor::running() const { return state_->running; }

}  // namespace swarm

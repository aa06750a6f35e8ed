#include "tests/simulation/world.h"

#include <algorithm>
#include <cstdio>

namespace swarm::simulation {
namespace {

/// Not the zero of the clock, which may mean "never".
constexpr Duration kBeginning = std::chrono::hours(1);

constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.at != b.at ? a.at > b.at : a.number > b.number;
};

}  // namespace

World::World(std::uint64_t seed, bool verbose)
    : now_(Timepoint() + kBeginning), rng_(seed), verbose_(verbose) {}

Duration World::Draw(Duration least, Duration most) {
  const auto span = static_cast<std::uint64_t>((most - least).count());
  return least + Duration(static_cast<Duration::rep>(rng_.Below(span + 1)));
}

void World::Print(const std::string& who, const std::string& text) const {
  std::printf("%10.6f %-10s %s\n", ToSeconds(now_ - Timepoint() - kBeginning), who.c_str(),
              text.c_str());
}

void World::After(Duration delay, Event event) {
  std::size_t place = pool_.size();
  if (free_.empty()) {
    pool_.push_back(std::move(event));
  } else {
    place = free_.back();
    free_.pop_back();
    pool_[place] = std::move(event);
  }
  heap_.push_back({now_ + delay, numbers_++, place});
  std::push_heap(heap_.begin(), heap_.end(), kLater);
}

void World::After(Pid pid, Duration delay, Event event) {
  After(delay, [this, pid, event = std::move(event)]() mutable { RunIn(pid, std::move(event)); });
}

void World::RunIn(Pid pid, Event event) {
  Slot& slot = slots_[pid];
  if (!slot.alive) return;
  if (slot.paused) {
    slot.backlog.push_back(std::move(event));
    return;
  }
  event();
}

bool World::Step() {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end(), kLater);
  const Entry entry = heap_.back();
  heap_.pop_back();
  now_ = entry.at;
  const Event event = std::move(pool_[entry.event]);
  free_.push_back(entry.event);
  ++events_;
  event();
  return true;
}

Pid World::Add(std::string name, std::unique_ptr<Process> process) {
  slots_.emplace_back();
  slots_.back().name = WorkerId(std::move(name));
  slots_.back().process = std::move(process);
  living_.emplace_back(slots_.back().name, slots_.size() - 1);
  return slots_.size() - 1;
}

void World::Kill(Pid pid) {
  Slot& slot = slots_[pid];
  slot.alive = slot.paused = false;
  slot.backlog.clear();
  std::erase_if(living_, [&](const auto& entry) { return entry.second == pid; });
}

void World::Continue(Pid pid) {
  Slot& slot = slots_[pid];
  if (!slot.alive || !slot.paused) return;
  slot.paused = false;
  while (!slot.backlog.empty() && slot.alive && !slot.paused) {
    const Event event = std::move(slot.backlog.front());
    slot.backlog.pop_front();
    event();
  }
}

const Pid* World::Find(const WorkerId& name) const {
  const auto it = std::find_if(living_.rbegin(), living_.rend(),
                               [&](const auto& entry) { return entry.first == name; });
  return it == living_.rend() ? nullptr : &it->second;
}

}  // namespace swarm::simulation

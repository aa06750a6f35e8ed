#include "worker/processes/slowdown.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>

namespace swarm {
namespace {

/// Of one run and one stop together.
constexpr Duration kPeriod = std::chrono::milliseconds(20);

}  // namespace

Slowdowns::~Slowdowns() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& [pid, group] : groups_) {
      if (!group.running && !group.paused) ::kill(-pid, SIGCONT);
    }
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Slowdowns::Set(pid_t pid, double factor) {
  const std::lock_guard lock(mutex_);
  if (factor <= 1) {
    const auto found = groups_.find(pid);
    if (found == groups_.end()) return;
    if (!found->second.running && !found->second.paused) ::kill(-pid, SIGCONT);
    found->second.factor = 1;
    found->second.running = true;
    if (!found->second.paused) groups_.erase(found);
    return;
  }
  groups_[pid].factor = factor;
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  changed_.notify_all();
}

void Slowdowns::Pause(pid_t pid) {
  const std::lock_guard lock(mutex_);
  groups_[pid].paused = true;
}

void Slowdowns::Resume(pid_t pid) {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(pid);
  if (found == groups_.end()) return;
  found->second.paused = false;
  found->second.running = true;
  if (found->second.factor <= 1) groups_.erase(found);
  changed_.notify_all();
}

void Slowdowns::Run() {
  pthread_setname_np(pthread_self(), "slowdown");
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const Timepoint now = Clock::now();
    Timepoint next = now + std::chrono::seconds(1);
    for (auto& [pid, group] : groups_) {
      if (group.factor <= 1 || group.paused) continue;
      if (now >= group.next) {
        group.running = !group.running;
        ::kill(-pid, group.running ? SIGCONT : SIGSTOP);
        const Duration run = FromSeconds(ToSeconds(kPeriod) / group.factor);
        group.next = now + (group.running ? run : kPeriod - run);
      }
      next = std::min(next, group.next);
    }
    changed_.wait_until(lock, next);
  }
}

}  // namespace swarm

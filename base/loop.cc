#include "base/loop.h"

#include <pthread.h>

#include <utility>

namespace swarm {

Loop::Loop(std::string name, std::function<void()> on_idle, std::size_t capacity)
    : name_(std::move(name)), on_idle_(std::move(on_idle)), capacity_(capacity) {
  if (VirtualTime::Current() == nullptr) {
    thread_ = std::thread([this] { Run(); });
    return;
  }
  actor_.emplace([this] {
    std::unique_lock lock(mutex_);
    if (stopping_) return false;
    if (RunOne(lock)) return true;
    if (!timed_.empty()) Notify(timed_.begin()->first);
    return false;
  });
}

Loop::~Loop() { Stop(); }

void Loop::Notify(Timepoint when) {
  actor_ ? actor_->Wake(when) : wake_.notify_one();
}

void Loop::Post(std::function<void()> work) {
  std::unique_lock lock(mutex_);
  const bool waits = !actor_ && !InLoop();
  if (waits) space_.wait(lock, [&] { return queue_.size() < capacity_ || stopping_; });
  if (stopping_) return;
  if (actor_) {
    const Timepoint now = Clock::now();  // the poster's, which may be later than that of others
    timed_.emplace(now, std::move(work));
    return Notify(now);
  }
  queue_.push_back(std::move(work));
  Notify(Timepoint::min());
}

void Loop::PostAt(Timepoint when, std::function<void()> work) {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  timed_.emplace(when, std::move(work));
  Notify(when);
}

void Loop::Stop() {
  std::deque<std::function<void()>> dropped;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
    space_.notify_all();
    if (actor_) dropped.swap(queue_);
  }
  if (thread_.joinable()) thread_.join();
}

std::size_t Loop::depth() const {
  std::lock_guard lock(mutex_);
  return queue_.size();
}

bool Loop::RunOne(std::unique_lock<std::mutex>& lock) {
  const Timepoint now = Clock::now();
  while (!timed_.empty() && timed_.begin()->first <= now && !stopping_) {
    queue_.push_back(std::move(timed_.begin()->second));
    timed_.erase(timed_.begin());
  }
  if (queue_.empty() && !(on_idle_ && std::exchange(worked_, false))) return false;
  if (queue_.empty()) {
    lock.unlock();
    on_idle_();
    lock.lock();
    return true;
  }
  std::function<void()> work = std::move(queue_.front());
  queue_.pop_front();
  space_.notify_one();
  lock.unlock();
  work();
  work = nullptr;  // what it holds is freed outside the lock
  lock.lock();
  worked_ = true;
  return true;
}

void Loop::Run() {
  pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
  std::unique_lock lock(mutex_);
  while (true) {
    if (RunOne(lock)) continue;
    if (stopping_) return;
    if (timed_.empty()) {
      wake_.wait(lock);
    } else {
      wake_.wait_until(lock, timed_.begin()->first);
    }
  }
}

}  // namespace swarm

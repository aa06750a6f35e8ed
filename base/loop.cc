#include "base/loop.h"

#include <pthread.h>

#include <utility>

namespace swarm {

Loop::Loop(std::string name, std::function<void()> on_idle, std::size_t capacity)
    : name_(std::move(name)),
      on_idle_(std::move(on_idle)),
      capacity_(capacity),
      thread_([this] { Run(); }) {}

Loop::~Loop() { Stop(); }

void Loop::Post(std::function<void()> work) {
  std::unique_lock lock(mutex_);
  if (!InLoop()) space_.wait(lock, [&] { return queue_.size() < capacity_ || stopping_; });
  if (stopping_) return;
  queue_.push_back(std::move(work));
  wake_.notify_one();
}

void Loop::PostAt(Timepoint when, std::function<void()> work) {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  timed_.emplace(when, std::move(work));
  wake_.notify_one();
}

void Loop::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
    space_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

std::size_t Loop::depth() const {
  std::lock_guard lock(mutex_);
  return queue_.size();
}

void Loop::Run() {
  pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
  std::unique_lock lock(mutex_);
  bool worked = false;  // since on_idle_ ran
  while (true) {
    const Timepoint now = Clock::now();
    while (!timed_.empty() && timed_.begin()->first <= now && !stopping_) {
      queue_.push_back(std::move(timed_.begin()->second));
      timed_.erase(timed_.begin());
    }
    if (!queue_.empty()) {
      std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      space_.notify_one();
      lock.unlock();
      work();
      work = nullptr;  // what it holds is freed outside the lock
      lock.lock();
      worked = true;
    } else if (on_idle_ && std::exchange(worked, false)) {
      lock.unlock();
      on_idle_();
      lock.lock();
    } else if (stopping_) {
      return;
    } else if (timed_.empty()) {
      wake_.wait(lock);
    } else {
      wake_.wait_until(lock, timed_.begin()->first);
    }
  }
}

}  // namespace swarm

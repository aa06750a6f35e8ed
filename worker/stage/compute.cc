#include "worker/stage/compute.h"

#include <pthread.h>

#include "base/time.h"

namespace swarm::stage {

Compute::Compute() : thread_([this] { Run(); }) {}

Compute::~Compute() { Stop(); }

void Compute::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Compute::PostState(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  Post({0, 0, 0, arrivals_++}, std::move(work));
}

void Compute::PostTask(protocol::Step step, ComputeKind kind, std::function<void()> work) {
  std::lock_guard lock(mutex_);
  Post({1, step.value, static_cast<int>(kind), arrivals_++}, std::move(work));
}

void Compute::DropTasks() {
  std::lock_guard lock(mutex_);
  const auto dropped =
      std::erase_if(queue_, [](const auto& entry) { return std::get<0>(entry.first) != 0; });
  queued_ -= dropped;
}

void Compute::Post(Order order, std::function<void()> work) {
  if (stopping_) return;
  queue_.emplace(order, std::move(work));
  ++queued_;
  wake_.notify_one();
}

void Compute::Run() {
  pthread_setname_np(pthread_self(), "compute");
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    std::function<void()> work = std::move(queue_.begin()->second);
    queue_.erase(queue_.begin());
    lock.unlock();
    const Timepoint begin = Clock::now();
    work();
    work = nullptr;
    busy_nanoseconds_ += std::chrono::nanoseconds(Clock::now() - begin).count();
    ++finished_;
    --queued_;
    lock.lock();
  }
}

}  // namespace swarm::stage

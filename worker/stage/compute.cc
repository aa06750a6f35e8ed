#include "worker/stage/compute.h"

#include <pthread.h>

#include "base/time.h"

namespace swarm::stage {

Compute::Compute() {
  if (VirtualTime::Current() == nullptr) {
    thread_ = std::thread([this] { Run(); });
    return;
  }
  actor_.emplace([this] {
    std::unique_lock lock(mutex_);
    if (stopping_ || queue_.empty()) return false;
    RunOne(lock);
    return true;
  });
}

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
  Post({0, 0, 0, arrivals_++}, {std::move(work), {}});
}

void Compute::PostTask(const protocol::TaskKey& task, ComputeKind kind,
                       std::function<void()> work) {
  std::lock_guard lock(mutex_);
  Post({1, task.step.value, static_cast<int>(kind), arrivals_++},
       {std::move(work), {{task, kind}}});
}

void Compute::Drop(const protocol::TaskKey& task) {
  std::lock_guard lock(mutex_);
  for (const ComputeKind kind : {ComputeKind::kBackward, ComputeKind::kForward}) {
    const auto found = tasks_.find({task, kind});
    if (found == tasks_.end()) continue;
    queue_.erase(found->second);
    tasks_.erase(found);
    --queued_;
  }
}

void Compute::DropTasks() {
  std::lock_guard lock(mutex_);
  queued_ -= tasks_.size();
  for (const auto& [task, order] : tasks_) queue_.erase(order);
  tasks_.clear();
}

void Compute::Post(Order order, Work work) {
  if (stopping_) return;
  if (work.task) tasks_.emplace(*work.task, order);
  queue_.emplace(order, std::move(work));
  ++queued_;
  actor_ ? actor_->Wake(Timepoint::min()) : wake_.notify_one();
}

void Compute::Run() {
  pthread_setname_np(pthread_self(), "compute");
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    RunOne(lock);
  }
}

void Compute::RunOne(std::unique_lock<std::mutex>& lock) {
  Work work = std::move(queue_.begin()->second);
  queue_.erase(queue_.begin());
  if (work.task) tasks_.erase(*work.task);
  lock.unlock();
  const Timepoint begin = Clock::now();
  work.run();
  work = {};
  busy_nanoseconds_ += std::chrono::nanoseconds(Clock::now() - begin).count();
  ++finished_;
  --queued_;
  lock.lock();
}

}  // namespace swarm::stage

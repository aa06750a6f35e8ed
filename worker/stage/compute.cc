#include "worker/stage/compute.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/time.h"

namespace swarm::stage {

Duration PatienceAfter(Duration work) {
  return std::min<Duration>(work / 16, std::chrono::milliseconds(200));
}

Compute::Turn::Turn(Compute* compute) : compute_(compute), begin_(Clock::now()) {}

Compute::Turn::~Turn() { compute_->EndTurn(); }

Computed Compute::Turn::Finish() {
  std::lock_guard lock(compute_->mutex_);
  const Timepoint now = Clock::now();
  const Timepoint begin = std::max(begin_, std::exchange(compute_->last_result_, now));
  compute_->busy_nanoseconds_ += std::chrono::nanoseconds(now - begin).count();
  return {begin, now};
}

void Compute::EndTurn() {
  std::lock_guard lock(mutex_);
  --turns_;
  actor_ ? actor_->Wake(Timepoint::min()) : wake_.notify_all();
}

bool Compute::HasWork() const {
  return !queue_.empty() && (!queue_.begin()->second.task || turns_ < stage_.tasks_at_once);
}

Compute::Compute() {
  if (VirtualTime::Current() == nullptr) {
    thread_ = std::thread([this] { Run(); });
    return;
  }
  actor_.emplace([this] {
    std::unique_lock lock(mutex_);
    if (stopping_ || !(HasWork() || HasCollected())) return false;
    HasWork() ? RunOne(lock) : RunCollected(lock);
    return true;
  });
}

Compute::~Compute() { Stop(); }

void Compute::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (stage_.abandon) stage_.abandon();
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] { return turns_ == 0; });
}

void Compute::PostState(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  Post({0, 0, 0, arrivals_++},
       {[work = std::move(work)](const std::shared_ptr<Turn>&) { work(); }, {}});
}

void Compute::PostTask(const protocol::TaskKey& task, ComputeKind kind,
                       std::function<void(std::shared_ptr<Turn>)> work) {
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
  actor_ ? actor_->Wake(Timepoint::min()) : wake_.notify_all();
}

void Compute::Run() {
  pthread_setname_np(pthread_self(), "compute");
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || HasWork() || HasCollected(); });
    if (stopping_) return;
    if (HasWork()) {
      RunOne(lock);
    } else if (!AwaitMore(lock)) {
      RunCollected(lock);
    }
  }
}

void Compute::RunOne(std::unique_lock<std::mutex>& lock) {
  Work work = std::move(queue_.begin()->second);
  queue_.erase(queue_.begin());
  if (work.task) {
    tasks_.erase(*work.task);
    ++turns_;
  }
  lock.unlock();
  const Timepoint begin = Clock::now();
  if (work.task) {
    work.run(std::make_shared<Turn>(this));
  } else {
    work.run(nullptr);
    busy_nanoseconds_ += std::chrono::nanoseconds(Clock::now() - begin).count();
  }
  work = {};
  ++finished_;
  --queued_;
  lock.lock();
  collected_ = true;
}

bool Compute::AwaitMore(std::unique_lock<std::mutex>& lock) {
  if (turns_ >= stage_.tasks_at_once || patience_ == Duration::zero()) return false;
  return wake_.wait_for(lock, patience_, [&] { return stopping_ || HasWork(); });
}

void Compute::RunCollected(std::unique_lock<std::mutex>& lock) {
  const std::function<bool()> work = stage_.work, in_pass = stage_.in_pass;
  lock.unlock();
  const Timepoint begin = Clock::now();
  const bool more = work();
  spent_ += Clock::now() - begin;
  const bool goes_on = in_pass && in_pass();
  lock.lock();
  collected_ = more;
  if (goes_on) {
    patience_ = Duration::zero();
    return;
  }
  const Duration spent = std::exchange(spent_, Duration::zero());
  if (more) patience_ = PatienceAfter(spent);
}

void Compute::SetStage(Stage stage) {
  if (stage_.abandon) stage_.abandon();
  std::lock_guard lock(mutex_);
  stage_ = std::move(stage);
  patience_ = Duration::zero();
}

}  // namespace swarm::stage

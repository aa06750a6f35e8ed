#include "ctl/simulate/fleet/device.h"

#include <utility>

namespace swarm::ctl {

void Device::PostState(double seconds, Done done) { Post(0, {}, 0, {seconds, std::move(done)}); }

void Device::PostTask(protocol::Step step, WorkKind kind, double seconds, Done done) {
  Post(1, step, static_cast<int>(kind), {seconds, std::move(done)});
}

void Device::Post(int rank, protocol::Step step, int kind, Work work) {
  waiting_.emplace(Order{rank, step.value, kind, arrivals_++}, std::move(work));
  if (!running_) RunNext();
}

void Device::Clear() {
  ++life_;
  waiting_.clear();
  running_ = false;
}

void Device::RunNext() {
  if (waiting_.empty()) return;
  Work work = std::move(waiting_.begin()->second);
  waiting_.erase(waiting_.begin());
  running_ = true;
  queue_.After(FromSeconds(work.seconds), [this, life = life_, work = std::move(work)] {
    if (life != life_) return;
    running_ = false;
    busy_seconds_ += work.seconds;
    ++finished_;
    work.done();
    if (life == life_ && !running_) RunNext();
  });
}

}  // namespace swarm::ctl

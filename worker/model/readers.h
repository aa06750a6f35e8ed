// Those who read a state in place, and the one that changes it now and then.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace swarm::model {

/// Thread-safe.
class Readers {
 public:
  /// One more reads, as long as a copy of the result lives. It may outlive this object.
  std::shared_ptr<const void> Enter() const {
    ++*count_;
    return std::shared_ptr<const void>(nullptr, [count = count_](const void*) {
      if (--*count == 0) count->notify_all();
    });
  }
  /// Blocks until none reads. The caller sees to it that none enters meanwhile.
  void AwaitNone() const {
    for (auto count = count_->load(); count != 0; count = count_->load()) count_->wait(count);
  }

 private:
  using Count = std::atomic<std::uint64_t>;
  const std::shared_ptr<Count> count_ = std::make_shared<Count>(0);
};

}  // namespace swarm::model

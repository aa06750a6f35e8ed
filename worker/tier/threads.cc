#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "worker/tier/mover.h"

namespace swarm::tier {
namespace {

class Threads final : public Mover {
 public:
  explicit Threads(const ScratchFile& file) : file_(file) {
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads_[i] = std::thread([this, buffer = buffers_.at(i)] { Run(buffer); });
    }
  }
  ~Threads() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      wake_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  void Move(std::vector<Piece> pieces) override {
    const std::lock_guard lock(mutex_);
    std::ranges::move(pieces, std::back_inserter(waiting_));
    wake_.notify_all();
  }

 private:
  void Run(std::byte* buffer) {
    pthread_setname_np(pthread_self(), "tier");
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      Piece piece = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      Passage passage(std::move(piece), buffer, file_.memory_alignment());
      while (!passage.Advance(Call(passage), file_.name())) {
      }
      lock.lock();
    }
  }

  /// Bytes that were moved, or a negated errno.
  ssize_t Call(const Passage& passage) const {
    const auto offset = static_cast<off_t>(passage.offset());
    const ssize_t moved =
        passage.reads() ? ::pread(file_.descriptor(), passage.memory(), passage.size(), offset)
                        : ::pwrite(file_.descriptor(), passage.memory(), passage.size(), offset);
    return moved < 0 ? -errno : moved;
  }

  const ScratchFile& file_;
  const Buffers buffers_{kThreads};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Piece> waiting_;
  bool stopping_ = false;
  std::array<std::thread, kThreads> threads_;  // last: they use the other members
};

}  // namespace

std::unique_ptr<Mover> MakeThreads(const ScratchFile& file) {
  return std::make_unique<Threads>(file);
}

}  // namespace swarm::tier

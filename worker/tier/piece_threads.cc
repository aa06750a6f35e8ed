#include "worker/tier/piece_threads.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace swarm::tier {

PieceThreads::PieceThreads(std::size_t count, Move move) : move_(std::move(move)) {
  for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this, i] { Run(i); });
}

void PieceThreads::Add(std::vector<Piece> pieces) {
  const std::lock_guard lock(mutex_);
  std::ranges::move(pieces, std::back_inserter(waiting_));
  wake_.notify_all();
}

void PieceThreads::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void PieceThreads::Run(std::size_t thread) {
  pthread_setname_np(pthread_self(), "tier");
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Piece piece = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    move_(std::move(piece), thread);
    lock.lock();
  }
}

}  // namespace swarm::tier

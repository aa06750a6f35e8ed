// Threads that move pieces, one each at a time.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "worker/tier/piece.h"

namespace swarm::tier {

/// Thread-safe.
class PieceThreads {
 public:
  /// `move` is called on these threads, with the number of the thread, and tells the piece's
  /// request when it is done.
  using Move = std::function<void(Piece piece, std::size_t thread)>;
  PieceThreads(std::size_t count, Move move);
  ~PieceThreads() { Stop(); }

  void Add(std::vector<Piece> pieces);
  /// Moves first what was added. Idempotent.
  void Stop();

 private:
  void Run(std::size_t thread);

  const Move move_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Piece> waiting_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // last: they use the other members
};

}  // namespace swarm::tier

// Large pieces of memory that are taken, given back and taken again.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace swarm {

/// Keeps what is given back for the next piece of the size: the kernel clears a page when it gives
/// it, which takes longer than to fill it, and passes want the same sizes again and again. Sizes
/// that are not in demand any more go first. Thread-safe.
class KeptMemory {
 public:
  /// From here on memory is kept; malloc serves smaller pieces well.
  static constexpr std::size_t kMin = std::size_t{64} << 10;

  /// How much is kept, by what was in use at once.
  enum class Bound {
    kWithUsed,    ///< together with what is in use, no more
    kBesideUsed,  ///< no more: what is in demand at unlike moments is kept, too
  };
  explicit KeptMemory(Bound bound) : bound_(bound) {}
  ~KeptMemory() { Release(); }
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

  /// At least `size`: from kMin on one of eight between two powers of two, so few are kept.
  static std::size_t RoundUp(std::size_t size);

  /// A piece of at least kMin bytes, with anything in it, which begins at a multiple of 4 KiB;
  /// null: the system has none. From 2 MiB on in large pages where the kernel gives them.
  std::byte* Take(std::size_t size);
  /// Gives back a piece of that size.
  void Return(std::byte* memory, std::size_t size);
  /// The system gets what is kept: other work is next.
  void Release();

 private:
  struct Piece;
  struct Neighbours {
    Piece* older = nullptr;
    Piece* newer = nullptr;
  };
  /// Pieces in the order in which they came.
  struct Queue {
    Piece* oldest = nullptr;
    Piece* newest = nullptr;
    void Push(Piece* piece, Neighbours Piece::* at);
    void Remove(Piece* piece, Neighbours Piece::* at);
  };

  std::byte* Leave(Piece* piece);
  void FreeOldest();
  bool IsTooMuch() const { return kept_ + (bound_ == Bound::kWithUsed ? used_ : 0) > most_; }

  const Bound bound_;
  std::mutex mutex_;
  Queue ages_;                            ///< all that are kept
  std::map<std::size_t, Queue> by_size_;  ///< the same
  std::size_t kept_ = 0, used_ = 0, most_ = 0;
};

}  // namespace swarm

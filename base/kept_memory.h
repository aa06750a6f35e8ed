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
  enum class Pages {
    kSmall,  ///< pieces begin at multiples of 512, unlike ones modulo a page: what computes with
             ///< several at once finds them in unlike places of a cache
    kLarge,  ///< at multiples of 4 KiB; from 2 MiB on in large pages where the kernel gives them
  };
  KeptMemory(Bound bound, Pages pages) : bound_(bound), pages_(pages) {}
  ~KeptMemory() { Release(); }
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

  /// At least `size`: from kMin on one of eight between two powers of two, so few are kept.
  static std::size_t RoundUp(std::size_t size);

  /// A piece of at least kMin bytes, with anything in it; null: the system has none.
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

  // Below, the mutex is held.
  std::byte* Fresh(std::size_t size) const;
  void Free(std::byte* memory, std::size_t size) const;
  std::byte* Leave(Piece* piece);
  void FreeOldest();
  void FreeAll();
  void FreeWhatIsTooMuch();

  const Bound bound_;
  const Pages pages_;
  std::mutex mutex_;
  Queue ages_;                            ///< all that are kept
  std::map<std::size_t, Queue> by_size_;  ///< the same
  std::size_t kept_ = 0, used_ = 0, most_ = 0;
};

}  // namespace swarm

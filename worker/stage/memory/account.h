// The bytes that a worker holds beside the state that it serves (weights, optimizer, accumulators,
// the sums being made), by what they are held for. One account a process: whoever holds bytes keeps
// a MemoryCharge beside them. Budget and shares say what it may hold.
//
// Thread-safe. Adding and releasing costs O(1).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>

namespace swarm::stage {

enum class MemoryKind : std::uint8_t {
  kGraphs,       ///< of microbatches between forward and backward, estimated
  kInputs,       ///< of tasks that have not run: activations and gradients, parked ones included
  kRetained,     ///< outputs and input gradients that may be asked for again
  kKeptSums,     ///< reduced gradients of decided steps
  kCopies,       ///< of the state, for joiners and checkpoints
  kParcels,      ///< sums of workers that leave, at both ends
  kEarlyChunks,  ///< of sums that this worker has not begun
  kOutbox,       ///< on their way to peers that cannot take them yet
  kRelayed,      ///< the same, of pairs that do not reach each other
};
inline constexpr std::size_t kMemoryKinds = 9;
using MemoryShares = std::array<std::uint64_t, kMemoryKinds>;

/// As the metrics call it.
std::string_view NameOf(MemoryKind kind);

/// Divides the budget: the shares are together the budget.
MemoryShares DivideBudget(std::uint64_t budget);

/// The budget of a worker that is not told one: what the machine has (`memory`; for several workers
/// on it, their part) less the state that it serves, and a quarter of the rest for what is not in
/// the account: libtorch's workspace, receive buffers, code.
std::uint64_t DefaultBudget(std::uint64_t memory, std::uint64_t state_bytes);

class MemoryAccount {
 public:
  void SetBudget(std::uint64_t budget);
  std::uint64_t share(MemoryKind kind) const { return shares_[Index(kind)].load(); }

  /// More bytes are held, or fewer.
  void Change(MemoryKind kind, std::int64_t bytes) {
    bytes_[Index(kind)] += static_cast<std::uint64_t>(bytes);
  }
  std::uint64_t bytes(MemoryKind kind) const { return bytes_[Index(kind)].load(); }
  std::uint64_t total() const;

 private:
  static std::size_t Index(MemoryKind kind) { return static_cast<std::size_t>(kind); }

  std::array<std::atomic<std::uint64_t>, kMemoryKinds> bytes_{};
  std::array<std::atomic<std::uint64_t>, kMemoryKinds> shares_{};
};

/// Bytes in the account as long as it lives. The account outlives it.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  MemoryCharge(MemoryAccount* account, MemoryKind kind, std::uint64_t bytes)
      : account_(account), kind_(kind), bytes_(static_cast<std::int64_t>(bytes)) {
    account_->Change(kind_, bytes_);
  }
  MemoryCharge(MemoryCharge&& other) noexcept
      : account_(std::exchange(other.account_, nullptr)),
        kind_(other.kind_),
        bytes_(other.bytes_) {}
  MemoryCharge& operator=(MemoryCharge&& other) noexcept {
    std::swap(account_, other.account_);
    std::swap(kind_, other.kind_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MemoryCharge() {
    if (account_ != nullptr) account_->Change(kind_, -bytes_);
  }

 private:
  MemoryAccount* account_ = nullptr;
  MemoryKind kind_{};
  std::int64_t bytes_ = 0;
};

}  // namespace swarm::stage

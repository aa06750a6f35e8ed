#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "worker/tier/piece.h"
#include "worker/tier/piece_threads.h"
#include "worker/tier/tier.h"

namespace swarm::tier {
namespace {

/// Threads that copy: several are needed to fill what the memory offers.
constexpr std::size_t kCopiersMax = 8;

/// No tier is larger.
std::uint64_t MemoryOfMachine() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t CountCopiers() {
  return std::clamp<std::size_t>(std::thread::hardware_concurrency() / 2, 1, kCopiersMax);
}

void Copy(Piece piece, std::byte* memory) {
  if (piece.to != nullptr) {
    std::memcpy(piece.to, memory + piece.offset, piece.size);
  } else {
    std::memcpy(memory + piece.offset, piece.from, piece.size);
  }
  piece.request->Finish(Status());
}

class MemoryTier final : public Tier {
 public:
  MemoryTier()
      : memory_(static_cast<std::byte*>(
            ::mmap(nullptr, most_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))),
        threads_(CountCopiers(),
                 [this](Piece piece, std::size_t) { Copy(std::move(piece), memory_); }) {
    SWARM_CHECK(memory_ != MAP_FAILED,
                std::string("addresses for a tier: ") + std::strerror(errno));
  }
  ~MemoryTier() override {
    threads_.Stop();
    ::munmap(memory_, most_);
  }

  Status Grow(std::uint64_t bytes) override {
    const std::uint64_t old = size_.load(), size = RoundUpToBlocks(bytes);
    if (size <= old) return {};
    if (size > most_ || ::mprotect(memory_ + old, size - old, PROT_READ | PROT_WRITE) != 0) {
      return ResourceExhausted("a tier of " + std::to_string(size) +
                               " bytes of memory, of which this machine has " +
                               std::to_string(most_));
    }
    ::madvise(memory_ + old, size - old, MADV_HUGEPAGE);  // without it, the memory is only slower
    size_ = size;
    return {};
  }

  void SubmitRead(std::uint64_t offset, std::span<std::byte> to, Done done) override {
    SWARM_CHECK(offset + to.size() <= size_.load(), "a read behind the end of a tier");
    if (to.empty()) return done(Status());
    threads_.Add(CutRead(offset, to, std::move(done)));
  }
  void SubmitWrite(std::uint64_t offset, std::span<const std::byte> from, Done done) override {
    SWARM_CHECK(offset % kBlock == 0 && offset + from.size() <= size_.load(),
                "a write behind the end of a tier");
    if (from.empty()) return done(Status());
    threads_.Add(CutWrite(offset, from, std::move(done)));
  }
  Result<Bytes> Map(std::uint64_t offset, std::uint64_t size,
                    std::shared_ptr<const void> owner) override {
    SWARM_CHECK(offset + size <= size_.load(), "a map behind the end of a tier");
    return Bytes::Wrap(memory_ + offset, size, std::move(owner));
  }
  std::string name() const override { return "memory"; }

 private:
  const std::uint64_t most_ = MemoryOfMachine();
  std::byte* const memory_;  ///< addresses for so much, which cost nothing until they have memory
  std::atomic<std::uint64_t> size_{0};
  PieceThreads threads_;  // last: they use the other members
};

}  // namespace

std::unique_ptr<Tier> MakeMemoryTier() { return std::make_unique<MemoryTier>(); }

}  // namespace swarm::tier

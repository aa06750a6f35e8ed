#include "worker/stage/memory/account.h"

#include <algorithm>
#include <numeric>

#include "api/model/memory.h"

namespace swarm::stage {
namespace {

struct Part {
  MemoryKind kind;
  std::string_view name;
  std::uint64_t of_16;
};

/// In the order of MemoryKind. Graphs have api::GraphShare, and what the division leaves.
constexpr std::array<Part, kMemoryKinds> kParts{{
    {MemoryKind::kGraphs, "graphs", 0},
    {MemoryKind::kInputs, "inputs", 3},
    {MemoryKind::kRetained, "retained", 3},
    {MemoryKind::kKeptSums, "kept sums", 3},
    {MemoryKind::kCopies, "copies", 3},
    {MemoryKind::kParcels, "parcels", 1},
    {MemoryKind::kEarlyChunks, "early chunks", 1},
    {MemoryKind::kOutbox, "outbox", 1},
    {MemoryKind::kRelayed, "relayed", 1},
}};

}  // namespace

std::string_view NameOf(MemoryKind kind) { return kParts[static_cast<std::size_t>(kind)].name; }

MemoryShares DivideBudget(std::uint64_t budget) {
  MemoryShares shares{};
  for (const Part& part : kParts) {
    shares[static_cast<std::size_t>(part.kind)] =
        (budget - api::GraphShare(budget)) / 16 * part.of_16;
  }
  shares[0] += budget - std::accumulate(shares.begin(), shares.end(), std::uint64_t{0});
  return shares;
}

std::uint64_t DefaultBudget(std::uint64_t memory, std::uint64_t state_bytes) {
  const std::uint64_t rest = memory - std::min(memory, state_bytes);
  return rest / 4 * 3;
}

void MemoryAccount::SetBudget(std::uint64_t budget) {
  const MemoryShares shares = DivideBudget(budget);
  std::copy(shares.begin(), shares.end(), shares_.begin());
}

std::uint64_t MemoryAccount::total() const {
  std::uint64_t sum = 0;
  for (const auto& bytes : bytes_) sum += bytes.load();
  return sum;
}

}  // namespace swarm::stage

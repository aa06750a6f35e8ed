#include "worker/model/decoder/piece_digests.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>

#include "worker/checkpoint/pieces.h"
#include "worker/codec/cuda/digest_body.h"

namespace swarm::model {
namespace {

/// Pieces at once: they take a sixteenth of their size beside them, 16 MiB.
constexpr std::uint64_t kTogether = 64;
constexpr std::uint64_t kBlocks = checkpoint::kPieceBytes / kDigestBlock;
constexpr auto kLanes = static_cast<std::int64_t>(kDigestLanes);

}  // namespace

PieceDigests::PieceDigests(StateMemory& memory, const StateKernels& kernels)
    : memory_(memory),
      kernels_(kernels),
      sums_(memory.Zeros(static_cast<std::int64_t>(kTogether * kBlocks) * kLanes, at::kLong,
                         StateMemory::Term::kLong)),
      accumulators_(memory.Zeros(static_cast<std::int64_t>(kTogether) * kLanes, at::kLong,
                                 StateMemory::Term::kLong)) {}

Result<std::vector<Digest>> PieceDigests::Behind(const device::Event& event, const StateBlock& from,
                                                 std::uint64_t first, std::uint64_t pieces) {
  const std::lock_guard lock(mutex_);
  static const DigestKeys keys = MakeDigestKeys();
  std::vector<Digest> digests;
  while (digests.size() < pieces) {
    const std::uint64_t some = std::min(kTogether, pieces - digests.size());
    const auto numbers = [](const StateBlock& block) {
      return static_cast<std::uint64_t*>(block.numbers.mutable_data_ptr());
    };
    const codec::cuda::DigestTask task{
        reinterpret_cast<const std::uint32_t*>(from.floats()) + first +
            digests.size() * (checkpoint::kPieceBytes / sizeof(float)),
        some,
        kBlocks,
        numbers(sums_),
        numbers(accumulators_),
        keys};
    const auto started = std::make_shared<Status>();
    memory_.ComputeBehind(event, {.reads = {from}, .writes = {sums_, accumulators_}},
                          [this, task, started](device::NativeStream stream) {
                            *started = kernels_.DigestPieces(task, stream);
                          });
    std::array<std::uint64_t, kTogether * kDigestLanes> accumulators;
    const std::span read = std::span(accumulators).first(some * kDigestLanes);
    RETURN_IF_ERROR(memory_.ReadBehind(event, accumulators_, 0, std::as_writable_bytes(read)));
    RETURN_IF_ERROR(*started);
    for (std::uint64_t piece = 0; piece < some; ++piece) {
      digests.push_back(FinishDigest(read.subspan(piece * kDigestLanes).first<kDigestLanes>(),
                                     checkpoint::kPieceBytes));
    }
  }
  return digests;
}

}  // namespace swarm::model

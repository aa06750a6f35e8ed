#include "worker/model/decoder/piece_digests.h"

#include <algorithm>
#include <utility>

#include "worker/checkpoint/pieces.h"
#include "worker/codec/cuda/digest_body.h"

namespace swarm::model {
namespace {

/// Pieces at once: they take a sixteenth of their size beside them, 32 MiB. Chains of their blocks
/// take as long for many as for one.
constexpr std::uint64_t kTogether = 128;
constexpr std::uint64_t kBlocks = checkpoint::kPieceBytes / kDigestBlock;
constexpr std::uint64_t kNumbers = checkpoint::kPieceBytes / sizeof(float);
constexpr auto kLanes = static_cast<std::int64_t>(kDigestLanes);

std::uint64_t* NumbersOf(const StateBlock& block) {
  return static_cast<std::uint64_t*>(block.numbers.mutable_data_ptr());
}

}  // namespace

PieceDigests::PieceDigests(StateMemory& memory, const StateKernels& kernels)
    : memory_(memory),
      kernels_(kernels),
      sums_(memory.Zeros(static_cast<std::int64_t>(kTogether * kBlocks) * kLanes, at::kLong,
                         StateMemory::Term::kLong)),
      accumulators_(memory.Zeros(static_cast<std::int64_t>(kTogether) * kLanes, at::kLong,
                                 StateMemory::Term::kLong)) {}

Result<std::vector<Digest>> PieceDigests::Behind(const device::Event& event,
                                                 std::span<const PieceRun> runs) {
  const std::lock_guard lock(mutex_);
  std::vector<Digest> digests;
  std::vector<PieceRun> together;
  std::uint64_t pieces = 0;
  for (PieceRun rest : runs) {
    while (rest.pieces > 0) {
      const std::uint64_t some = std::min(rest.pieces, kTogether - pieces);
      together.push_back({rest.block, rest.first, some});
      pieces += some;
      rest.first += some * kNumbers;
      rest.pieces -= some;
      if (pieces < kTogether && together.size() < codec::cuda::kDigestRuns) continue;
      RETURN_IF_ERROR(Add(event, std::exchange(together, {}), &digests));
      pieces = 0;
    }
  }
  if (pieces > 0) RETURN_IF_ERROR(Add(event, together, &digests));
  return digests;
}

Status PieceDigests::Add(const device::Event& event, std::span<const PieceRun> runs,
                         std::vector<Digest>* digests) {
  static const DigestKeys keys = MakeDigestKeys();
  codec::cuda::DigestTask task{.run_count = 0,
                               .pieces = 0,
                               .blocks = kBlocks,
                               .sums = NumbersOf(sums_),
                               .accumulators = NumbersOf(accumulators_),
                               .keys = keys};
  StateAccess access{.reads = {}, .writes = {sums_, accumulators_}};
  for (const PieceRun& run : runs) {
    task.pieces += static_cast<std::uint32_t>(run.pieces);
    task.runs[task.run_count++] = {
        reinterpret_cast<const std::uint32_t*>(run.block.floats()) + run.first, task.pieces};
    access.reads.push_back(run.block);
  }
  const auto started = std::make_shared<Status>();
  memory_.ComputeBehind(event, access, [this, task, started](device::NativeStream stream) {
    *started = kernels_.DigestPieces(task, stream);
  });
  std::vector<std::uint64_t> read(task.pieces * kDigestLanes);
  RETURN_IF_ERROR(
      memory_.ReadBehind(event, accumulators_, 0, std::as_writable_bytes(std::span(read))));
  RETURN_IF_ERROR(*started);
  for (std::uint32_t piece = 0; piece < task.pieces; ++piece) {
    const auto of_piece = std::span(std::as_const(read)).subspan(piece * kDigestLanes);
    digests->push_back(FinishDigest(of_piece.first<kDigestLanes>(), checkpoint::kPieceBytes));
  }
  return {};
}

std::size_t ExpectedPieces::Expect(PieceRun run) {
  known_.clear();
  const std::size_t first = expected_;
  expected_ += run.pieces;
  runs_.push_back(std::move(run));
  return first;
}

const Digest* ExpectedPieces::At(std::size_t piece) {
  if (known_.empty()) {
    auto known = digests_.Behind(behind_, runs_);
    if (!known.ok()) return nullptr;
    known_ = *std::move(known);
  }
  return &known_.at(piece);
}

}  // namespace swarm::model

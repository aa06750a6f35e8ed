// Digests in parts are those of the whole.
#include "worker/codec/cuda/digest_body.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <vector>

#include "base/hash.h"
#include "base/rng.h"

namespace swarm::codec::cuda {
namespace {

TEST(DigestBody, PiecesHaveTheDigestsOfTheirBytes) {
  for (const std::size_t blocks : {1, 2, 15, 16, 17, 40}) {
    SCOPED_TRACE(blocks);
    constexpr std::size_t kPieces = 3;
    Rng rng(blocks);
    // One number off, as a piece of a state may be aligned.
    std::vector<std::uint32_t> memory(kPieces * blocks * kDigestBlock / 4 + 1);
    for (std::uint32_t& word : memory) word = static_cast<std::uint32_t>(rng());
    const std::span data = std::span(memory).subspan(1);
    std::vector<std::uint64_t> sums(kPieces * blocks * kDigestLanes),
        accumulators(kPieces * kDigestLanes);
    const DigestTask task{data.data(),         kPieces,         blocks, sums.data(),
                          accumulators.data(), MakeDigestKeys()};
    for (std::size_t i = 0; i < sums.size(); ++i) SumOfBlock(task, i);
    for (std::size_t i = 0; i < accumulators.size(); ++i) AccumulatePiece(task, i);
    for (std::size_t piece = 0; piece < kPieces; ++piece) {
      const std::size_t bytes = blocks * kDigestBlock;
      const Digest digest = FinishDigest(
          std::span(accumulators).subspan(piece * kDigestLanes).first<kDigestLanes>(), bytes);
      EXPECT_EQ(digest.Hex(),
                ComputeDigest(std::as_bytes(data).subspan(piece * bytes, bytes)).Hex());
    }
  }
}

}  // namespace
}  // namespace swarm::codec::cuda

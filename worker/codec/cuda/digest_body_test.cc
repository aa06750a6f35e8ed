// Digests in parts are those of the whole.
#include "worker/codec/cuda/digest_body.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/rng.h"

namespace swarm::codec::cuda {
namespace {

TEST(DigestBody, PiecesHaveTheDigestsOfTheirBytes) {
  for (const std::uint32_t blocks : {1, 2, 15, 16, 17, 40}) {
    SCOPED_TRACE(blocks);
    Rng rng(blocks);
    const std::size_t bytes = blocks * kDigestBlock;
    // Runs of memory, one number off, as a piece of a state may be aligned.
    constexpr std::uint32_t kPiecesOfRuns[] = {3, 1, 2};
    std::vector<std::vector<std::uint32_t>> runs;
    DigestTask task{.run_count = 0, .pieces = 0, .blocks = blocks, .keys = MakeDigestKeys()};
    std::vector<std::string> expected;
    for (const std::uint32_t pieces : kPiecesOfRuns) {
      std::vector<std::uint32_t>& memory = runs.emplace_back(pieces * bytes / 4 + 1);
      for (std::uint32_t& word : memory) word = static_cast<std::uint32_t>(rng());
      const auto data = std::as_bytes(std::span(memory).subspan(1));
      for (std::uint32_t piece = 0; piece < pieces; ++piece) {
        expected.push_back(ComputeDigest(data.subspan(piece * bytes, bytes)).Hex());
      }
      task.pieces += pieces;
      task.runs[task.run_count++] = {memory.data() + 1, task.pieces};
    }
    std::vector<std::uint64_t> sums(task.pieces * blocks * kDigestLanes),
        accumulators(task.pieces * kDigestLanes);
    task.sums = sums.data();
    task.accumulators = accumulators.data();
    for (std::size_t i = 0; i < sums.size(); ++i) SumOfBlock(task, i);
    for (std::size_t i = 0; i < accumulators.size(); ++i) AccumulatePiece(task, i);
    std::vector<std::string> digests;
    for (std::size_t piece = 0; piece < task.pieces; ++piece) {
      const auto of_piece = std::span(accumulators).subspan(piece * kDigestLanes);
      digests.push_back(FinishDigest(of_piece.first<kDigestLanes>(), bytes).Hex());
    }
    EXPECT_EQ(digests, expected);
  }
}

}  // namespace
}  // namespace swarm::codec::cuda

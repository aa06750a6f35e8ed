// The digests of pieces of memory of one size, a multiple of a block (base/digest_parts.h): what
// blocks add, one thread for each of their lanes; then the accumulators of the pieces, one thread
// for each of theirs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/digest_parts.h"
#include "worker/codec/cuda/team.h"

namespace swarm::codec::cuda {

/// Pieces that lie one behind the other.
struct DigestRun {
  const std::uint32_t* data;
  std::uint32_t end;  ///< the number of the piece behind them, of all pieces
};
inline constexpr std::size_t kDigestRuns = 64;

struct DigestTask {
  DigestRun runs[kDigestRuns];
  std::uint32_t run_count;
  std::uint32_t pieces, blocks;  ///< of all runs; of each piece
  std::uint64_t* sums;           ///< [pieces, blocks, lanes]
  std::uint64_t* accumulators;   ///< [pieces, lanes]
  DigestKeys keys;
};

/// Where a piece begins.
SWARM_BODY const std::uint32_t* DataOf(const DigestTask& task, std::uint32_t piece) {
  std::uint32_t low = 0, high = task.run_count - 1;
  while (low < high) {
    const std::uint32_t middle = (low + high) / 2;
    piece < task.runs[middle].end ? high = middle : low = middle + 1;
  }
  const std::uint32_t in_run = piece - (low == 0 ? 0 : task.runs[low - 1].end);
  constexpr std::size_t kNumbers = kDigestBlock / sizeof(std::uint32_t);
  return task.runs[low].data + static_cast<std::size_t>(in_run) * task.blocks * kNumbers;
}

/// What a block adds to a lane, index % lanes: the block of that number / lanes, of all pieces.
SWARM_BODY void SumOfBlock(const DigestTask& task, std::size_t index) {
  constexpr std::size_t kWords = kDigestLanes,
                        kStripes = kDigestBlock / sizeof(std::uint64_t) / kWords;
  const std::size_t lane = index % kDigestLanes;
  const auto number = static_cast<std::uint32_t>(index / kDigestLanes);  // of all blocks
  const std::uint32_t piece = number / task.blocks, block = number % task.blocks;
  const std::uint32_t* const halves =
      DataOf(task, piece) + block * (kDigestBlock / sizeof(std::uint32_t));
  const bool ends = block + 1 == task.blocks;
  std::uint64_t sum = 0;
  for (std::size_t stripe = 0; stripe < kStripes; ++stripe) {
    const auto word = [&](std::size_t at) {  // of memory that is aligned for floats
      const std::uint32_t* const two = halves + 2 * (stripe * kWords + at);
      return two[0] | static_cast<std::uint64_t>(two[1]) << 32;
    };
    const bool last = ends && stripe + 1 == kStripes;
    const std::uint64_t keyed =
        word(lane) ^ (last ? task.keys.last[lane] : task.keys.words[stripe + lane]);
    sum += word(lane ^ 1) + (keyed & 0xffffffff) * (keyed >> 32);
  }
  task.sums[index] = sum;
}

/// The accumulator index % lanes of the piece index / lanes, behind all its blocks.
SWARM_BODY void AccumulatePiece(const DigestTask& task, std::size_t index) {
  const std::size_t lane = index % kDigestLanes, piece = index / kDigestLanes;
  const std::uint64_t* const sums = task.sums + piece * task.blocks * kDigestLanes + lane;
  const std::uint64_t key = task.keys.words[16 + lane];
  std::uint64_t accumulator = task.keys.start[lane];
  const auto take = [&](std::uint64_t sum, std::size_t block) {
    accumulator += sum;
    if (block + 1 == task.blocks) return;
    accumulator = (accumulator ^ (accumulator >> 47) ^ key) * kDigestScramble;
  };
  // Reads some at once, so that the chain does not wait for each.
  constexpr std::size_t kAhead = 16;
  std::size_t block = 0;
  for (; block + kAhead <= task.blocks; block += kAhead) {
    std::uint64_t ahead[kAhead];
    for (std::size_t k = 0; k < kAhead; ++k) ahead[k] = sums[(block + k) * kDigestLanes];
    for (std::size_t k = 0; k < kAhead; ++k) take(ahead[k], block + k);
  }
  for (; block < task.blocks; ++block) take(sums[block * kDigestLanes], block);
  task.accumulators[index] = accumulator;
}

}  // namespace swarm::codec::cuda

// Sums of gradients, as floats and as integers, and norms: the arithmetic of worker/optim, in an
// order that does not depend on the device.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "worker/codec/cuda/float_body.h"
#include "worker/codec/cuda/kernels.h"
#include "worker/codec/cuda/pack.h"
#include "worker/codec/cuda/team.h"

namespace swarm::codec::cuda {

// Functions of one number, and of the sum that it goes to.

struct AddFloat {
  SWARM_BODY float operator()(float value, float sum) const { return sum + value; }
};

struct AddBFloat16 {
  SWARM_BODY float operator()(std::uint16_t value, float sum) const {
    return sum + FromBFloat16()(value);
  }
};

/// As optim::AddQuantized; `scale` is 2^exponent.
struct AddQuantizedFloat {
  double scale;
  SWARM_BODY std::int64_t operator()(float value, std::int64_t sum) const {
    return sum + static_cast<std::int64_t>(llrint(static_cast<double>(value) * scale));
  }
};

/// As optim::Dequantize; `scale` is 2^-exponent.
struct ToFloat {
  double scale;
  SWARM_BODY float operator()(std::int64_t sum) const {
    return static_cast<float>(static_cast<double>(sum) * scale);
  }
};

/// Numbers of which a team makes one that it joins to the result of the others.
inline constexpr std::size_t kShareOfTeam = 4096;

struct Share {
  std::size_t begin, end;
};
/// Requires that share `index` of n numbers has one.
SWARM_BODY Share ShareOf(std::size_t n, std::size_t index) {
  const std::size_t begin = index * kShareOfTeam;
  return {begin, n - begin < kShareOfTeam ? n : begin + kShareOfTeam};
}

/// Raises *largest to the bits of the largest magnitude of share `index` of x.
template <typename Team>
SWARM_BODY void RaiseToLargestOfShare(const Team& team, const float* x, std::size_t n,
                                      std::size_t index, std::uint32_t* largest) {
  const Share share = ShareOf(n, index);
  team.Raise(largest, team.Max([&](unsigned lane) {
    std::uint32_t most = 0;
    for (std::size_t i = share.begin + lane; i < share.end; i += Team::kLanes) {
      const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffff;
      if (magnitude > most) most = magnitude;
    }
    return most;
  }));
}

/// Sets in *bits those of q, or of -1 - q where it is negative, for the q of share `index`.
template <typename Team>
SWARM_BODY void SetBitsOfShare(const Team& team, const std::int64_t* sum, std::size_t n,
                               std::size_t index, std::uint64_t* bits) {
  const Share share = ShareOf(n, index);
  team.SetBits(bits, team.Or([&](unsigned lane) {
    std::uint64_t set = 0;
    for (std::size_t i = share.begin + lane; i < share.end; i += Team::kLanes) {
      set |= static_cast<std::uint64_t>(sum[i] ^ (sum[i] >> 63));
    }
    return set;
  }));
}

/// How many teams go over the columns of all rows.
template <unsigned kLanes>
SWARM_BODY std::size_t SharesOf(const Rows& rows) {
  return rows.count * ((rows.width + kLanes - 1) / kLanes);
}

/// Calls with(row, column) for the column of share `index` that is each lane's.
template <typename Team, typename With>
SWARM_BODY void ForColumns(const Team& team, const Rows& rows, std::size_t index, With with) {
  const std::size_t shares = (rows.width + Team::kLanes - 1) / Team::kLanes;
  team.Each([&](unsigned lane) {
    const std::size_t column = index % shares * Team::kLanes + lane;
    if (column < rows.width) with(index / shares, column);
  });
}

/// As AddRows of kernels.h.
template <typename Team>
SWARM_BODY void AddRowsOfId(const Team& team, const float* values, const Rows& rows,
                            const std::uint32_t* order, const std::uint32_t* begins, float* table,
                            std::size_t index) {
  ForColumns(team, rows, index, [&](std::size_t row, std::size_t column) {
    float& to = table[static_cast<std::size_t>(rows.ids[row]) * rows.width + column];
    float sum = to;
    for (std::uint32_t i = begins[row]; i < begins[row + 1]; ++i) {
      sum += values[order[i] * rows.width + column];
    }
    to = sum;
  });
}

/// As AddQuantizedRows of kernels.h.
template <typename Team>
SWARM_BODY void AddQuantizedRow(const Team& team, const float* values, const Rows& rows,
                                AddQuantizedFloat add, std::int64_t* table, std::size_t index) {
  ForColumns(team, rows, index, [&](std::size_t row, std::size_t column) {
    std::int64_t& to = table[static_cast<std::size_t>(rows.ids[row]) * rows.width + column];
    to = add(values[row * rows.width + column], to);
  });
}

/// Numbers that are summed among themselves first, and the lanes that do: as in
/// worker/optim/norm.cc.
inline constexpr std::size_t kNumbersOfNormBlock = 4096;
inline constexpr unsigned kLanesOfNorm = 16;

/// The sum of the squares of block `index`: lane i sums x[i], x[i + 16], ...; then the lanes in
/// order.
template <typename Team, typename T>
SWARM_BODY void SquareBlock(const Team& team, const T* x, std::size_t n, std::size_t index,
                            double* squares) {
  static_assert(Team::kLanes == kLanesOfNorm);
  const std::size_t begin = index * kNumbersOfNormBlock;
  const std::size_t end = n - begin < kNumbersOfNormBlock ? n : begin + kNumbersOfNormBlock;
  const double sum = team.SumInOrder(0.0, [&](unsigned lane) {
    double lane_sum = 0;
    const auto add = [&](T number) {
      const auto value = static_cast<double>(number);
      lane_sum += value * value;
    };
    // Reads some at once, so that a lane does not wait for each.
    constexpr std::size_t kAhead = 8;
    std::size_t i = begin + lane;
    for (; i + (kAhead - 1) * Team::kLanes < end; i += kAhead * Team::kLanes) {
      T ahead[kAhead];
      for (std::size_t k = 0; k < kAhead; ++k) ahead[k] = x[i + k * Team::kLanes];
      for (const T number : ahead) add(number);
    }
    for (; i < end; i += Team::kLanes) add(x[i]);
    return lane_sum;
  });
  team.Once([&] { squares[index] = sum; });
}

/// *norm = (squares[0] + squares[1] + ...) 2^-2exponent, by one team.
template <typename Team>
SWARM_BODY void SumSquares(const Team& team, const double* squares, std::size_t blocks,
                           int exponent, double* norm) {
  // One lane: a sum in order is a chain of additions, and shuffles between them take longer.
  team.Once([&] {
    double sum = 0;
    constexpr std::size_t kAhead = 32;
    double ahead[kAhead], next[kAhead];  // read while those before are added
    const auto read = [&](std::size_t begin, double* to) {
      // Zeros behind the end change no sum of squares.
      for (std::size_t k = 0; k < kAhead; ++k) {
        to[k] = begin + k < blocks ? squares[begin + k] : 0.0;
      }
    };
    read(0, ahead);
    for (std::size_t i = 0; i < blocks; i += kAhead) {
      read(i + kAhead, next);
      for (const double square : ahead) sum += square;
      for (std::size_t k = 0; k < kAhead; ++k) ahead[k] = next[k];
    }
    *norm = ldexp(sum, -2 * exponent);
  });
}

}  // namespace swarm::codec::cuda

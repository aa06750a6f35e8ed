// Kernels of worker/codec/cuda on the host: the same bodies, one team after the other. Arguments as
// in kernels.h.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/codec/cuda/block_body.h"
#include "worker/codec/cuda/sum_body.h"
#include "worker/codec/cuda/testing/host_team.h"

namespace swarm::codec::cuda {

template <CodeMap kMap, unsigned kWidth>
void EncodeOnHost(LaneOrder order, const EncodeTask& task) {
  for (std::size_t i = 0; i * task.block < task.n; ++i) {
    EncodeBlock<kMap, kWidth>(HostTeam<32>(order), task, i);
  }
}

template <CodeMap kMap, unsigned kWidth>
void DecodeOnHost(LaneOrder order, const DecodeTask& task) {
  for (std::size_t i = 0; i * task.block < task.n; ++i) {
    DecodeBlock<kMap, kWidth>(HostTeam<32>(order), task, i);
  }
}

template <unsigned kWidth, typename In, typename Out, typename Of>
void ApplyOnHost(const In* x, std::size_t n, Out* out, Of of) {
  for (std::size_t i = 0; i * kWidth < n; ++i) ApplyToPack<kWidth>(x, n, out, of, i);
}

inline void AddRowsOnHost(LaneOrder order_of_lanes, const float* values, const Rows& rows,
                          const std::uint32_t* order, const std::uint32_t* begins, float* table) {
  for (std::size_t i = 0; i < SharesOf<32>(rows); ++i) {
    AddRowsOfId(HostTeam<32>(order_of_lanes), values, rows, order, begins, table, i);
  }
}

inline void AddQuantizedRowsOnHost(LaneOrder order, const float* values, const Rows& rows,
                                   int exponent, std::int64_t* table) {
  const AddQuantizedFloat add{std::ldexp(1.0, exponent)};
  for (std::size_t i = 0; i < SharesOf<32>(rows); ++i) {
    AddQuantizedRow(HostTeam<32>(order), values, rows, add, table, i);
  }
}

inline std::uint32_t LargestMagnitudeOnHost(LaneOrder order, const std::vector<float>& values) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i * kShareOfTeam < values.size(); ++i) {
    RaiseToLargestOfShare(HostTeam<32>(order), values.data(), values.size(), i, &largest);
  }
  return largest;
}

inline std::uint64_t MagnitudeBitsOnHost(LaneOrder order, const std::vector<std::int64_t>& sum) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i * kShareOfTeam < sum.size(); ++i) {
    SetBitsOfShare(HostTeam<32>(order), sum.data(), sum.size(), i, &bits);
  }
  return bits;
}

template <typename T>
double SquaredNormOnHost(LaneOrder order, const std::vector<T>& x, int exponent) {
  std::vector<double> squares;
  while (squares.size() * kNumbersOfNormBlock < x.size()) {
    squares.push_back(NAN);
    SquareBlock(HostTeam<kLanesOfNorm>(order), x.data(), x.size(), squares.size() - 1,
                squares.data());
  }
  double norm = NAN;
  SumSquares(HostTeam<32>(order), squares.data(), squares.size(), exponent, &norm);
  return norm;
}

}  // namespace swarm::codec::cuda

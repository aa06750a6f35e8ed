#include <cmath>

#include "worker/codec/cuda/kernels.h"
#include "worker/codec/cuda/launch.cuh"
#include "worker/codec/cuda/sum_body.h"

namespace swarm::codec::cuda {
namespace {

using Warp = WarpTeam<32>;
using NormTeam = WarpTeam<kLanesOfNorm>;

std::size_t Shares(std::size_t n, std::size_t share) { return (n + share - 1) / share; }

__global__ void __launch_bounds__(kThreads)
    LargestKernel(const float* x, std::size_t n, std::uint32_t* largest) {
  const std::size_t index = Warp::Index();
  if (index * kShareOfTeam < n) RaiseToLargestOfShare(Warp(), x, n, index, largest);
}

__global__ void __launch_bounds__(kThreads)
    BitsKernel(const std::int64_t* sum, std::size_t n, std::uint64_t* bits) {
  const std::size_t index = Warp::Index();
  if (index * kShareOfTeam < n) SetBitsOfShare(Warp(), sum, n, index, bits);
}

__global__ void __launch_bounds__(kThreads)
    AddRowsKernel(const float* values, const Rows rows, const std::uint32_t* order,
                  const std::uint32_t* begins, float* table) {
  const std::size_t index = Warp::Index();
  if (index < SharesOf<Warp::kLanes>(rows)) {
    AddRowsOfId(Warp(), values, rows, order, begins, table, index);
  }
}

__global__ void __launch_bounds__(kThreads)
    AddQuantizedRowsKernel(const float* values, const Rows rows, const AddQuantizedFloat add,
                           std::int64_t* table) {
  const std::size_t index = Warp::Index();
  if (index < SharesOf<Warp::kLanes>(rows)) {
    AddQuantizedRow(Warp(), values, rows, add, table, index);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    SquaresKernel(const T* x, std::size_t n, double* squares) {
  const std::size_t index = NormTeam::Index();
  if (index * kNumbersOfNormBlock < n) SquareBlock(NormTeam(), x, n, index, squares);
}

__global__ void NormKernel(const double* squares, std::size_t blocks, int exponent, double* norm) {
  SumSquares(Warp(), squares, blocks, exponent, norm);
}

template <typename T>
Status Norm(const T* x, std::size_t n, int exponent, double* squares, double* norm, Stream stream) {
  const std::size_t blocks = NormBlocks(n);
  if (n > 0) {
    SquaresKernel<<<BlocksOf(blocks, NormTeam::kLanes), kThreads, 0, stream>>>(x, n, squares);
  }
  NormKernel<<<1, Warp::kLanes, 0, stream>>>(squares, blocks, exponent, norm);
  return CheckLaunch("sum the squares of", n);
}

}  // namespace

Status AddFloats(const float* values, std::size_t n, float* sum, Stream stream) {
  return Apply("add", values, n, sum, AddFloat(), stream);
}

Status AddBFloat16s(const std::uint16_t* values, std::size_t n, float* sum, Stream stream) {
  return Apply("add", values, n, sum, AddBFloat16(), stream);
}

Status AddRows(const float* values, const Rows& rows, const std::uint32_t* order,
               const std::uint32_t* begins, float* table, Stream stream) {
  const std::size_t shares = SharesOf<Warp::kLanes>(rows);
  if (shares == 0) return {};
  AddRowsKernel<<<BlocksOf(shares, Warp::kLanes), kThreads, 0, stream>>>(values, rows, order,
                                                                         begins, table);
  return CheckLaunch("add", rows.count * rows.width);
}

Status RaiseToLargestMagnitude(const float* values, std::size_t n, std::uint32_t* largest,
                               Stream stream) {
  if (n == 0) return {};
  LargestKernel<<<BlocksOf(Shares(n, kShareOfTeam), Warp::kLanes), kThreads, 0, stream>>>(values, n,
                                                                                          largest);
  return CheckLaunch("measure", n);
}

Status AddQuantized(const float* values, std::size_t n, int exponent, std::int64_t* sum,
                    Stream stream) {
  return Apply("add", values, n, sum, AddQuantizedFloat{std::ldexp(1.0, exponent)}, stream);
}

Status AddQuantizedRows(const float* values, const Rows& rows, int exponent, std::int64_t* table,
                        Stream stream) {
  const std::size_t shares = SharesOf<Warp::kLanes>(rows);
  if (shares == 0) return {};
  AddQuantizedRowsKernel<<<BlocksOf(shares, Warp::kLanes), kThreads, 0, stream>>>(
      values, rows, AddQuantizedFloat{std::ldexp(1.0, exponent)}, table);
  return CheckLaunch("add", rows.count * rows.width);
}

Status SetMagnitudeBits(const std::int64_t* sum, std::size_t n, std::uint64_t* bits,
                        Stream stream) {
  if (n == 0) return {};
  BitsKernel<<<BlocksOf(Shares(n, kShareOfTeam), Warp::kLanes), kThreads, 0, stream>>>(sum, n,
                                                                                       bits);
  return CheckLaunch("measure", n);
}

Status Dequantize(const std::int64_t* sum, std::size_t n, int exponent, float* values,
                  Stream stream) {
  return Apply("dequantize", sum, n, values, ToFloat{std::ldexp(1.0, -exponent)}, stream);
}

std::size_t NormBlocks(std::size_t n) { return Shares(n, kNumbersOfNormBlock); }

Status SquaredNorm(const float* values, std::size_t n, double* squares, double* norm,
                   Stream stream) {
  return Norm(values, n, 0, squares, norm, stream);
}

Status SquaredNorm(const std::int64_t* sum, std::size_t n, int exponent, double* squares,
                   double* norm, Stream stream) {
  return Norm(sum, n, exponent, squares, norm, stream);
}

}  // namespace swarm::codec::cuda

#include "worker/codec/cuda/launch.cuh"
#include "worker/codec/cuda/layer_kernels.h"

namespace swarm::codec::cuda {
namespace {

using Warp = WarpTeam<32>;
using Thread = WarpTeam<1>;

template <unsigned kWidth, typename T>
__global__ void __launch_bounds__(kThreads) NormKernel(const NormTask task, T* y) {
  const std::size_t row = Warp::Index();
  if (row < task.rows) NormRow<kWidth>(Warp(), task, y, row);
}

template <unsigned kWidth, typename T>
__global__ void __launch_bounds__(kThreads)
    NormBackKernel(const NormTask task, const T* dy, float* dx) {
  const std::size_t row = Warp::Index();
  if (row < task.rows) NormRowBack<kWidth>(Warp(), task, dy, dx, row);
}

std::size_t GainParts(const NormTask& task) {
  return (task.rows + kRowsOfGainPart - 1) / kRowsOfGainPart;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    GainPartsKernel(const NormTask task, const T* dy, std::size_t count, float* parts) {
  const std::size_t i = Thread::Index();
  if (i < count) parts[i] = GainOfPart(task, dy, i / task.width, i % task.width);
}

__global__ void __launch_bounds__(kThreads)
    GainKernel(const float* parts, std::size_t count, std::size_t width, float* dgain) {
  const std::size_t column = Thread::Index();
  if (column < width) dgain[column] = SumOfParts(parts, count, width, column);
}

template <unsigned kWidth, bool kBack, typename Joined, typename Part>
__global__ void __launch_bounds__(kThreads)
    HeadsKernel(const HeadsTask task, Joined* joined, Part* q, Part* k, Part* v) {
  const std::size_t i = Thread::Index();
  if (i < PairPacks<kWidth>(task)) TurnPairs<kWidth, kBack>(task, joined, q, k, v, i);
}

template <bool kBack, typename Joined, typename Part>
Status TurnHeads(const HeadsTask& task, Joined* joined, Part* q, Part* k, Part* v, Stream stream) {
  if (task.rows == 0) return {};
  const bool packs = task.width % 8 == 0 && IsAlignedToPacks<4>(joined) && IsAlignedToPacks<4>(q) &&
                     IsAlignedToPacks<4>(k) && IsAlignedToPacks<4>(v) &&
                     IsAlignedToPacks<4>(task.cosine) && IsAlignedToPacks<4>(task.sine);
  if (packs) {
    HeadsKernel<4, kBack>
        <<<BlocksOf(PairPacks<4>(task), 1), kThreads, 0, stream>>>(task, joined, q, k, v);
  } else {
    HeadsKernel<1, kBack>
        <<<BlocksOf(PairPacks<1>(task), 1), kThreads, 0, stream>>>(task, joined, q, k, v);
  }
  return CheckLaunch("turn", task.rows * (task.queries + 2 * task.keys) * task.width);
}

template <unsigned kWidth, typename T>
__global__ void __launch_bounds__(kThreads)
    AddKernel(const float* x, const T* branch, std::size_t n, float* sum) {
  const std::size_t i = Thread::Index();
  if (i * kWidth < n) AddPack<kWidth>(x, branch, n, sum, i);
}

template <unsigned kWidth, typename T>
__global__ void __launch_bounds__(kThreads)
    GateKernel(const GateTask task, const T* gate_up, T* gated) {
  const std::size_t i = Thread::Index();
  if (i * kWidth < task.rows * task.inner) GatePack<kWidth>(task, gate_up, gated, i);
}

template <unsigned kWidth, typename T>
__global__ void __launch_bounds__(kThreads)
    GateBackKernel(const GateTask task, const T* gate_up, const T* dgated, T* dgate_up) {
  const std::size_t i = Thread::Index();
  if (i * kWidth < task.rows * task.inner) {
    GatePackBack<kWidth>(task, gate_up, dgated, dgate_up, i);
  }
}

}  // namespace

template <typename T>
Status NormRows(const NormTask& task, T* y, Stream stream) {
  if (task.rows == 0) return {};
  const unsigned blocks = BlocksOf(task.rows, Warp::kLanes);
  if (task.width % 4 == 0 && IsAlignedToPacks<4>(task.x) && IsAlignedToPacks<4>(task.gain) &&
      IsAlignedToPacks<4>(y)) {
    NormKernel<4><<<blocks, kThreads, 0, stream>>>(task, y);
  } else {
    NormKernel<1><<<blocks, kThreads, 0, stream>>>(task, y);
  }
  return CheckLaunch("norm", task.rows * task.width);
}

std::size_t GainPartNumbers(const NormTask& task) { return GainParts(task) * task.width; }

template <typename T>
Status NormRowsBack(const NormTask& task, const T* dy, float* dx, float* parts, float* dgain,
                    Stream stream) {
  const unsigned blocks = BlocksOf(task.rows, Warp::kLanes);
  if (task.rows > 0) {
    if (task.width % 4 == 0 && IsAlignedToPacks<4>(task.x) && IsAlignedToPacks<4>(task.gain) &&
        IsAlignedToPacks<4>(dy) && IsAlignedToPacks<4>(dx)) {
      NormBackKernel<4><<<blocks, kThreads, 0, stream>>>(task, dy, dx);
    } else {
      NormBackKernel<1><<<blocks, kThreads, 0, stream>>>(task, dy, dx);
    }
    const std::size_t count = GainPartNumbers(task);
    GainPartsKernel<<<BlocksOf(count, 1), kThreads, 0, stream>>>(task, dy, count, parts);
  }
  GainKernel<<<BlocksOf(task.width, 1), kThreads, 0, stream>>>(parts, GainParts(task), task.width,
                                                               dgain);
  return CheckLaunch("norm", task.rows * task.width);
}

template <typename T>
Status TakeHeadsApart(const HeadsTask& task, const T* joined, T* q, T* k, T* v, Stream stream) {
  return TurnHeads</*kBack=*/false>(task, joined, q, k, v, stream);
}

template <typename T>
Status TakeHeadsApartBack(const HeadsTask& task, const T* dq, const T* dk, const T* dv, T* djoined,
                          Stream stream) {
  return TurnHeads</*kBack=*/true>(task, djoined, dq, dk, dv, stream);
}

template <typename T>
Status AddBranch(const float* x, const T* branch, std::size_t n, float* sum, Stream stream) {
  if (n == 0) return {};
  if (IsAlignedToPacks<4>(x) && IsAlignedToPacks<4>(branch) && IsAlignedToPacks<4>(sum)) {
    AddKernel<4><<<BlocksOf((n + 3) / 4, 1), kThreads, 0, stream>>>(x, branch, n, sum);
  } else {
    AddKernel<1><<<BlocksOf(n, 1), kThreads, 0, stream>>>(x, branch, n, sum);
  }
  return CheckLaunch("add", n);
}

template <typename T>
Status Gate(const GateTask& task, const T* gate_up, T* gated, Stream stream) {
  const std::size_t n = task.rows * task.inner;
  if (n == 0) return {};
  if (task.inner % 4 == 0 && IsAlignedToPacks<4>(gate_up) && IsAlignedToPacks<4>(gated)) {
    GateKernel<4><<<BlocksOf(n / 4, 1), kThreads, 0, stream>>>(task, gate_up, gated);
  } else {
    GateKernel<1><<<BlocksOf(n, 1), kThreads, 0, stream>>>(task, gate_up, gated);
  }
  return CheckLaunch("gate", n);
}

template <typename T>
Status GateBack(const GateTask& task, const T* gate_up, const T* dgated, T* dgate_up,
                Stream stream) {
  const std::size_t n = task.rows * task.inner;
  if (n == 0) return {};
  if (task.inner % 4 == 0 && IsAlignedToPacks<4>(gate_up) && IsAlignedToPacks<4>(dgated) &&
      IsAlignedToPacks<4>(dgate_up)) {
    GateBackKernel<4><<<BlocksOf(n / 4, 1), kThreads, 0, stream>>>(task, gate_up, dgated, dgate_up);
  } else {
    GateBackKernel<1><<<BlocksOf(n, 1), kThreads, 0, stream>>>(task, gate_up, dgated, dgate_up);
  }
  return CheckLaunch("gate", n);
}

#define SWARM_FOR(T)                                                                              \
  template Status NormRows(const NormTask&, T*, Stream);                                          \
  template Status NormRowsBack(const NormTask&, const T*, float*, float*, float*, Stream);        \
  template Status TakeHeadsApart(const HeadsTask&, const T*, T*, T*, T*, Stream);                 \
  template Status TakeHeadsApartBack(const HeadsTask&, const T*, const T*, const T*, T*, Stream); \
  template Status AddBranch(const float*, const T*, std::size_t, float*, Stream);                 \
  template Status Gate(const GateTask&, const T*, T*, Stream);                                    \
  template Status GateBack(const GateTask&, const T*, const T*, T*, Stream);
SWARM_FOR(float)
SWARM_FOR(std::uint16_t)
#undef SWARM_FOR

}  // namespace swarm::codec::cuda

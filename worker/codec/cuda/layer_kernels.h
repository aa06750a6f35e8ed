// The parts of a decoder layer between its products, on a GPU. T is float, or std::uint16_t for the
// bits of a bfloat16; memory is the device's. The launchers and their errors are those of
// kernels.h. Results are those of worker/model/arithmetic up to rounding, and the same every time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "worker/codec/cuda/kernels.h"
#include "worker/codec/cuda/layer_body.h"

namespace swarm::codec::cuda {

/// y [rows, width] of `task`, and its scales.
template <typename T>
Status NormRows(const NormTask& task, T* y, Stream stream);

/// How many floats NormRowsBack needs for parts of the gradient of the gain.
std::size_t GainPartNumbers(const NormTask& task);
/// The gradients of x [rows, width] and of the gain [width], for that of y. `task` has the scales
/// that NormRows has written.
template <typename T>
Status NormRowsBack(const NormTask& task, const T* dy, float* dx, float* parts, float* dgain,
                    Stream stream);

/// Takes heads apart, as HeadsTask says. Requires: an even width.
template <typename T>
Status TakeHeadsApart(const HeadsTask& task, const T* joined, T* q, T* k, T* v, Stream stream);
/// The gradient of `joined`.
template <typename T>
Status TakeHeadsApartBack(const HeadsTask& task, const T* dq, const T* dk, const T* dv, T* djoined,
                          Stream stream);

/// sum = x + branch, of n numbers.
template <typename T>
Status AddBranch(const float* x, const T* branch, std::size_t n, float* sum, Stream stream);

/// silu(gate) up [rows, inner] of gate_up [rows, 2 inner].
template <typename T>
Status Gate(const GateTask& task, const T* gate_up, T* gated, Stream stream);
/// The gradient of gate_up.
template <typename T>
Status GateBack(const GateTask& task, const T* gate_up, const T* dgated, T* dgate_up,
                Stream stream);

}  // namespace swarm::codec::cuda

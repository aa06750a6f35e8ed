// Bodies of the parts of a decoder layer between its products: each reads and writes its numbers
// once, where a chain of libtorch's operations would pass over them several times. Arithmetic is in
// float32; T is float, or std::uint16_t for the bits of a bfloat16.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "worker/codec/cuda/float_body.h"
#include "worker/codec/cuda/pack.h"
#include "worker/codec/cuda/team.h"

namespace swarm::codec::cuda {

SWARM_BODY float Widened(float number) { return number; }
SWARM_BODY float Widened(std::uint16_t bits) { return FromBFloat16()(bits); }
SWARM_BODY void Narrow(float number, float* to) { *to = number; }
SWARM_BODY void Narrow(float number, std::uint16_t* to) { *to = ToBFloat16()(number); }

/// RMSNorm of the rows of x [rows, width]: gain x s, with s = 1 / sqrt(mean(x^2) + epsilon) by row.
struct NormTask {
  const float* x;
  const float* gain;  ///< [width]
  std::size_t rows, width;
  float epsilon;
  float* scales;  ///< [rows]: s
};

/// Row `row` of the result y. Requires: kWidth divides the width.
template <unsigned kWidth, typename Team, typename T>
SWARM_BODY void NormRow(const Team& team, const NormTask& task, T* y, std::size_t row) {
  const float* const x = task.x + row * task.width;
  const std::size_t packs = task.width / kWidth;
  const double squares = team.SumInOrder(0.0, [&](unsigned lane) {
    float sum = 0;
    for (std::size_t i = lane; i < packs; i += Team::kLanes) {
      const auto some = PackAt<kWidth>(x, i);
      for (unsigned w = 0; w < kWidth; ++w) sum += some.at[w] * some.at[w];
    }
    return static_cast<double>(sum);
  });
  const float mean = static_cast<float>(squares / static_cast<double>(task.width));
  const float scale = 1 / sqrtf(mean + task.epsilon);
  team.Once([&] { task.scales[row] = scale; });
  team.Each([&](unsigned lane) {
    for (std::size_t i = lane; i < packs; i += Team::kLanes) {
      const auto some = PackAt<kWidth>(x, i), gain = PackAt<kWidth>(task.gain, i);
      Pack<T, kWidth> out;
      for (unsigned w = 0; w < kWidth; ++w) {
        Narrow(gain.at[w] * (some.at[w] * scale), &out.at[w]);
      }
      PackAt<kWidth>(y + row * task.width, i) = out;
    }
  });
}

/// Row `row` of the gradient dx of NormRow, for the gradient dy of its result.
template <unsigned kWidth, typename Team, typename T>
SWARM_BODY void NormRowBack(const Team& team, const NormTask& task, const T* dy, float* dx,
                            std::size_t row) {
  const float* const x = task.x + row * task.width;
  const T* const gradient = dy + row * task.width;
  const std::size_t packs = task.width / kWidth;
  const double dot = team.SumInOrder(0.0, [&](unsigned lane) {
    float sum = 0;
    for (std::size_t i = lane; i < packs; i += Team::kLanes) {
      const auto some = PackAt<kWidth>(x, i), gain = PackAt<kWidth>(task.gain, i);
      const auto from = PackAt<kWidth>(gradient, i);
      for (unsigned w = 0; w < kWidth; ++w) {
        sum += gain.at[w] * Widened(from.at[w]) * some.at[w];
      }
    }
    return static_cast<double>(sum);
  });
  const float scale = task.scales[row];
  const float along =
      static_cast<float>(dot / static_cast<double>(task.width)) * scale * scale * scale;
  team.Each([&](unsigned lane) {
    for (std::size_t i = lane; i < packs; i += Team::kLanes) {
      const auto some = PackAt<kWidth>(x, i), gain = PackAt<kWidth>(task.gain, i);
      const auto from = PackAt<kWidth>(gradient, i);
      Pack<float, kWidth> out;
      for (unsigned w = 0; w < kWidth; ++w) {
        out.at[w] = gain.at[w] * Widened(from.at[w]) * scale - some.at[w] * along;
      }
      PackAt<kWidth>(dx + row * task.width, i) = out;
    }
  });
}

inline constexpr std::size_t kRowsOfGainPart = 64;

/// The gradient of gain[column] by the rows of a part: kRowsOfGainPart from part * that on.
template <typename T>
SWARM_BODY float GainOfPart(const NormTask& task, const T* dy, std::size_t part,
                            std::size_t column) {
  const std::size_t begin = part * kRowsOfGainPart, end = begin + kRowsOfGainPart;
  float sum = 0;
  for (std::size_t row = begin; row < end && row < task.rows; ++row) {
    const std::size_t i = row * task.width + column;
    sum += Widened(dy[i]) * (task.x[i] * task.scales[row]);
  }
  return sum;
}

/// The sum of a column of parts [count, width], in order.
SWARM_BODY float SumOfParts(const float* parts, std::size_t count, std::size_t width,
                            std::size_t column) {
  float sum = 0;
  for (std::size_t part = 0; part < count; ++part) sum += parts[part * width + column];
  return sum;
}

/// Heads of queries, keys and values, side by side [rows, (queries + 2 keys) width]; and apart:
/// [rows, queries width] and twice [rows, keys width]. Those of queries and keys are turned by
/// their position: pair (i, i + width / 2) of row r by the angles of row r % positions.
struct HeadsTask {
  std::size_t rows, queries, keys, width;
  const float* cosine;  ///< [positions, width]
  const float* sine;    ///< the same; the first half negated
  std::size_t positions;
};

/// The packs of all pairs, for kWidth numbers a pack.
template <unsigned kWidth>
SWARM_BODY std::size_t PairPacks(const HeadsTask& task) {
  return task.rows * (task.queries + 2 * task.keys) * (task.width / 2 / kWidth);
}

/// Takes the heads apart, pack `index` of the pairs; or back: puts their gradients together.
/// Requires: kWidth divides width / 2.
template <unsigned kWidth, bool kBack, typename Joined, typename Part>
SWARM_BODY void TurnPairs(const HeadsTask& task, Joined* joined, Part* q, Part* k, Part* v,
                          std::size_t index) {
  const std::size_t half = task.width / 2, packs = half / kWidth;
  const std::size_t heads = task.queries + 2 * task.keys;
  const std::size_t pack = index % packs, head = index / packs % heads, row = index / packs / heads;
  Part* part = q + (row * task.queries + head) * task.width;
  if (head >= task.queries) part = k + (row * task.keys + head - task.queries) * task.width;
  if (head >= task.queries + task.keys) {
    part = v + (row * task.keys + head - task.queries - task.keys) * task.width;
  }
  Joined* const whole = joined + (row * heads + head) * task.width;
  const std::size_t other = packs + pack;
  const auto move = [&](const auto* from, auto* to) {
    auto low = PackAt<kWidth>(from, pack), high = PackAt<kWidth>(from, other);
    if (head < task.queries + task.keys) {
      const std::size_t at = row % task.positions * task.width;
      const auto low_cosine = PackAt<kWidth>(task.cosine + at, pack),
                 high_cosine = PackAt<kWidth>(task.cosine + at, other);
      // The sines by which the halves are added to each other: the way back turns the other way.
      const auto to_low = PackAt<kWidth>(task.sine + at, kBack ? other : pack),
                 to_high = PackAt<kWidth>(task.sine + at, kBack ? pack : other);
      for (unsigned w = 0; w < kWidth; ++w) {
        const float a = Widened(low.at[w]), b = Widened(high.at[w]);
        Narrow(a * low_cosine.at[w] + b * to_low.at[w], &low.at[w]);
        Narrow(b * high_cosine.at[w] + a * to_high.at[w], &high.at[w]);
      }
    }
    PackAt<kWidth>(to, pack) = low;
    PackAt<kWidth>(to, other) = high;
  };
  if constexpr (kBack) {
    move(part, whole);
  } else {
    move(whole, part);
  }
}

/// sum[i] = x[i] + branch[i], for the numbers of pack `index`, of which the last may have fewer.
template <unsigned kWidth, typename T>
SWARM_BODY void AddPack(const float* x, const T* branch, std::size_t n, float* sum,
                        std::size_t index) {
  if ((index + 1) * kWidth <= n) {
    const auto some = PackAt<kWidth>(x, index);
    const auto added = PackAt<kWidth>(branch, index);
    Pack<float, kWidth> out;
    for (unsigned w = 0; w < kWidth; ++w) out.at[w] = some.at[w] + Widened(added.at[w]);
    PackAt<kWidth>(sum, index) = out;
  } else {
    for (std::size_t i = index * kWidth; i < n; ++i) sum[i] = x[i] + Widened(branch[i]);
  }
}

/// Gates side by side with what they let through: [rows, 2 inner].
struct GateTask {
  std::size_t rows, inner;
};

/// silu(gate) up, pack `index` of [rows, inner]. Requires: kWidth divides inner.
template <unsigned kWidth, typename T>
SWARM_BODY void GatePack(const GateTask& task, const T* gate_up, T* gated, std::size_t index) {
  const std::size_t packs = task.inner / kWidth, row = index / packs, column = index % packs;
  const T* const gates = gate_up + row * 2 * task.inner;
  const auto gate = PackAt<kWidth>(gates, column), up = PackAt<kWidth>(gates, packs + column);
  Pack<T, kWidth> out;
  for (unsigned w = 0; w < kWidth; ++w) {
    const float g = Widened(gate.at[w]);
    Narrow(g / (1 + expf(-g)) * Widened(up.at[w]), &out.at[w]);
  }
  PackAt<kWidth>(gated, index) = out;
}

/// The gradients of gate_up, for that of GatePack's result.
template <unsigned kWidth, typename T>
SWARM_BODY void GatePackBack(const GateTask& task, const T* gate_up, const T* gradient, T* out,
                             std::size_t index) {
  const std::size_t packs = task.inner / kWidth, row = index / packs, column = index % packs;
  const T* const gates = gate_up + row * 2 * task.inner;
  const auto gate = PackAt<kWidth>(gates, column), up = PackAt<kWidth>(gates, packs + column);
  const auto from = PackAt<kWidth>(gradient, index);
  Pack<T, kWidth> of_gate, of_up;
  for (unsigned w = 0; w < kWidth; ++w) {
    const float g = Widened(gate.at[w]), d = Widened(from.at[w]);
    const float sigmoid = 1 / (1 + expf(-g));
    Narrow(d * Widened(up.at[w]) * sigmoid * (1 + g * (1 - sigmoid)), &of_gate.at[w]);
    Narrow(d * g * sigmoid, &of_up.at[w]);
  }
  T* const outs = out + row * 2 * task.inner;
  PackAt<kWidth>(outs, column) = of_gate;
  PackAt<kWidth>(outs, packs + column) = of_up;
}

}  // namespace swarm::codec::cuda

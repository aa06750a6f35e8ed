// Numbers that a lane reads and writes at once: neighbours move four at a time where memory is
// aligned for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "worker/codec/cuda/team.h"

namespace swarm::codec::cuda {

/// A device moves at most 16 bytes at once.
template <typename T, unsigned kWidth>
struct alignas(kWidth * sizeof(T) < 16 ? kWidth * sizeof(T) : 16) Pack {
  T at[kWidth];
};

/// Pack number `index` of an array, which is aligned to a pack.
template <unsigned kWidth, typename T>
SWARM_BODY auto& PackAt(T* array, std::size_t index) {
  using Packed = Pack<std::remove_const_t<T>, kWidth>;
  using Qualified = std::conditional_t<std::is_const_v<T>, const Packed, Packed>;
  return reinterpret_cast<Qualified*>(array)[index];
}

template <unsigned kWidth, typename T>
bool IsAlignedToPacks(const T* array) {
  return reinterpret_cast<std::uintptr_t>(array) % alignof(Pack<T, kWidth>) == 0;
}

/// Calls use(i, pack) for the packs of kWidth numbers of x that are this lane's, and single(i) for
/// its numbers behind the last pack. Two packs are read before the first is used.
template <unsigned kWidth, unsigned kLanes, typename T, typename WithPack, typename WithSingle>
SWARM_BODY void ForShare(unsigned lane, const T* x, std::size_t n, WithPack use,
                         WithSingle single) {
  const std::size_t packs = n / kWidth;
  std::size_t i = lane;
  for (; i + kLanes < packs; i += 2 * kLanes) {
    const auto first = PackAt<kWidth>(x, i), second = PackAt<kWidth>(x, i + kLanes);
    use(i, first);
    use(i + kLanes, second);
  }
  if (i < packs) use(i, PackAt<kWidth>(x, i));
  for (i = packs * kWidth + lane; i < n; i += kLanes) single(i);
}

/// For the numbers of pack `index`, of which the last may have fewer: out[i] = of(x[i]), or
/// of(x[i], out[i]) where `of` takes two.
template <unsigned kWidth, typename In, typename Out, typename Of>
SWARM_BODY void ApplyToPack(const In* x, std::size_t n, Out* out, Of of, std::size_t index) {
  const auto apply = [&](const In& from, Out& to) {
    if constexpr (std::is_invocable_v<Of, In>) {
      to = of(from);
    } else {
      to = of(from, to);
    }
  };
  if ((index + 1) * kWidth <= n) {
    const auto from = PackAt<kWidth>(x, index);
    Pack<Out, kWidth> to;
    if constexpr (!std::is_invocable_v<Of, In>) to = PackAt<kWidth>(out, index);
    for (unsigned w = 0; w < kWidth; ++w) apply(from.at[w], to.at[w]);
    PackAt<kWidth>(out, index) = to;
  } else {
    for (std::size_t i = index * kWidth; i < n; ++i) apply(x[i], out[i]);
  }
}

}  // namespace swarm::codec::cuda

#include "worker/codec/blocks/cpu_features.h"

namespace swarm::codec {

bool HasIsa(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
  }
  return false;
}

Isa BestIsa() {
  static const Isa best = HasIsa(Isa::kAvx512) ? Isa::kAvx512
                          : HasIsa(Isa::kAvx2) ? Isa::kAvx2
                                               : Isa::kScalar;
  return best;
}

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "AVX2";
    case Isa::kAvx512:
      return "AVX-512";
  }
  return "?";
}

}  // namespace swarm::codec

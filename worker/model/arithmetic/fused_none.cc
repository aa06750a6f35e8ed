#include "base/status.h"
#include "worker/model/arithmetic/fused.h"

namespace swarm::model {

bool HasFused(const at::Tensor&) { return false; }

at::Tensor FusedNorm(const at::Tensor&, const at::Tensor&, double, at::ScalarType) {
  SWARM_CHECK(false, "this build has no kernels for GPUs");
  return {};
}

std::array<at::Tensor, 3> FusedHeads(const at::Tensor&, std::int64_t, const at::Tensor&,
                                     const at::Tensor&) {
  SWARM_CHECK(false, "this build has no kernels for GPUs");
  return {};
}

at::Tensor FusedAdd(const at::Tensor&, const at::Tensor&) {
  SWARM_CHECK(false, "this build has no kernels for GPUs");
  return {};
}

at::Tensor FusedGate(const at::Tensor&) {
  SWARM_CHECK(false, "this build has no kernels for GPUs");
  return {};
}

}  // namespace swarm::model

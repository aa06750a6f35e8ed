#include "worker/model/determinism.h"

#include <ATen/Context.h>
#include <c10/core/Device.h>
#include <c10/util/env.h>

namespace swarm::model {

void SetDeterminism(const std::string& device, bool on) {
  if (!at::Device(device).is_cuda()) return;
  // Without a workspace of its own, cuBLAS splits sums as its memory happens to allow.
  c10::utils::set_env("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/false);
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(on, /*warn_only=*/false);
  context.setDeterministicCuDNN(on);
  // Filling tensors that are about to be written is for programs that read what they never wrote.
  context.setDeterministicFillUninitializedMemory(false);
}

bool LacksDeterministicForm(std::string_view message) {
  return message.find("does not have a deterministic implementation") != message.npos;
}

}  // namespace swarm::model

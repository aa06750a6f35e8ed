// Whether libtorch computes on GPUs by operations that give the same bits every time.
#pragma once

#include <string>
#include <string_view>

namespace swarm::model {

/// On: an operation on a GPU gives the same bits every time, and one that has no such form throws.
/// Off: libtorch takes the fastest. A setting of the process. Does nothing if `device` is the CPU,
/// where operations that we use always give the same bits. The first call for a GPU also gives
/// cuBLAS the memory that this needs (CUBLAS_WORKSPACE_CONFIG, unless the user has set it), which
/// libtorch reads before its first product.
void SetDeterminism(const std::string& device, bool on);

/// Whether this message of libtorch says that an operation has no form that gives the same bits
/// every time.
bool LacksDeterministicForm(std::string_view message);

}  // namespace swarm::model

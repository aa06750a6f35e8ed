// The memory of tensors on the host.
#pragma once

namespace swarm::model {

/// Makes libtorch, in the whole process and from now on, keep the memory of larger tensors for the
/// next ones of that size instead of giving it back to the system. The tensors of every microbatch
/// have the same sizes; fresh memory would cost a page fault and the clearing of a page every 4 KB,
/// which was a quarter of the time of a small stage.
///
/// Keeps at most as much memory as was in use at the peak. Idempotent; safe from any thread.
void KeepTensorMemory();
/// What is kept of it goes back to the system.
void ReleaseTensorMemory();

}  // namespace swarm::model

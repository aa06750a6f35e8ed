// What the bits of a forward and a backward depend on beside their input. An exact job's workers
// must agree in it: integer sums make the order between microbatches irrelevant, but not what
// happens inside one.
#pragma once

#include <string>

#include "base/status.h"
#include "worker/model/stage.h"

namespace swarm::model {

/// "cpu=AVX512 libtorch=2.6.0 device=cpu threads=1 precision=FP32 codec=None/None probe=1f3a...":
/// equal for two processes if all that is known to change bits is equal, and if the boundary, the
/// loss and the gradients of a fixed small model of two stages have the same ones. `options` give
/// device, threads, precision and codec; model and cut are the job's, which all have from the
/// trainer.
///
/// Takes some ten milliseconds, and sets the process's compute threads as Stage::Create does. The
/// probe is small: that a device which differs only in its largest matrix products passes cannot be
/// excluded, so replicas compare digests all the same. Errors: those of Stage::Create.
Result<std::string> NumericClass(const StageOptions& options);

}  // namespace swarm::model

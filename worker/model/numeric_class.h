// What the bits of a forward and a backward depend on beside their input. An exact job's workers
// must agree in it: integer sums make the order between microbatches irrelevant, but not what
// happens inside one.
#pragma once

#include <string>

#include "base/status.h"
#include "worker/model/stage.h"

namespace swarm::model {

/// "cpu=AVX512 libtorch=2.6.0 device=cpu threads=1 probe:FP32=1f3a... probe:BF16=... ...": equal
/// for two processes if all that is known to change bits is equal, and if boundaries, losses and
/// gradients of fixed small models of two stages have the same ones: in each precision, and with
/// each boundary that is a part of the model. All of them, since a worker says its class before it
/// knows a job; a job compares the probes that bear the names of its precision and its codec. How
/// plain numbers are sent is not among them: its code gives the same bytes everywhere
/// (worker/codec).
///
/// Takes some fifty milliseconds a model, and sets the process's compute threads as Stage::Create
/// does. The models are small: that a device which differs only in its largest matrix products
/// passes cannot be excluded, so replicas compare digests all the same. Errors: those of
/// Stage::Create.
Result<std::string> NumericClass(int threads, const std::string& device);

}  // namespace swarm::model

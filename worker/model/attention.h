// Which kernels attend: a choice of libtorch that changes the bits of results, and their speed.
#pragma once

#include <string>

#include "api/swarmjob.h"
#include "base/status.h"

namespace swarm::model {

/// The kernels by which the layers of a model attend where products have this precision: "flash",
/// "efficient", "cudnn" or "math", as libtorch chooses on this device for heads of this shape, or
/// "products" where scores are capped. Of layers that see all tokens before them, then of those
/// with a window: "flash", or "flash/math" where the model has both. Errors: kUnavailable (no such
/// device).
Result<std::string> AttentionKernels(const api::DecoderConfig& config, api::Precision precision,
                                     const std::string& device);

}  // namespace swarm::model

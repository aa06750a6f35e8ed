// What the bits of a forward and a backward depend on besides their input. The workers of an exact
// job must agree in it: with integer sums the order of microbatches does not matter, but the
// arithmetic inside a microbatch does.
#pragma once

#include <string>

#include "base/status.h"
#include "worker/model/stage.h"

namespace swarm::model {

/// "cpu=AVX512 libtorch=2.6.0 device=cpu threads=1 probe:FP32=1f3a...:flash,... ...". Equal
/// for two processes if everything that is known to change bits is equal, and if two processes get
/// the same boundaries, losses and gradients, bit for bit, for small fixed models of two stages:
/// one model for each precision and for each boundary that is a part of the model. It has all of
/// these, because a worker states its class before it knows a job; a job compares the probes of its
/// precision and its codec. A precision's probe also has the kernels that attend with it
/// (attention.h) to heads of 64, 128 and 256 numbers: the choice depends on their width, and the
/// models that are probed have one. The codecs of plain numbers have no probe: their code gives the
/// same bytes everywhere (worker/codec).
///
/// A GPU has "device=NVIDIA_H100_80GB_HBM3:sm_90:132 cuda=13000 cudnn=91002": name, architecture,
/// multiprocessors, and the versions of the libraries, whatever the driver's. Its probes run as
/// exact jobs do (determinism.h); "none" stands for one that has no deterministic form there.
///
/// Takes some fifty milliseconds a model, and sets the process's compute threads as Stage::Create
/// does. The models are small, so a device that differs only in large matrix products may pass. So
/// replicas compare digests as well. Errors: those of Stage::Create.
Result<std::string> NumericClass(int threads, const std::string& device);

}  // namespace swarm::model

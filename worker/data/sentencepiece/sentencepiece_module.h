// The export of the module libswarm_sentencepiece.so.
//
// Debian's libsentencepiece contains its own protobuf and exports its symbols. In one symbol scope
// with libprotobuf, which the network needs, each would call into the other and crash before main.
// So libsentencepiece is linked into a module, which is opened in its own scope when a job first
// needs it.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/status.h"
#include "worker/data/tokenizer.h"

extern "C" {
/// Sets *result to the tokenizer of a .model file's content, or kDataLoss.
void SwarmMakeSentencePieceTokenizer(
    const swarm::Bytes& model, swarm::Result<std::unique_ptr<swarm::data::Tokenizer>>* result);
}

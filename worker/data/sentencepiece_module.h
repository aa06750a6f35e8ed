// What the module libswarm_sentencepiece.so exports.
//
// Debian's libsentencepiece carries a protobuf of its own and exports its symbols. In one symbol
// scope with libprotobuf, which the network needs, each would call into the other and crash before
// main. So it is linked into a module that is opened when a job first needs it, in a scope of its
// own.
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

// The codecs of eight bits a number: tensors in and out of block_codes.h.
#pragma once

#include <memory>

#include "worker/codec/blocks/block_codes.h"
#include "worker/codec/codec.h"

namespace swarm::codec {

/// The row-major order of the elements in blocks of `block`; the last may have fewer. Error: as
/// stated at CodeMap, relative to the largest of the block. A block with an element that is not
/// finite becomes NaNs.
std::unique_ptr<Codec> MakeBlockCodec(CodeMap map, std::size_t block);

}  // namespace swarm::codec

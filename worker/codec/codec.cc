#include "worker/codec/codec.h"

#include <string>

#include "api/model/boundary.h"
#include "worker/codec/block_codecs.h"
#include "worker/codec/float_codecs.h"

namespace swarm::codec {

std::unique_ptr<Codec> MakeCodec(const api::Boundary& boundary, Direction direction) {
  switch (direction == Direction::kForward ? api::ForwardNumbers(boundary)
                                           : api::BackwardNumbers(boundary)) {
    case api::NumberCodec::kNone:
      return MakeFloat32Codec();
    case api::NumberCodec::kBF16:
      return MakeBFloat16Codec();
    case api::NumberCodec::kInt8:
      return MakeBlockCodec(CodeMap::kLinear, boundary.blockSize);
    case api::NumberCodec::kInt8Dynamic:
      return MakeBlockCodec(CodeMap::kDynamic, boundary.blockSize);
  }
  return nullptr;
}

Status WrongSize(std::size_t bytes, std::size_t expected) {
  return DataLoss("boundary payload of " + std::to_string(bytes) + " bytes, expected " +
                  std::to_string(expected) + "; ask for it again");
}

}  // namespace swarm::codec

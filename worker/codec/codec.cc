#include "worker/codec/codec.h"

#include "worker/codec/float_codecs.h"

namespace swarm::codec {

std::unique_ptr<Codec> MakeCodec(api::BoundaryCodec codec) {
  switch (codec) {
    case api::BoundaryCodec::kNone:
      return MakeFloat32Codec();
    case api::BoundaryCodec::kBF16:
      return MakeBFloat16Codec();
  }
  return nullptr;
}

}  // namespace swarm::codec

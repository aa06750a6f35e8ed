// Reads the messages of ids.proto.
#include "worker/net/wire/decoder.h"

namespace swarm::net {

using namespace protocol;  // NOLINT: this file is about nothing else

void Decoder::Get(const pb::Attempt& from, Attempt* to) { *to = {Term(from.term()), from.n()}; }

void Decoder::Get(const pb::TaskKey& from, TaskKey* to) {
  *to = {Generation(from.generation()),
         Step(from.step()),
         Microbatch(from.microbatch()),
         StageIndex(from.stage()),
         {}};
  Get(from.attempt(), &to->attempt);
}

void Decoder::Get(const pb::Digest& from, Digest* to) { *to = {from.high(), from.low()}; }

void Decoder::Get(const pb::Address& from, Address* to) {
  *to = {from.scope(), from.dial(), from.tls_server_name()};
}

}  // namespace swarm::net

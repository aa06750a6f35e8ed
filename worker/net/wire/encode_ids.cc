// Writes the messages of ids.proto.
#include "worker/net/wire/encoder.h"

namespace swarm::net {

using namespace protocol;  // NOLINT: this file is about nothing else

void Encoder::Put(const Attempt& from, pb::Attempt* to) {
  to->set_term(from.term.value);
  to->set_n(from.n);
}

void Encoder::Put(const TaskKey& from, pb::TaskKey* to) {
  to->set_generation(from.generation.value);
  to->set_step(from.step.value);
  to->set_microbatch(from.microbatch.value);
  to->set_stage(from.stage.value);
  Put(from.attempt, to->mutable_attempt());
}

void Encoder::Put(const Digest& from, pb::Digest* to) {
  to->set_high(from.high);
  to->set_low(from.low);
}

void Encoder::Put(const Address& from, pb::Address* to) {
  to->set_scope(ToUtf8(from.scope));
  to->set_dial(ToUtf8(from.dial));
  to->set_tls_server_name(ToUtf8(from.tls_server_name));
}

}  // namespace swarm::net

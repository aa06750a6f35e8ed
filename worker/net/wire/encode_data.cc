// Writes the messages of data.proto.
#include "worker/net/wire/encoder.h"

namespace swarm::net {

using namespace protocol;  // NOLINT: this file is about nothing else

void Encoder::Put(const Hop& from, pb::Hop* to) {
  to->set_worker(ToUtf8(from.worker.value));
  Put(from.attempt, to->mutable_attempt());
  to->set_fold(from.fold);
}

void Encoder::Put(const Forward& from, pb::Forward* to) {
  Put(from.key, to->mutable_key());
  to->set_version(from.version.value);
  to->set_kind(static_cast<pb::TaskKind>(from.kind));
  PutAll(from.hops, kStagesMax, "hops", to->mutable_hops());
  to->set_end(from.end.value);
  to->set_first(from.first.value);
  Put(from.upstream, to->mutable_upstream());
  to->set_tokens(from.tokens.data(), from.tokens.size());
  to->set_sequences(from.sequences);
  to->set_tokens_per_sequence(from.tokens_per_sequence);
}

void Encoder::Put(const Backward& from, pb::Backward* to) {
  Put(from.key, to->mutable_key());
  to->set_version(from.version.value);
}

void Encoder::Put(const ReduceChunk& from, pb::ReduceChunk* to) {
  PutReduceName(from, to);
  to->set_phase(static_cast<pb::ReduceChunk::Phase>(from.phase));
  to->set_offset(from.offset);
}

void Encoder::Put(const Contribution& from, pb::Contribution* to) {
  to->set_microbatch(from.microbatch.value);
  Put(from.attempt, to->mutable_attempt());
  to->set_loss(from.loss);
}

void Encoder::Put(const Parcel& from, pb::Parcel* to) {
  to->set_generation(from.generation.value);
  to->set_step(from.step.value);
  to->set_stage(from.stage.value);
  to->set_group(from.group.value);
  to->set_offset(from.offset);
  to->set_count(from.count);
  to->set_level(from.level);
  to->set_finite(from.finite);
  PutAll(from.contributions, kMicrobatchesMax, "contributions", to->mutable_contributions());
}

void Encoder::Put(const Fetch& from, pb::Fetch* to) {
  to->set_generation(from.generation.value);
  to->set_kind(static_cast<pb::FetchKind>(from.kind));
  to->set_version(from.version.value);
  to->set_group(from.group.value);
  Put(from.k, to->mutable_k());
  to->set_piece(from.piece);
  to->set_part(from.part);
}

void Encoder::Put(const Fetched& from, pb::Fetched* to) {
  to->set_generation(from.generation.value);
  to->set_kind(static_cast<pb::FetchKind>(from.kind));
  to->set_version(from.version.value);
  to->set_group(from.group.value);
  Put(from.k, to->mutable_k());
  to->set_piece(from.piece);
  to->set_pieces(from.pieces);
  to->set_error(ToUtf8(from.error));
  to->set_part(from.part);
}

void Encoder::Put(const Relayed& from, pb::Relayed* to) {
  to->set_from(ToUtf8(from.from.value));
  to->set_to(ToUtf8(from.to.value));
  to->set_header(from.header);
}

}  // namespace swarm::net

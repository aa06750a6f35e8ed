// Reads the messages of data.proto.
#include "worker/net/wire/decoder.h"

namespace swarm::net {

using namespace protocol;  // NOLINT: this file is about nothing else

void Decoder::Get(const pb::Hop& from, Hop* to) {
  to->worker = WorkerId(from.worker());
  Get(from.attempt(), &to->attempt);
  to->fold = from.fold();
}

void Decoder::Get(const pb::Forward& from, Forward* to) {
  Get(from.key(), &to->key);
  to->version = Version(from.version());
  GetEnum(from.kind(), pb::TaskKind_IsValid(from.kind()), "Forward.kind", &to->kind);
  GetAll(from.hops(), kStagesMax, "hops", &to->hops);
  to->end = StageIndex(from.end());
  to->first = StageIndex(from.first());
  Get(from.upstream(), &to->upstream);
  to->tokens = Bytes::Copy(from.tokens());
  to->sequences = from.sequences();
  to->tokens_per_sequence = from.tokens_per_sequence();
}

void Decoder::Get(const pb::Backward& from, Backward* to) {
  Get(from.key(), &to->key);
  to->version = Version(from.version());
}

void Decoder::Get(const pb::ReduceChunk& from, ReduceChunk* to) {
  GetReduceName(from, to);
  GetEnum(from.phase(), pb::ReduceChunk::Phase_IsValid(from.phase()), "ReduceChunk.phase",
          &to->phase);
  to->offset = from.offset();
}

void Decoder::Get(const pb::Contribution& from, Contribution* to) {
  to->microbatch = Microbatch(from.microbatch());
  Get(from.attempt(), &to->attempt);
  to->loss = from.loss();
}

void Decoder::Get(const pb::Parcel& from, Parcel* to) {
  to->generation = Generation(from.generation());
  to->step = Step(from.step());
  to->stage = StageIndex(from.stage());
  to->group = GroupIndex(from.group());
  to->offset = from.offset();
  to->count = from.count();
  to->level = from.level();
  to->finite = from.finite();
  GetAll(from.contributions(), kMicrobatchesMax, "contributions", &to->contributions);
}

void Decoder::Get(const pb::Fetch& from, Fetch* to) {
  to->generation = Generation(from.generation());
  GetEnum(from.kind(), pb::FetchKind_IsValid(from.kind()), "Fetch.kind", &to->kind);
  to->version = Version(from.version());
  to->group = GroupIndex(from.group());
  Get(from.k(), &to->k);
  to->piece = from.piece();
  to->part = from.part();
}

void Decoder::Get(const pb::Fetched& from, Fetched* to) {
  to->generation = Generation(from.generation());
  GetEnum(from.kind(), pb::FetchKind_IsValid(from.kind()), "Fetched.kind", &to->kind);
  to->version = Version(from.version());
  to->group = GroupIndex(from.group());
  Get(from.k(), &to->k);
  to->piece = from.piece();
  to->pieces = from.pieces();
  to->error = from.error();
  to->part = from.part();
}

void Decoder::Get(const pb::Relayed& from, Relayed* to) {
  to->from = WorkerId(from.from());
  to->to = WorkerId(from.to());
  to->header = from.header();
}

}  // namespace swarm::net

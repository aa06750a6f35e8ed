// Reads the messages of recovery.proto.
#include "worker/net/wire/decoder.h"

namespace swarm::net {

using namespace protocol;  // NOLINT: this file is about nothing else

void Decoder::Get(const pb::Resend& from, Resend* to) {
  to->term = Term(from.term());
  Get(from.source(), &to->source);
  Get(from.frame(), &to->frame);
}

void Decoder::Get(const pb::Redirect& from, Redirect* to) {
  to->term = Term(from.term());
  Get(from.source(), &to->source);
  to->to = WorkerId(from.to());
  Get(from.target(), &to->target);
}

void Decoder::Get(const pb::Missing& from, Missing* to) {
  Get(from.source(), &to->source);
  to->gradient = from.gradient();
}

void Decoder::Get(const pb::Revoke& from, Revoke* to) {
  to->term = Term(from.term());
  Get(from.key(), &to->key);
}

void Decoder::Get(const pb::Revoked& from, Revoked* to) {
  Get(from.key(), &to->key);
  to->folded = from.folded();
}

void Decoder::Get(const pb::Void& from, Void* to) {
  to->term = Term(from.term());
  to->generation = Generation(from.generation());
  to->step = Step(from.step());
  Get(from.number(), &to->number);
  to->level = from.level();
}

void Decoder::Get(const pb::Voided& from, Voided* to) {
  to->generation = Generation(from.generation());
  to->step = Step(from.step());
  Get(from.number(), &to->number);
}

void Decoder::Get(const pb::Thaw& from, Thaw* to) {
  to->term = Term(from.term());
  to->generation = Generation(from.generation());
  to->step = Step(from.step());
}

void Decoder::Get(const pb::Rollback& from, Rollback* to) {
  to->term = Term(from.term());
  to->generation = Generation(from.generation());
  to->stage = StageIndex(from.stage());
  to->version = Version(from.version());
  to->checkpoint_uri = from.checkpoint_uri();
  Get(from.manifest(), &to->manifest);
}

void Decoder::Get(const pb::Leaving& from, Leaving* to) { to->seconds = from.seconds(); }

void Decoder::Get(const pb::HandOver& from, HandOver* to) {
  to->term = Term(from.term());
  to->generation = Generation(from.generation());
  to->step = Step(from.step());
  to->heir = WorkerId(from.heir());
}

void Decoder::Get(const pb::ParcelHeld& from, ParcelHeld* to) {
  to->generation = Generation(from.generation());
  to->step = Step(from.step());
  to->donor = WorkerId(from.donor());
  GetAll(from.contributions(), kMicrobatchesMax, "contributions", &to->contributions);
}

void Decoder::Get(const pb::PinState& from, PinState* to) {
  to->term = Term(from.term());
  to->generation = Generation(from.generation());
  to->version = Version(from.version());
}

void Decoder::Get(const pb::StatePinned& from, StatePinned* to) {
  to->generation = Generation(from.generation());
  to->version = Version(from.version());
  Get(from.state(), &to->state);
  to->error = from.error();
  to->kept_steps = from.kept_steps();
}

void Decoder::Get(const pb::UnpinState& from, UnpinState* to) {
  to->term = Term(from.term());
  to->generation = Generation(from.generation());
  to->version = Version(from.version());
}

void Decoder::Get(const pb::Takeover& from, Takeover* to) { to->term = Term(from.term()); }

void Decoder::Get(const pb::HeldReduce& from, HeldReduce* to) {
  to->group = GroupIndex(from.group());
  Get(from.k(), &to->k);
  GetAll(from.participants(), kMembersMax, "participants", &to->participants);
}

void Decoder::Get(const pb::HeldStep& from, HeldStep* to) {
  to->step = Step(from.step());
  to->level = from.level();
  GetAll(from.folded(), kMicrobatchesMax, "folded", &to->folded);
  GetAll(from.reduces(), kStagesMax, "reduces", &to->reduces);
}

void Decoder::Get(const pb::Holding& from, Holding* to) {
  to->term = Term(from.term());
  to->generation = Generation(from.generation());
  Get(from.self(), &to->self);
  to->version = Version(from.version());
  Get(from.roster(), &to->roster);
  GetAll(from.records(), kStepsMax, "records", &to->records);
  GetAll(from.steps(), kStepsMax, "steps", &to->steps);
  GetAll(from.past(), kStepsMax, "past", &to->past);
  to->holds = from.holds();
}

}  // namespace swarm::net

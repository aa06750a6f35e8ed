// Writes the messages of recovery.proto.
#include "worker/net/wire/encoder.h"

namespace swarm::net {

using namespace protocol;  // NOLINT: this file is about nothing else

void Encoder::Put(const Resend& from, pb::Resend* to) {
  to->set_term(from.term.value);
  Put(from.source, to->mutable_source());
  Put(from.frame, to->mutable_frame());
}

void Encoder::Put(const Redirect& from, pb::Redirect* to) {
  to->set_term(from.term.value);
  Put(from.source, to->mutable_source());
  to->set_to(ToUtf8(from.to.value));
  Put(from.target, to->mutable_target());
}

void Encoder::Put(const Missing& from, pb::Missing* to) {
  Put(from.source, to->mutable_source());
  to->set_gradient(from.gradient);
}

void Encoder::Put(const Revoke& from, pb::Revoke* to) {
  to->set_term(from.term.value);
  Put(from.key, to->mutable_key());
}

void Encoder::Put(const Revoked& from, pb::Revoked* to) {
  Put(from.key, to->mutable_key());
  to->set_folded(from.folded);
}

void Encoder::Put(const Void& from, pb::Void* to) {
  to->set_term(from.term.value);
  to->set_generation(from.generation.value);
  to->set_step(from.step.value);
  Put(from.number, to->mutable_number());
  to->set_level(from.level);
}

void Encoder::Put(const Voided& from, pb::Voided* to) {
  to->set_generation(from.generation.value);
  to->set_step(from.step.value);
  Put(from.number, to->mutable_number());
}

void Encoder::Put(const Thaw& from, pb::Thaw* to) {
  to->set_term(from.term.value);
  to->set_generation(from.generation.value);
  to->set_step(from.step.value);
}

void Encoder::Put(const Rollback& from, pb::Rollback* to) {
  to->set_term(from.term.value);
  to->set_generation(from.generation.value);
  to->set_stage(from.stage.value);
  to->set_version(from.version.value);
  to->set_checkpoint_uri(ToUtf8(from.checkpoint_uri));
  Put(from.manifest, to->mutable_manifest());
}

void Encoder::Put(const Leaving& from, pb::Leaving* to) { to->set_seconds(from.seconds); }

void Encoder::Put(const HandOver& from, pb::HandOver* to) {
  to->set_term(from.term.value);
  to->set_generation(from.generation.value);
  to->set_step(from.step.value);
  to->set_heir(ToUtf8(from.heir.value));
}

void Encoder::Put(const ParcelHeld& from, pb::ParcelHeld* to) {
  to->set_generation(from.generation.value);
  to->set_step(from.step.value);
  to->set_donor(ToUtf8(from.donor.value));
  PutAll(from.contributions, kMicrobatchesMax, "contributions", to->mutable_contributions());
}

void Encoder::Put(const PinState& from, pb::PinState* to) {
  to->set_term(from.term.value);
  to->set_generation(from.generation.value);
  to->set_version(from.version.value);
}

void Encoder::Put(const StatePinned& from, pb::StatePinned* to) {
  to->set_generation(from.generation.value);
  to->set_version(from.version.value);
  Put(from.state, to->mutable_state());
  to->set_error(ToUtf8(from.error));
  to->set_kept_steps(from.kept_steps);
}

void Encoder::Put(const UnpinState& from, pb::UnpinState* to) {
  to->set_term(from.term.value);
  to->set_generation(from.generation.value);
  to->set_version(from.version.value);
}

void Encoder::Put(const Takeover& from, pb::Takeover* to) { to->set_term(from.term.value); }

void Encoder::Put(const HeldReduce& from, pb::HeldReduce* to) {
  to->set_group(from.group.value);
  Put(from.k, to->mutable_k());
  PutAll(from.participants, kMembersMax, "participants", to->mutable_participants());
}

void Encoder::Put(const HeldStep& from, pb::HeldStep* to) {
  to->set_step(from.step.value);
  to->set_level(from.level);
  PutAll(from.folded, kMicrobatchesMax, "folded", to->mutable_folded());
  PutAll(from.reduces, kStagesMax, "reduces", to->mutable_reduces());
}

void Encoder::Put(const Holding& from, pb::Holding* to) {
  to->set_term(from.term.value);
  to->set_generation(from.generation.value);
  Put(from.self, to->mutable_self());
  to->set_version(from.version.value);
  Put(from.roster, to->mutable_roster());
  PutAll(from.records, kStepsMax, "records", to->mutable_records());
  PutAll(from.steps, kStepsMax, "steps", to->mutable_steps());
  PutAll(from.past, kStepsMax, "past", to->mutable_past());
  to->set_holds(from.holds);
}

}  // namespace swarm::net

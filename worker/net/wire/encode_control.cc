// Writes the messages of control.proto.
#include "worker/net/wire/encoder.h"

namespace swarm::net {

using namespace protocol;  // NOLINT: this file is about nothing else

void Encoder::Put(const Member& from, pb::Member* to) {
  to->set_id(ToUtf8(from.id.value));
  to->set_incarnation(from.incarnation.value);
  to->set_stage(from.stage.value);
  to->set_cluster(ToUtf8(from.cluster));
  PutAll(from.addresses, kAddressesMax, "addresses", to->mutable_addresses());
  to->set_region(ToUtf8(from.region));
  to->set_pod(ToUtf8(from.pod));
}

void Encoder::Put(const HeldState& from, pb::HeldState* to) {
  to->set_stage(from.stage.value);
  to->set_version(from.version.value);
  Put(from.state, to->mutable_state());
}

void Encoder::Put(const Hello& from, pb::Hello* to) {
  to->set_protocol_version(from.protocol_version);
  to->set_id(ToUtf8(from.id.value));
  to->set_incarnation(from.incarnation.value);
  to->set_cluster(ToUtf8(from.cluster));
  PutAll(from.addresses, kAddressesMax, "addresses", to->mutable_addresses());
  to->set_threads(from.threads);
  to->set_term(from.term.value);
  to->set_serving(from.serving);
  to->set_numeric_class(ToUtf8(from.numeric_class));
  to->set_region(ToUtf8(from.region));
  to->set_offers(from.offers);
  Put(from.offer, to->mutable_offer());
  to->set_pod(ToUtf8(from.pod));
}

void Encoder::Put(const Welcome& from, pb::Welcome* to) {
  to->set_term(from.term.value);
  to->set_generation(from.generation.value);
  to->set_job_json(ToUtf8(from.job_json));
  to->set_stage(from.stage.value);
  to->set_stage_count(from.stage_count);
  to->set_version(from.version.value);
  to->set_checkpoint_uri(ToUtf8(from.checkpoint_uri));
  PutAll(from.donors, kMembersMax, "donors", to->mutable_donors());
  Put(from.state, to->mutable_state());
  Put(from.floor, to->mutable_floor());
  to->set_goes_on(from.goes_on);
  PutAll(from.peers, kMembersMax, "peers", to->mutable_peers());
  Put(from.manifest, to->mutable_manifest());
}

void Encoder::Put(const Ready& from, pb::Ready* to) {
  to->set_generation(from.generation.value);
  to->set_stage(from.stage.value);
  to->set_version(from.version.value);
  Put(from.state, to->mutable_state());
}

void Encoder::Put(const Adoption& from, pb::Adoption* to) {
  to->set_donor(ToUtf8(from.donor.value));
  to->set_heir(ToUtf8(from.heir.value));
  to->set_step(from.step.value);
}

void Encoder::Put(const Roster& from, pb::Roster* to) {
  to->set_term(from.term.value);
  to->set_generation(from.generation.value);
  to->set_epoch(from.epoch.value);
  PutAll(from.members.elements(), kMembersMax, "members", to->mutable_members());
  PutAll(from.adoptions, kMembersMax, "adoptions", to->mutable_adoptions());
}

void Encoder::Put(const RosterChange& from, pb::RosterChange* to) {
  to->set_term(from.term.value);
  to->set_generation(from.generation.value);
  to->set_epoch(from.epoch.value);
  PutAll(from.came, kMembersMax, "members", to->mutable_came());
  PutAll(from.gone, kMembersMax, "members", to->mutable_gone());
  PutAll(from.adoptions, kMembersMax, "adoptions", to->mutable_adoptions());
}

void Encoder::Put(const Heartbeat::Exchanged& from, pb::Heartbeat::Exchanged* to) {
  to->set_region(ToUtf8(from.region));
  to->set_bytes(from.bytes);
}

void Encoder::Put(const Heartbeat& from, pb::Heartbeat* to) {
  to->set_term(from.term.value);
  to->set_compute_progress(from.compute_progress);
  to->set_queued_tasks(from.queued_tasks);
  to->set_bytes_sent(from.bytes_sent);
  to->set_busy_seconds(from.busy_seconds);
  to->set_copied_bytes(from.copied_bytes);
  to->set_next_seconds(from.next_seconds);
  to->set_sum_seconds(from.sum_seconds);
  PutAll(from.exchanged, kMembersMax, "regions", to->mutable_exchanged());
}

void Encoder::Put(const PeerBeat&, pb::PeerBeat*) {}

void Encoder::Put(const Unheard& from, pb::Unheard* to) {
  PutAll(from.peers, kMembersMax, "peers", to->mutable_peers());
}

void Encoder::Put(const Detour& from, pb::Detour* to) {
  to->set_peer(ToUtf8(from.peer.value));
  to->set_via(ToUtf8(from.via.value));
}

void Encoder::Put(const Detours& from, pb::Detours* to) {
  to->set_term(from.term.value);
  PutAll(from.detours, kMembersMax, "detours", to->mutable_detours());
}

void Encoder::Put(const Retired& from, pb::Retired* to) {
  if (!WithinCap(from.except.size(), kMembersMax, "except")) return;
  to->set_prefix(ToUtf8(from.prefix));
  to->set_below(from.below);
  to->mutable_except()->Add(from.except.begin(), from.except.end());
}

void Encoder::Put(const Retire& from, pb::Retire* to) {
  to->set_term(from.term.value);
  Put(from.workers, to->mutable_workers());
}

void Encoder::Put(const Meet& from, pb::Meet* to) {
  to->set_term(from.term.value);
  Put(from.joiner, to->mutable_joiner());
}

void Encoder::Put(const MeasuredLink& from, pb::MeasuredLink* to) {
  to->set_to(ToUtf8(from.to));
  to->set_round_trip(from.link.round_trip);
  to->set_bytes_per_second(from.link.bytes_per_second);
}

void Encoder::Put(const Links& from, pb::Links* to) {
  PutAll(from.links, kMembersMax, "links", to->mutable_links());
}

void Encoder::Put(const TaskReport& from, pb::TaskReport* to) {
  Put(from.key, to->mutable_key());
  to->set_event(static_cast<pb::TaskReport::Event>(from.event));
  to->set_loss(from.loss);
  to->set_seconds(from.seconds);
  to->set_boundary_bytes(from.boundary_bytes);
  to->set_input(from.digests.input);
  to->set_output(from.digests.output);
}

void Encoder::Put(const Progress& from, pb::Progress* to) {
  PutAll(from.reports, kReportsMax, "reports", to->mutable_reports());
}

void Encoder::Put(const ClaimSet& from, pb::ClaimSet* to) {
  to->set_stage(from.stage.value);
  if (!WithinCap(from.microbatches.size(), kMicrobatchesMax, "microbatches")) return;
  to->mutable_microbatches()->Reserve(static_cast<int>(from.microbatches.size()));
  for (const Microbatch m : from.microbatches) to->add_microbatches(m.value);
}

void Encoder::Put(const PartHolders& from, pb::PartHolders* to) {
  Put(from.first, to->mutable_first());
  Put(from.second, to->mutable_second());
}

void Encoder::Put(const PartName& from, pb::PartName* to) {
  to->set_group(from.group.value);
  to->set_part(from.part);
}

void Encoder::Put(const PartDigest& from, pb::PartDigest* to) {
  Put(from.name, to->mutable_name());
  Put(from.digest, to->mutable_digest());
  to->set_magnitude_bits(from.magnitude_bits);
}

void Encoder::Put(const Reduce& from, pb::Reduce* to) {
  to->set_term(from.term.value);
  PutReduceName(from, to);
  PutAll(from.participants, kMembersMax, "participants", to->mutable_participants());
  to->set_rows(from.rows);
  Put(from.claims, to->mutable_claims());
  to->set_level(from.level);
  PutAll(from.holders, kTensorsMax, "holders", to->mutable_holders());
  if (!WithinCap(from.regions.size(), kMembersMax, "regions")) return;
  for (const std::uint64_t region : from.regions) to->add_regions(region);
}

void Encoder::Put(const ReduceRefused& from, pb::ReduceRefused* to) {
  PutReduceName(from, to);
  Put(from.folded, to->mutable_folded());
}

void Encoder::Put(const Awaiting& from, pb::Awaiting* to) {
  PutReduceName(from, to);
  to->set_chunks(from.chunks);
  PutAll(from.from, kMembersMax, "participants", to->mutable_from());
}

void Encoder::Put(const TensorNorm& from, pb::TensorNorm* to) {
  to->set_tensor(ToUtf8(from.tensor));
  to->set_squared(from.squared);
}

void Encoder::Put(const Reduced& from, pb::Reduced* to) {
  PutReduceName(from, to);
  Put(from.digest, to->mutable_digest());
  PutAll(from.norms, kTensorsMax, "norms", to->mutable_norms());
  PutAll(from.parts, kTensorsMax, "parts", to->mutable_parts());
}

void Encoder::Put(const GroupResult& from, pb::GroupResult* to) {
  to->set_group(from.group.value);
  Put(from.k, to->mutable_k());
  Put(from.digest, to->mutable_digest());
  to->set_level(from.level);
  PutAll(from.holders, kTensorsMax, "holders", to->mutable_holders());
  if (!WithinCap(from.magnitude_bits.size(), kTensorsMax, "magnitude_bits")) return;
  for (const std::uint64_t bits : from.magnitude_bits) to->add_magnitude_bits(bits);
}

void Encoder::Put(const CommitRecord& from, pb::CommitRecord* to) {
  to->set_generation(from.generation.value);
  to->set_step(from.step.value);
  PutAll(from.groups, kStagesMax, "groups", to->mutable_groups());
  to->set_clip(from.clip);
  to->set_learning_rate(from.learning_rate);
  to->set_loss(from.loss);
  to->set_grad_norm(from.grad_norm);
  to->set_skip(from.skip);
}

void Encoder::Put(const Commit& from, pb::Commit* to) {
  to->set_term(from.term.value);
  Put(from.record, to->mutable_record());
  to->set_keep_from(from.keep_from.value);
}

void Encoder::Put(const Committed& from, pb::Committed* to) {
  to->set_generation(from.generation.value);
  to->set_step(from.step.value);
  Put(from.state, to->mutable_state());
  to->set_kept_from(from.kept_from.value);
  PutAll(from.parts, kTensorsMax, "parts", to->mutable_parts());
}

void Encoder::Put(const WriteCheckpoint& from, pb::WriteCheckpoint* to) {
  to->set_term(from.term.value);
  to->set_generation(from.generation.value);
  to->set_version(from.version.value);
  to->set_uri(ToUtf8(from.uri));
  to->set_weights(from.weights);
  PutAll(from.moments, kTensorsMax, "moments", to->mutable_moments());
}

void Encoder::Put(const CheckpointFile& from, pb::CheckpointFile* to) {
  to->set_name(ToUtf8(from.name));
  to->set_bytes(from.bytes);
  Put(from.digest, to->mutable_digest());
}

void Encoder::Put(const CheckpointWritten& from, pb::CheckpointWritten* to) {
  to->set_generation(from.generation.value);
  to->set_version(from.version.value);
  to->set_stage(from.stage.value);
  to->set_error(ToUtf8(from.error));
  PutAll(from.files, kMembersMax, "files", to->mutable_files());
  to->set_weights(from.weights);
  PutAll(from.moments, kTensorsMax, "moments", to->mutable_moments());
}

void Encoder::Put(const Failure& from, pb::Failure* to) {
  to->set_reason(ToUtf8(from.reason));
  to->set_failure_class(std::string(NameOf(from.failure_class)));
  to->set_generation(from.generation.value);
}

void Encoder::Put(const Shutdown& from, pb::Shutdown* to) {
  to->set_term(from.term.value);
  to->set_reason(ToUtf8(from.reason));
  to->set_rejoin(from.rejoin);
}

}  // namespace swarm::net

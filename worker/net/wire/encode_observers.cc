// Writes the messages between the trainer and observers or operators (observers.proto).
#include "worker/net/wire/encoder.h"

namespace swarm::net {

using namespace protocol;  // NOLINT: this file is about nothing else

void Encoder::Put(const Observe&, pb::Observe*) {}

void Encoder::Put(const StageStatus::Worker& from, pb::StageStatus::Worker* to) {
  to->set_id(ToUtf8(from.id.value));
  to->set_in_flight(from.in_flight);
  to->set_queued(from.queued);
  to->set_utilization(from.utilization);
  to->set_bytes_per_second(from.bytes_per_second);
  to->set_microbatches_per_second(from.microbatches_per_second);
  to->set_state(static_cast<pb::StageStatus::WorkerState>(from.state));
  to->set_region(ToUtf8(from.region));
}

void Encoder::Put(const StageStatus& from, pb::StageStatus* to) {
  to->set_stage(from.stage.value);
  PutAll(from.workers, kMembersMax, "workers", to->mutable_workers());
  to->set_cost(from.cost);
}

void Encoder::Put(const StageMove& from, pb::StageMove* to) {
  to->set_worker(ToUtf8(from.worker.value));
  to->set_to(from.to.value);
}

void Encoder::Put(const Eviction& from, pb::Eviction* to) {
  to->set_number(from.number);
  to->set_worker(ToUtf8(from.worker.value));
  to->set_stage(from.stage.value);
  to->set_cause(std::string(NameOf(from.cause)));
  to->set_text(ToUtf8(from.text));
  to->set_time(from.time);
}

void Encoder::Put(const JobCounts& from, pb::JobCounts* to) {
  to->set_evictions(from.evictions);
  to->set_leaves(from.leaves);
  to->set_moves(from.moves);
  to->set_joins(from.joins);
  to->set_recoveries(from.recoveries);
  to->set_rollbacks(from.rollbacks);
  to->set_replays(from.replays);
  to->set_revocations(from.revocations);
  to->set_audits(from.audits);
  to->set_audits_wrong(from.audits_wrong);
  to->set_audits_undecided(from.audits_undecided);
}

void Encoder::Put(const CheckpointStatus& from, pb::CheckpointStatus* to) {
  to->set_version(from.version.value);
  to->set_time(from.time);
  to->set_failures(from.failures);
  to->set_error(ToUtf8(from.error));
}

void Encoder::Put(const BalanceStatus& from, pb::BalanceStatus* to) {
  to->set_state_load_seconds(from.state_load_seconds);
  to->set_changes_per_worker_second(from.changes_per_worker_second);
  PutAll(from.moving, kMembersMax, "moving", to->mutable_moving());
  to->set_by_operator(from.by_operator);
  to->set_one_region(ToUtf8(from.one_region));
}

void Encoder::Put(const RegionTraffic& from, pb::RegionTraffic* to) {
  to->set_a(ToUtf8(from.a));
  to->set_b(ToUtf8(from.b));
  to->set_bytes(from.bytes);
  to->set_bytes_per_second(from.bytes_per_second);
}

void Encoder::Put(const JobStatus& from, pb::JobStatus* to) {
  to->set_state(std::string(NameOf(from.state)));
  to->set_message(ToUtf8(from.message));
  to->set_step(from.step.value);
  to->set_max_steps(from.max_steps);
  to->set_loss(from.loss);
  to->set_validation_loss(from.validation_loss);
  to->set_tokens_per_second(from.tokens_per_second);
  to->set_seconds_left(from.seconds_left);
  std::size_t workers = 0;
  for (const StageStatus& stage : from.stages) workers += stage.workers.size();
  if (!WithinCap(workers, kMembersMax, "workers of all stages")) return;
  PutAll(from.stages, kStagesMax, "stages", to->mutable_stages());
  to->set_term(from.term.value);
  to->set_generation(from.generation.value);
  to->set_waiting_for(ToUtf8(from.waiting_for));
  to->set_failure_class(std::string(NameOf(from.failure_class)));
  PutAll(from.spares, kMembersMax, "spares", to->mutable_spares());
  PutAll(from.evicted, kMembersMax, "evicted", to->mutable_evicted());
  Put(from.checkpoint, to->mutable_checkpoint());
  Put(from.counts, to->mutable_counts());
  Put(from.balance, to->mutable_balance());
  to->set_leader_term(from.leader_term);
  to->set_retired(from.retired);
  PutAll(from.traffic, kMembersMax, "pairs of regions", to->mutable_traffic());
}

void Encoder::Put(const Direct& from, pb::Direct* to) {
  to->set_leader_term(from.leader_term);
  to->set_number(from.number);
  PutAll(from.drain, kMembersMax, "drain", to->mutable_drain());
  PutAll(from.moves, kMembersMax, "moves", to->mutable_moves());
  if (from.retired.below > 0) Put(from.retired, to->mutable_retired());
}

void Encoder::Put(const DirectReply& from, pb::DirectReply* to) {
  to->set_number(from.number);
  to->set_accepted(from.accepted);
  to->set_why(ToUtf8(from.why));
  to->set_leader_term(from.leader_term);
}

}  // namespace swarm::net

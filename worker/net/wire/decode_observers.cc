// Reads the messages between the trainer and observers or operators (observers.proto).
#include "worker/net/wire/decoder.h"

namespace swarm::net {

using namespace protocol;  // NOLINT: this file is about nothing else

void Decoder::Get(const pb::Observe&, Observe*) {}

void Decoder::Get(const pb::StageStatus::Worker& from, StageStatus::Worker* to) {
  to->id = WorkerId(from.id());
  to->in_flight = from.in_flight();
  to->queued = from.queued();
  to->utilization = from.utilization();
  to->bytes_per_second = from.bytes_per_second();
  to->microbatches_per_second = from.microbatches_per_second();
  GetEnum(from.state(), pb::StageStatus::WorkerState_IsValid(from.state()), "Worker.state",
          &to->state);
  to->region = from.region();
}

void Decoder::Get(const pb::StageStatus& from, StageStatus* to) {
  to->stage = StageIndex(from.stage());
  GetAll(from.workers(), kMembersMax, "workers", &to->workers);
  to->cost = from.cost();
}

void Decoder::Get(const pb::StageMove& from, StageMove* to) {
  *to = {WorkerId(from.worker()), StageIndex(from.to())};
}

void Decoder::Get(const pb::Eviction& from, Eviction* to) {
  *to = {from.number(),
         WorkerId(from.worker()),
         StageIndex(from.stage()),
         FindEnum<EvictionCause>(from.cause()).value_or(EvictionCause::kUnknown),
         from.text(),
         from.time()};
}

void Decoder::Get(const pb::JobCounts& from, JobCounts* to) {
  to->evictions = from.evictions();
  to->leaves = from.leaves();
  to->moves = from.moves();
  to->joins = from.joins();
  to->recoveries = from.recoveries();
  to->rollbacks = from.rollbacks();
  to->replays = from.replays();
  to->revocations = from.revocations();
  to->audits = from.audits();
  to->audits_wrong = from.audits_wrong();
  to->audits_undecided = from.audits_undecided();
}

void Decoder::Get(const pb::CheckpointStatus& from, CheckpointStatus* to) {
  *to = {Version(from.version()), from.time(), from.failures(), from.error()};
}

void Decoder::Get(const pb::BalanceStatus& from, BalanceStatus* to) {
  to->state_load_seconds = from.state_load_seconds();
  to->changes_per_worker_second = from.changes_per_worker_second();
  GetAll(from.moving(), kMembersMax, "moving", &to->moving);
  to->by_operator = from.by_operator();
  to->one_region = from.one_region();
}

void Decoder::Get(const pb::RegionTraffic& from, RegionTraffic* to) {
  *to = {from.a(), from.b(), from.bytes(), from.bytes_per_second()};
}

void Decoder::Get(const pb::JobStatus& from, JobStatus* to) {
  to->state = FindEnum<JobState>(from.state()).value_or(JobState::kUnknown);
  to->message = from.message();
  to->step = Step(from.step());
  to->max_steps = from.max_steps();
  to->loss = from.loss();
  to->validation_loss = from.validation_loss();
  to->tokens_per_second = from.tokens_per_second();
  to->seconds_left = from.seconds_left();
  int workers = 0;
  for (const pb::StageStatus& stage : from.stages()) workers += stage.workers_size();
  if (!WithinCap(workers, kMembersMax, "workers of all stages")) return;
  GetAll(from.stages(), kStagesMax, "stages", &to->stages);
  to->term = Term(from.term());
  to->generation = Generation(from.generation());
  to->waiting_for = from.waiting_for();
  to->failure_class =
      FindEnum<FailureClass>(from.failure_class()).value_or(FailureClass::kInternal);
  GetAll(from.spares(), kMembersMax, "spares", &to->spares);
  GetAll(from.evicted(), kMembersMax, "evicted", &to->evicted);
  Get(from.checkpoint(), &to->checkpoint);
  Get(from.counts(), &to->counts);
  Get(from.balance(), &to->balance);
  to->leader_term = from.leader_term();
  to->retired = from.retired();
  GetAll(from.traffic(), kMembersMax, "pairs of regions", &to->traffic);
}

void Decoder::Get(const pb::Direct& from, Direct* to) {
  to->leader_term = from.leader_term();
  to->number = from.number();
  GetAll(from.drain(), kMembersMax, "drain", &to->drain);
  GetAll(from.moves(), kMembersMax, "moves", &to->moves);
  Get(from.retired(), &to->retired);
}

void Decoder::Get(const pb::DirectReply& from, DirectReply* to) {
  *to = {from.number(), from.accepted(), from.why(), from.leader_term()};
}

}  // namespace swarm::net

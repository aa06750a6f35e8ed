// Reads the messages of control.proto.
#include "worker/net/wire/decoder.h"

namespace swarm::net {

using namespace protocol;  // NOLINT: this file is about nothing else

void Decoder::Get(const pb::Member& from, Member* to) {
  to->id = WorkerId(from.id());
  to->incarnation = Incarnation(from.incarnation());
  to->stage = StageIndex(from.stage());
  to->cluster = from.cluster();
  GetAll(from.addresses(), kAddressesMax, "addresses", &to->addresses);
  to->region = from.region();
  to->pod = from.pod();
}

void Decoder::Get(const pb::HeldState& from, HeldState* to) {
  to->stage = StageIndex(from.stage());
  to->version = Version(from.version());
  Get(from.state(), &to->state);
}

void Decoder::Get(const pb::Hello& from, Hello* to) {
  to->protocol_version = from.protocol_version();
  to->id = WorkerId(from.id());
  to->incarnation = Incarnation(from.incarnation());
  to->cluster = from.cluster();
  GetAll(from.addresses(), kAddressesMax, "addresses", &to->addresses);
  to->threads = from.threads();
  to->term = Term(from.term());
  to->serving = from.serving();
  to->numeric_class = from.numeric_class();
  to->region = from.region();
  to->offers = from.offers();
  Get(from.offer(), &to->offer);
  to->pod = from.pod();
}

void Decoder::Get(const pb::Welcome& from, Welcome* to) {
  to->term = Term(from.term());
  to->generation = Generation(from.generation());
  to->job_json = from.job_json();
  to->stage = StageIndex(from.stage());
  to->stage_count = from.stage_count();
  to->version = Version(from.version());
  to->checkpoint_uri = from.checkpoint_uri();
  GetAll(from.donors(), kMembersMax, "donors", &to->donors);
  Get(from.state(), &to->state);
  Get(from.floor(), &to->floor);
  to->goes_on = from.goes_on();
  GetAll(from.peers(), kMembersMax, "peers", &to->peers);
  Get(from.manifest(), &to->manifest);
}

void Decoder::Get(const pb::Ready& from, Ready* to) {
  to->generation = Generation(from.generation());
  to->stage = StageIndex(from.stage());
  to->version = Version(from.version());
  Get(from.state(), &to->state);
}

void Decoder::Get(const pb::Adoption& from, Adoption* to) {
  to->donor = WorkerId(from.donor());
  to->heir = WorkerId(from.heir());
  to->step = Step(from.step());
}

void Decoder::Get(const pb::Roster& from, Roster* to) {
  to->term = Term(from.term());
  to->generation = Generation(from.generation());
  to->epoch = Epoch(from.epoch());
  GetAll(from.members(), kMembersMax, "members", &to->members.Own());
  GetAll(from.adoptions(), kMembersMax, "adoptions", &to->adoptions);
}

void Decoder::Get(const pb::RosterChange& from, RosterChange* to) {
  to->term = Term(from.term());
  to->generation = Generation(from.generation());
  to->epoch = Epoch(from.epoch());
  GetAll(from.came(), kMembersMax, "members", &to->came);
  GetAll(from.gone(), kMembersMax, "members", &to->gone);
  GetAll(from.adoptions(), kMembersMax, "adoptions", &to->adoptions);
}

void Decoder::Get(const pb::Heartbeat::Exchanged& from, Heartbeat::Exchanged* to) {
  to->region = from.region();
  to->bytes = from.bytes();
}

void Decoder::Get(const pb::Heartbeat& from, Heartbeat* to) {
  to->term = Term(from.term());
  to->compute_progress = from.compute_progress();
  to->queued_tasks = from.queued_tasks();
  to->bytes_sent = from.bytes_sent();
  to->busy_seconds = from.busy_seconds();
  to->copied_bytes = from.copied_bytes();
  to->next_seconds = from.next_seconds();
  to->sum_seconds = from.sum_seconds();
  GetAll(from.exchanged(), kMembersMax, "regions", &to->exchanged);
}

void Decoder::Get(const pb::PeerBeat&, PeerBeat*) {}

void Decoder::Get(const pb::Unheard& from, Unheard* to) {
  GetAll(from.peers(), kMembersMax, "peers", &to->peers);
}

void Decoder::Get(const pb::Detour& from, Detour* to) {
  to->peer = WorkerId(from.peer());
  to->via = WorkerId(from.via());
}

void Decoder::Get(const pb::Detours& from, Detours* to) {
  to->term = Term(from.term());
  GetAll(from.detours(), kMembersMax, "detours", &to->detours);
}

void Decoder::Get(const pb::Retired& from, Retired* to) {
  if (!WithinCap(from.except_size(), kMembersMax, "except")) return;
  const auto& except = from.except();
  if (std::ranges::adjacent_find(except, std::ranges::greater_equal()) != except.end() ||
      (!except.empty() && *except.rbegin() >= from.below())) {
    return Refuse("the numbers that are not retired are not ascending below " +
                  std::to_string(from.below()));
  }
  *to = {from.prefix(), from.below(), {except.begin(), except.end()}};
}

void Decoder::Get(const pb::Retire& from, Retire* to) {
  to->term = Term(from.term());
  Get(from.workers(), &to->workers);
}

void Decoder::Get(const pb::Meet& from, Meet* to) {
  to->term = Term(from.term());
  Get(from.joiner(), &to->joiner);
}

void Decoder::Get(const pb::MeasuredLink& from, MeasuredLink* to) {
  to->to = from.to();
  to->link = {from.round_trip(), from.bytes_per_second()};
}

void Decoder::Get(const pb::Links& from, Links* to) {
  GetAll(from.links(), kMembersMax, "links", &to->links);
}

void Decoder::Get(const pb::TaskReport& from, TaskReport* to) {
  Get(from.key(), &to->key);
  GetEnum(from.event(), pb::TaskReport::Event_IsValid(from.event()), "TaskReport.event",
          &to->event);
  to->loss = from.loss();
  to->seconds = from.seconds();
  to->boundary_bytes = from.boundary_bytes();
  to->digests = {from.input(), from.output()};
}

void Decoder::Get(const pb::Progress& from, Progress* to) {
  GetAll(from.reports(), kReportsMax, "reports", &to->reports);
}

void Decoder::Get(const pb::ClaimSet& from, ClaimSet* to) {
  to->stage = StageIndex(from.stage());
  if (!WithinCap(from.microbatches_size(), kMicrobatchesMax, "microbatches")) return;
  to->microbatches.reserve(static_cast<std::size_t>(from.microbatches_size()));
  for (const auto m : from.microbatches()) to->microbatches.emplace_back(m);
}

void Decoder::Get(const pb::PartHolders& from, PartHolders* to) {
  Get(from.first(), &to->first);
  Get(from.second(), &to->second);
}

void Decoder::Get(const pb::PartName& from, PartName* to) {
  *to = {GroupIndex(from.group()), from.part()};
}

void Decoder::Get(const pb::PartDigest& from, PartDigest* to) {
  Get(from.name(), &to->name);
  Get(from.digest(), &to->digest);
  to->magnitude_bits = from.magnitude_bits();
}

void Decoder::Get(const pb::Reduce& from, Reduce* to) {
  to->term = Term(from.term());
  GetReduceName(from, to);
  GetAll(from.participants(), kMembersMax, "participants", &to->participants);
  to->rows = from.rows();
  Get(from.claims(), &to->claims);
  to->level = from.level();
  GetAll(from.holders(), kTensorsMax, "holders", &to->holders);
  if (!WithinCap(from.regions_size(), kMembersMax, "regions")) return;
  to->regions.assign(from.regions().begin(), from.regions().end());
}

void Decoder::Get(const pb::ReduceRefused& from, ReduceRefused* to) {
  GetReduceName(from, to);
  Get(from.folded(), &to->folded);
}

void Decoder::Get(const pb::Awaiting& from, Awaiting* to) {
  GetReduceName(from, to);
  to->chunks = from.chunks();
  GetAll(from.from(), kMembersMax, "participants", &to->from);
}

void Decoder::Get(const pb::TensorNorm& from, TensorNorm* to) {
  *to = {from.tensor(), from.squared()};
}

void Decoder::Get(const pb::Reduced& from, Reduced* to) {
  GetReduceName(from, to);
  Get(from.digest(), &to->digest);
  GetAll(from.norms(), kTensorsMax, "norms", &to->norms);
  GetAll(from.parts(), kTensorsMax, "parts", &to->parts);
}

void Decoder::Get(const pb::GroupResult& from, GroupResult* to) {
  to->group = GroupIndex(from.group());
  Get(from.k(), &to->k);
  Get(from.digest(), &to->digest);
  to->level = from.level();
  GetAll(from.holders(), kTensorsMax, "holders", &to->holders);
  if (!WithinCap(from.magnitude_bits_size(), kTensorsMax, "magnitude_bits")) return;
  to->magnitude_bits.assign(from.magnitude_bits().begin(), from.magnitude_bits().end());
}

void Decoder::Get(const pb::CommitRecord& from, CommitRecord* to) {
  to->generation = Generation(from.generation());
  to->step = Step(from.step());
  GetAll(from.groups(), kStagesMax, "groups", &to->groups);
  to->clip = from.clip();
  to->learning_rate = from.learning_rate();
  to->loss = from.loss();
  to->grad_norm = from.grad_norm();
  to->skip = from.skip();
}

void Decoder::Get(const pb::Commit& from, Commit* to) {
  to->term = Term(from.term());
  Get(from.record(), &to->record);
  to->keep_from = Step(from.keep_from());
}

void Decoder::Get(const pb::Committed& from, Committed* to) {
  to->generation = Generation(from.generation());
  to->step = Step(from.step());
  Get(from.state(), &to->state);
  to->kept_from = Step(from.kept_from());
  GetAll(from.parts(), kTensorsMax, "parts", &to->parts);
}

void Decoder::Get(const pb::WriteCheckpoint& from, WriteCheckpoint* to) {
  to->term = Term(from.term());
  to->generation = Generation(from.generation());
  to->version = Version(from.version());
  to->uri = from.uri();
  to->weights = from.weights();
  GetAll(from.moments(), kTensorsMax, "moments", &to->moments);
}

void Decoder::Get(const pb::CheckpointFile& from, CheckpointFile* to) {
  to->name = from.name();
  to->bytes = from.bytes();
  Get(from.digest(), &to->digest);
}

void Decoder::Get(const pb::CheckpointWritten& from, CheckpointWritten* to) {
  to->generation = Generation(from.generation());
  to->version = Version(from.version());
  to->stage = StageIndex(from.stage());
  to->error = from.error();
  GetAll(from.files(), kMembersMax, "files", &to->files);
  to->weights = from.weights();
  GetAll(from.moments(), kTensorsMax, "moments", &to->moments);
}

void Decoder::Get(const pb::Failure& from, Failure* to) {
  *to = {from.reason(),
         FindEnum<FailureClass>(from.failure_class()).value_or(FailureClass::kInternal),
         Generation(from.generation())};
}

void Decoder::Get(const pb::Shutdown& from, Shutdown* to) {
  to->term = Term(from.term());
  to->reason = from.reason();
  to->rejoin = from.rejoin();
}

}  // namespace swarm::net

#include "swarmjob/v1/frame.pb.h"
#include "worker/net/wire.h"

namespace swarm::net {
namespace {

namespace pb = swarmjob::v1;
using namespace swarm::protocol;  // NOLINT: this file is about nothing else

/// Reads fields and remembers the first thing that was wrong with them.
class Decoder {
 public:
  const Status& status() const { return status_; }

  template <typename From, typename To>
  void GetAll(const From& from, int max, const char* what, std::vector<To>* to) {
    if (!WithinCap(from.size(), max, what)) return;
    to->reserve(static_cast<std::size_t>(from.size()));
    for (const auto& element : from) Get(element, &to->emplace_back());
  }

  template <typename Enum>
  void GetEnum(int from, bool valid, const char* what, Enum* to) {
    if (!valid) {
      Refuse(std::string(what) + " has the unknown value " + std::to_string(from));
      return;
    }
    *to = static_cast<Enum>(from);
  }

  void Get(const pb::Attempt& from, Attempt* to) { *to = {Term(from.term()), from.n()}; }

  void Get(const pb::TaskKey& from, TaskKey* to) {
    *to = {Generation(from.generation()),
           Step(from.step()),
           Microbatch(from.microbatch()),
           StageIndex(from.stage()),
           {}};
    Get(from.attempt(), &to->attempt);
  }

  void Get(const pb::Digest& from, Digest* to) { *to = {from.high(), from.low()}; }

  void Get(const pb::Address& from, Address* to) {
    *to = {from.scope(), from.dial(), from.tls_server_name()};
  }

  void Get(const pb::Member& from, Member* to) {
    to->id = WorkerId(from.id());
    to->incarnation = Incarnation(from.incarnation());
    to->stage = StageIndex(from.stage());
    to->cluster = from.cluster();
    GetAll(from.addresses(), kAddressesMax, "addresses", &to->addresses);
  }

  void Get(const pb::Hello& from, Hello* to) {
    to->protocol_version = from.protocol_version();
    to->id = WorkerId(from.id());
    to->incarnation = Incarnation(from.incarnation());
    to->cluster = from.cluster();
    GetAll(from.addresses(), kAddressesMax, "addresses", &to->addresses);
    to->threads = from.threads();
  }

  void Get(const pb::Welcome& from, Welcome* to) {
    to->term = Term(from.term());
    to->generation = Generation(from.generation());
    to->job_json = from.job_json();
    to->stage = StageIndex(from.stage());
    to->stage_count = from.stage_count();
    to->version = Version(from.version());
    to->checkpoint_uri = from.checkpoint_uri();
  }

  void Get(const pb::Ready& from, Ready* to) {
    to->generation = Generation(from.generation());
    to->stage = StageIndex(from.stage());
    to->version = Version(from.version());
    Get(from.state(), &to->state);
  }

  void Get(const pb::Roster& from, Roster* to) {
    to->term = Term(from.term());
    to->epoch = Epoch(from.epoch());
    GetAll(from.members(), kMembersMax, "members", &to->members);
  }

  void Get(const pb::Heartbeat& from, Heartbeat* to) {
    to->term = Term(from.term());
    to->compute_progress = from.compute_progress();
    to->queued_tasks = from.queued_tasks();
    to->bytes_sent = from.bytes_sent();
    to->busy_seconds = from.busy_seconds();
  }

  void Get(const pb::Hop& from, Hop* to) {
    to->worker = WorkerId(from.worker());
    Get(from.attempt(), &to->attempt);
    to->fold = from.fold();
  }

  void Get(const pb::Forward& from, Forward* to) {
    Get(from.key(), &to->key);
    to->version = Version(from.version());
    GetEnum(from.kind(), pb::TaskKind_IsValid(from.kind()), "Forward.kind", &to->kind);
    GetAll(from.hops(), kStagesMax, "hops", &to->hops);
    to->tokens = Bytes::Copy(from.tokens());
    to->sequences = from.sequences();
    to->tokens_per_sequence = from.tokens_per_sequence();
  }

  void Get(const pb::Backward& from, Backward* to) {
    Get(from.key(), &to->key);
    to->version = Version(from.version());
  }

  void Get(const pb::TaskReport& from, TaskReport* to) {
    Get(from.key(), &to->key);
    GetEnum(from.event(), pb::TaskReport::Event_IsValid(from.event()), "TaskReport.event",
            &to->event);
    to->loss = from.loss();
    to->seconds = from.seconds();
    to->boundary_bytes = from.boundary_bytes();
  }

  void Get(const pb::Progress& from, Progress* to) {
    GetAll(from.reports(), kReportsMax, "reports", &to->reports);
  }

  void Get(const pb::ClaimSet& from, ClaimSet* to) {
    to->stage = StageIndex(from.stage());
    if (!WithinCap(from.microbatches_size(), kMicrobatchesMax, "microbatches")) return;
    to->microbatches.reserve(static_cast<std::size_t>(from.microbatches_size()));
    for (const auto m : from.microbatches()) to->microbatches.emplace_back(m);
  }

  void Get(const pb::Participant& from, Participant* to) {
    to->worker = WorkerId(from.worker());
    Get(from.claims(), &to->claims);
  }

  /// The four fields that name a reduce.
  template <typename From, typename To>
  void GetReduceName(const From& from, To* to) {
    to->generation = Generation(from.generation());
    to->step = Step(from.step());
    to->group = GroupIndex(from.group());
    Get(from.k(), &to->k);
  }

  void Get(const pb::Reduce& from, Reduce* to) {
    to->term = Term(from.term());
    GetReduceName(from, to);
    GetAll(from.participants(), kMembersMax, "participants", &to->participants);
  }

  void Get(const pb::ReduceRefused& from, ReduceRefused* to) {
    GetReduceName(from, to);
    Get(from.folded(), &to->folded);
  }

  void Get(const pb::ReduceChunk& from, ReduceChunk* to) {
    GetReduceName(from, to);
    GetEnum(from.phase(), pb::ReduceChunk::Phase_IsValid(from.phase()), "ReduceChunk.phase",
            &to->phase);
    to->offset = from.offset();
  }

  void Get(const pb::TensorNorm& from, TensorNorm* to) { *to = {from.tensor(), from.squared()}; }

  void Get(const pb::Reduced& from, Reduced* to) {
    GetReduceName(from, to);
    Get(from.digest(), &to->digest);
    GetAll(from.norms(), kTensorsMax, "norms", &to->norms);
  }

  void Get(const pb::GroupResult& from, GroupResult* to) {
    to->group = GroupIndex(from.group());
    Get(from.k(), &to->k);
    Get(from.digest(), &to->digest);
  }

  void Get(const pb::CommitRecord& from, CommitRecord* to) {
    to->generation = Generation(from.generation());
    to->step = Step(from.step());
    GetAll(from.groups(), kStagesMax, "groups", &to->groups);
    to->clip = from.clip();
    to->learning_rate = from.learning_rate();
    to->loss = from.loss();
    to->grad_norm = from.grad_norm();
    to->skip = from.skip();
  }

  void Get(const pb::Commit& from, Commit* to) {
    to->term = Term(from.term());
    Get(from.record(), &to->record);
  }

  void Get(const pb::Committed& from, Committed* to) {
    to->generation = Generation(from.generation());
    to->step = Step(from.step());
    Get(from.state(), &to->state);
  }

  void Get(const pb::WriteCheckpoint& from, WriteCheckpoint* to) {
    to->term = Term(from.term());
    to->generation = Generation(from.generation());
    to->version = Version(from.version());
    to->uri = from.uri();
  }

  void Get(const pb::CheckpointFile& from, CheckpointFile* to) {
    to->name = from.name();
    to->bytes = from.bytes();
    Get(from.digest(), &to->digest);
  }

  void Get(const pb::CheckpointWritten& from, CheckpointWritten* to) {
    to->generation = Generation(from.generation());
    to->version = Version(from.version());
    to->stage = StageIndex(from.stage());
    to->error = from.error();
    GetAll(from.files(), kMembersMax, "files", &to->files);
  }

  void Get(const pb::Failure& from, Failure* to) { to->reason = from.reason(); }

  void Get(const pb::Shutdown& from, Shutdown* to) {
    to->term = Term(from.term());
    to->reason = from.reason();
  }

  void Get(const pb::Observe&, Observe*) {}

  void Get(const pb::StageStatus::Worker& from, StageStatus::Worker* to) {
    to->id = WorkerId(from.id());
    to->in_flight = from.in_flight();
    to->queued = from.queued();
    to->utilization = from.utilization();
    to->bytes_per_second = from.bytes_per_second();
    to->microbatches_per_second = from.microbatches_per_second();
  }

  void Get(const pb::StageStatus& from, StageStatus* to) {
    to->stage = StageIndex(from.stage());
    GetAll(from.workers(), kMembersMax, "workers", &to->workers);
  }

  void Get(const pb::JobStatus& from, JobStatus* to) {
    to->state = from.state();
    to->message = from.message();
    to->step = Step(from.step());
    to->max_steps = from.max_steps();
    to->loss = from.loss();
    to->validation_loss = from.validation_loss();
    to->tokens_per_second = from.tokens_per_second();
    to->seconds_left = from.seconds_left();
    GetAll(from.stages(), kStagesMax, "stages", &to->stages);
  }

 private:
  void Refuse(std::string why) {
    if (status_.ok()) status_ = DataLoss(std::move(why));
  }

  bool WithinCap(int size, int max, const char* what) {
    if (size <= max) return true;
    Refuse("a list of " + std::to_string(size) + " " + what + "; at most " + std::to_string(max));
    return false;
  }

  Status status_;
};

template <typename To, typename From>
Result<Message> Decode(const From& from) {
  Decoder decoder;
  To to;
  decoder.Get(from, &to);
  if (!decoder.status().ok()) return decoder.status();
  return Message(std::move(to));
}

Result<Message> Decode(const pb::Header& header) {
  switch (header.message_case()) {
    case pb::Header::kHello:
      return Decode<Hello>(header.hello());
    case pb::Header::kWelcome:
      return Decode<Welcome>(header.welcome());
    case pb::Header::kReady:
      return Decode<Ready>(header.ready());
    case pb::Header::kRoster:
      return Decode<Roster>(header.roster());
    case pb::Header::kHeartbeat:
      return Decode<Heartbeat>(header.heartbeat());
    case pb::Header::kForward:
      return Decode<Forward>(header.forward());
    case pb::Header::kBackward:
      return Decode<Backward>(header.backward());
    case pb::Header::kProgress:
      return Decode<Progress>(header.progress());
    case pb::Header::kReduce:
      return Decode<Reduce>(header.reduce());
    case pb::Header::kReduceRefused:
      return Decode<ReduceRefused>(header.reduce_refused());
    case pb::Header::kReduceChunk:
      return Decode<ReduceChunk>(header.reduce_chunk());
    case pb::Header::kReduced:
      return Decode<Reduced>(header.reduced());
    case pb::Header::kCommit:
      return Decode<Commit>(header.commit());
    case pb::Header::kCommitted:
      return Decode<Committed>(header.committed());
    case pb::Header::kWriteCheckpoint:
      return Decode<WriteCheckpoint>(header.write_checkpoint());
    case pb::Header::kCheckpointWritten:
      return Decode<CheckpointWritten>(header.checkpoint_written());
    case pb::Header::kFailure:
      return Decode<Failure>(header.failure());
    case pb::Header::kShutdown:
      return Decode<Shutdown>(header.shutdown());
    case pb::Header::kObserve:
      return Decode<Observe>(header.observe());
    case pb::Header::kJobStatus:
      return Decode<JobStatus>(header.job_status());
    case pb::Header::MESSAGE_NOT_SET:
      break;
  }
  return DataLoss("the header holds none of the messages this program knows");
}

}  // namespace

Result<Message> DecodeHeader(std::span<const std::byte> bytes) {
  if (bytes.size() > kHeaderBytesMax) {
    return DataLoss("a header of " + std::to_string(bytes.size()) + " bytes; at most " +
                    std::to_string(kHeaderBytesMax));
  }
  pb::Header header;
  if (!header.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return DataLoss("the header is not a swarmjob.v1.Header");
  }
  return Decode(header);
}

}  // namespace swarm::net

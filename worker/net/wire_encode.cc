#include <array>
#include <string_view>

#include "swarmjob/v1/frame.pb.h"
#include "worker/net/utf8.h"
#include "worker/net/wire.h"

namespace swarm::net {
namespace {

namespace pb = swarmjob::v1;
using namespace swarm::protocol;  // NOLINT: this file is about nothing else

/// Writes fields and remembers the first list that was too long.
class Encoder {
 public:
  const Status& status() const { return status_; }

  void Put(const Attempt& from, pb::Attempt* to) {
    to->set_term(from.term.value);
    to->set_n(from.n);
  }

  void Put(const TaskKey& from, pb::TaskKey* to) {
    to->set_generation(from.generation.value);
    to->set_step(from.step.value);
    to->set_microbatch(from.microbatch.value);
    to->set_stage(from.stage.value);
    Put(from.attempt, to->mutable_attempt());
  }

  void Put(const Digest& from, pb::Digest* to) {
    to->set_high(from.high);
    to->set_low(from.low);
  }

  void Put(const Address& from, pb::Address* to) {
    to->set_scope(ToUtf8(from.scope));
    to->set_dial(ToUtf8(from.dial));
    to->set_tls_server_name(ToUtf8(from.tls_server_name));
  }

  /// Puts each element of a list.
  template <typename From, typename To>
  void PutAll(const std::vector<From>& from, int max, const char* what, To* to) {
    if (!WithinCap(from.size(), max, what)) return;
    to->Reserve(static_cast<int>(from.size()));
    for (const From& element : from) Put(element, to->Add());
  }

  void Put(const Member& from, pb::Member* to) {
    to->set_id(ToUtf8(from.id.value));
    to->set_incarnation(from.incarnation.value);
    to->set_stage(from.stage.value);
    to->set_cluster(ToUtf8(from.cluster));
    PutAll(from.addresses, kAddressesMax, "addresses", to->mutable_addresses());
  }

  void Put(const Hello& from, pb::Header* header) {
    auto* to = header->mutable_hello();
    to->set_protocol_version(from.protocol_version);
    to->set_id(ToUtf8(from.id.value));
    to->set_incarnation(from.incarnation.value);
    to->set_cluster(ToUtf8(from.cluster));
    PutAll(from.addresses, kAddressesMax, "addresses", to->mutable_addresses());
    to->set_threads(from.threads);
  }

  void Put(const Welcome& from, pb::Header* header) {
    auto* to = header->mutable_welcome();
    to->set_term(from.term.value);
    to->set_generation(from.generation.value);
    to->set_job_json(ToUtf8(from.job_json));
    to->set_stage(from.stage.value);
    to->set_stage_count(from.stage_count);
    to->set_version(from.version.value);
    to->set_checkpoint_uri(ToUtf8(from.checkpoint_uri));
  }

  void Put(const Ready& from, pb::Header* header) {
    auto* to = header->mutable_ready();
    to->set_generation(from.generation.value);
    to->set_stage(from.stage.value);
    to->set_version(from.version.value);
    Put(from.state, to->mutable_state());
  }

  void Put(const Roster& from, pb::Header* header) {
    auto* to = header->mutable_roster();
    to->set_term(from.term.value);
    to->set_epoch(from.epoch.value);
    PutAll(from.members, kMembersMax, "members", to->mutable_members());
  }

  void Put(const Heartbeat& from, pb::Header* header) {
    auto* to = header->mutable_heartbeat();
    to->set_term(from.term.value);
    to->set_compute_progress(from.compute_progress);
    to->set_queued_tasks(from.queued_tasks);
    to->set_bytes_sent(from.bytes_sent);
    to->set_busy_seconds(from.busy_seconds);
  }

  void Put(const Hop& from, pb::Hop* to) {
    to->set_worker(ToUtf8(from.worker.value));
    Put(from.attempt, to->mutable_attempt());
    to->set_fold(from.fold);
  }

  void Put(const Forward& from, pb::Header* header) {
    auto* to = header->mutable_forward();
    Put(from.key, to->mutable_key());
    to->set_version(from.version.value);
    to->set_kind(static_cast<pb::TaskKind>(from.kind));
    PutAll(from.hops, kStagesMax, "hops", to->mutable_hops());
    to->set_tokens(from.tokens.data(), from.tokens.size());
    to->set_sequences(from.sequences);
    to->set_tokens_per_sequence(from.tokens_per_sequence);
  }

  void Put(const Backward& from, pb::Header* header) {
    auto* to = header->mutable_backward();
    Put(from.key, to->mutable_key());
    to->set_version(from.version.value);
  }

  void Put(const TaskReport& from, pb::TaskReport* to) {
    Put(from.key, to->mutable_key());
    to->set_event(static_cast<pb::TaskReport::Event>(from.event));
    to->set_loss(from.loss);
    to->set_seconds(from.seconds);
    to->set_boundary_bytes(from.boundary_bytes);
  }

  void Put(const Progress& from, pb::Header* header) {
    PutAll(from.reports, kReportsMax, "reports", header->mutable_progress()->mutable_reports());
  }

  void Put(const ClaimSet& from, pb::ClaimSet* to) {
    to->set_stage(from.stage.value);
    if (!WithinCap(from.microbatches.size(), kMicrobatchesMax, "microbatches")) return;
    to->mutable_microbatches()->Reserve(static_cast<int>(from.microbatches.size()));
    for (const Microbatch m : from.microbatches) to->add_microbatches(m.value);
  }

  void Put(const Participant& from, pb::Participant* to) {
    to->set_worker(ToUtf8(from.worker.value));
    Put(from.claims, to->mutable_claims());
  }

  /// The four fields that name a reduce.
  template <typename From, typename To>
  void PutReduceName(const From& from, To* to) {
    to->set_generation(from.generation.value);
    to->set_step(from.step.value);
    to->set_group(from.group.value);
    Put(from.k, to->mutable_k());
  }

  void Put(const Reduce& from, pb::Header* header) {
    auto* to = header->mutable_reduce();
    to->set_term(from.term.value);
    PutReduceName(from, to);
    PutAll(from.participants, kMembersMax, "participants", to->mutable_participants());
  }

  void Put(const ReduceRefused& from, pb::Header* header) {
    auto* to = header->mutable_reduce_refused();
    PutReduceName(from, to);
    Put(from.folded, to->mutable_folded());
  }

  void Put(const ReduceChunk& from, pb::Header* header) {
    auto* to = header->mutable_reduce_chunk();
    PutReduceName(from, to);
    to->set_phase(static_cast<pb::ReduceChunk::Phase>(from.phase));
    to->set_offset(from.offset);
  }

  void Put(const TensorNorm& from, pb::TensorNorm* to) {
    to->set_tensor(ToUtf8(from.tensor));
    to->set_squared(from.squared);
  }

  void Put(const Reduced& from, pb::Header* header) {
    auto* to = header->mutable_reduced();
    PutReduceName(from, to);
    Put(from.digest, to->mutable_digest());
    PutAll(from.norms, kTensorsMax, "norms", to->mutable_norms());
  }

  void Put(const GroupResult& from, pb::GroupResult* to) {
    to->set_group(from.group.value);
    Put(from.k, to->mutable_k());
    Put(from.digest, to->mutable_digest());
  }

  void Put(const CommitRecord& from, pb::CommitRecord* to) {
    to->set_generation(from.generation.value);
    to->set_step(from.step.value);
    PutAll(from.groups, kStagesMax, "groups", to->mutable_groups());
    to->set_clip(from.clip);
    to->set_learning_rate(from.learning_rate);
    to->set_loss(from.loss);
    to->set_grad_norm(from.grad_norm);
    to->set_skip(from.skip);
  }

  void Put(const Commit& from, pb::Header* header) {
    auto* to = header->mutable_commit();
    to->set_term(from.term.value);
    Put(from.record, to->mutable_record());
  }

  void Put(const Committed& from, pb::Header* header) {
    auto* to = header->mutable_committed();
    to->set_generation(from.generation.value);
    to->set_step(from.step.value);
    Put(from.state, to->mutable_state());
  }

  void Put(const WriteCheckpoint& from, pb::Header* header) {
    auto* to = header->mutable_write_checkpoint();
    to->set_term(from.term.value);
    to->set_generation(from.generation.value);
    to->set_version(from.version.value);
    to->set_uri(ToUtf8(from.uri));
  }

  void Put(const CheckpointFile& from, pb::CheckpointFile* to) {
    to->set_name(ToUtf8(from.name));
    to->set_bytes(from.bytes);
    Put(from.digest, to->mutable_digest());
  }

  void Put(const CheckpointWritten& from, pb::Header* header) {
    auto* to = header->mutable_checkpoint_written();
    to->set_generation(from.generation.value);
    to->set_version(from.version.value);
    to->set_stage(from.stage.value);
    to->set_error(ToUtf8(from.error));
    PutAll(from.files, kMembersMax, "files", to->mutable_files());
  }

  void Put(const Failure& from, pb::Header* header) {
    header->mutable_failure()->set_reason(ToUtf8(from.reason));
  }

  void Put(const Shutdown& from, pb::Header* header) {
    auto* to = header->mutable_shutdown();
    to->set_term(from.term.value);
    to->set_reason(ToUtf8(from.reason));
  }

  void Put(const Observe&, pb::Header* header) { header->mutable_observe(); }

  void Put(const StageStatus::Worker& from, pb::StageStatus::Worker* to) {
    to->set_id(ToUtf8(from.id.value));
    to->set_in_flight(from.in_flight);
    to->set_queued(from.queued);
    to->set_utilization(from.utilization);
    to->set_bytes_per_second(from.bytes_per_second);
    to->set_microbatches_per_second(from.microbatches_per_second);
  }

  void Put(const StageStatus& from, pb::StageStatus* to) {
    to->set_stage(from.stage.value);
    PutAll(from.workers, kMembersMax, "workers", to->mutable_workers());
  }

  void Put(const JobStatus& from, pb::Header* header) {
    auto* to = header->mutable_job_status();
    to->set_state(ToUtf8(from.state));
    to->set_message(ToUtf8(from.message));
    to->set_step(from.step.value);
    to->set_max_steps(from.max_steps);
    to->set_loss(from.loss);
    to->set_validation_loss(from.validation_loss);
    to->set_tokens_per_second(from.tokens_per_second);
    to->set_seconds_left(from.seconds_left);
    PutAll(from.stages, kStagesMax, "stages", to->mutable_stages());
  }

 private:
  bool WithinCap(std::size_t size, int max, const char* what) {
    if (size <= static_cast<std::size_t>(max)) return true;
    if (status_.ok()) {
      status_ = InvalidArgument("a list of " + std::to_string(size) + " " + what + "; at most " +
                                std::to_string(max));
    }
    return false;
  }

  Status status_;
};

}  // namespace

Result<std::string> EncodeHeader(const Message& message) {
  pb::Header header;
  Encoder encoder;
  std::visit([&](const auto& content) { encoder.Put(content, &header); }, message);
  if (!encoder.status().ok()) return encoder.status().WithContext(MessageName(message));
  const std::size_t size = header.ByteSizeLong();
  if (size > kHeaderBytesMax) {
    return InvalidArgument(std::string(MessageName(message)) + " has a header of " +
                           std::to_string(size) + " bytes; at most " +
                           std::to_string(kHeaderBytesMax) + " can be sent");
  }
  return header.SerializeAsString();
}

std::string_view MessageName(const Message& message) {
  static constexpr std::array<std::string_view, std::variant_size_v<Message>> kNames = {
      "Hello",     "Welcome",       "Ready",           "Roster",
      "Heartbeat", "Forward",       "Backward",        "Progress",
      "Reduce",    "ReduceRefused", "ReduceChunk",     "Reduced",
      "Commit",    "Committed",     "WriteCheckpoint", "CheckpointWritten",
      "Failure",   "Shutdown",      "Observe",         "JobStatus"};
  return kNames[message.index()];
}

}  // namespace swarm::net

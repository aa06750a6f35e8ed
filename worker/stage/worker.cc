#include "worker/stage/worker.h"

#include <cstring>

#include "api/parse.h"
#include "base/log.h"
#include "worker/stage/load.h"
#include "worker/stage/norms.h"
#include "worker/state/pieces.h"

namespace swarm::stage {

using net::Envelope;
using net::Lane;
using protocol::TaskKey;
using protocol::WorkerId;

namespace {

constexpr Duration kBeatInterval = std::chrono::milliseconds(250);
constexpr Duration kFlushInterval = std::chrono::milliseconds(1);
constexpr std::size_t kReportsMax = 64;

std::vector<std::int32_t> TokensOf(const protocol::Forward& frame) {
  std::vector<std::int32_t> ids(frame.tokens.size() / sizeof(std::int32_t));
  if (!ids.empty()) std::memcpy(ids.data(), frame.tokens.data(), frame.tokens.size());
  return ids;
}

}  // namespace

Result<std::unique_ptr<Worker>> Worker::Start(WorkerOptions options,
                                              const MakeEndpoint& make_endpoint) {
  std::unique_ptr<Worker> worker(new Worker(std::move(options)));
  ASSIGN_OR_RETURN(auto endpoint, make_endpoint(worker.get()));
  std::promise<void> installed;
  worker->control_.Post([&] {
    worker->endpoint_ = std::move(endpoint);
    worker->outbox_ = std::make_unique<net::Outbox>(worker->endpoint_.get());
    worker->chunk_outbox_ = std::make_unique<net::Outbox>(worker->endpoint_.get());
    worker->trainer_lost_ = Clock::now();
    worker->endpoint_->Connect(worker->options_.trainer, worker->options_.trainer_addresses);
    worker->Beat();
    installed.set_value();
  });
  installed.get_future().wait();
  return worker;
}

Worker::Worker(WorkerOptions options) : options_(std::move(options)) {}

Worker::~Worker() {
  // A loop that has stopped drops what is posted to it, so the order among these does not matter;
  // the endpoint goes when nobody sends any more.
  control_.Stop();
  compute_.Stop();
  reduce_.Stop();
  storage_.Stop();
  endpoint_.reset();
}

Status Worker::Wait() { return ended_.get_future().get(); }

void Worker::Stop(const Status& why) {
  if (!has_ended_.exchange(true)) ended_.set_value(why);
}

void Worker::OnMessage(const WorkerId& from, Lane lane, Envelope envelope) {
  if (auto* chunk = std::get_if<protocol::ReduceChunk>(&envelope.message)) {
    reduce_.Post([this, from, chunk = *chunk, payload = std::move(envelope.payload)]() mutable {
      OnChunk(from, chunk, std::move(payload));
    });
    return;
  }
  control_.Post([this, from, envelope = std::move(envelope)]() mutable {
    Handle(from, std::move(envelope));
  });
}

void Worker::OnPeerUp(const WorkerId& peer) {
  control_.Post([this, peer] {
    if (peer == options_.trainer) {
      trainer_up_ = true;
      SayHello();
    }
    outbox_->Flush();
  });
  reduce_.Post([this] { FlushChunks(); });
}

void Worker::OnPeerDown(const WorkerId& peer, const Status& why) {
  control_.Post([this, peer, why] {
    LOG_INFO("{} is gone: {}", peer.value, why.message());
    if (peer != options_.trainer) return;
    trainer_up_ = false;
    trainer_lost_ = Clock::now();
  });
}

void Worker::SayHello() {
  Send(options_.trainer, Lane::kControl,
       protocol::Hello{.id = options_.id,
                       .incarnation = options_.incarnation,
                       .cluster = options_.cluster,
                       .addresses = endpoint_->addresses(),
                       .threads = static_cast<std::uint64_t>(options_.threads)},
       {});
}

void Worker::Beat() {
  const Timepoint now = Clock::now();
  if (trainer_up_) {
    const net::Traffic traffic = endpoint_->traffic();
    Send(options_.trainer, Lane::kControl,
         protocol::Heartbeat{welcome_.term, compute_.finished(), counters_.queued_tasks,
                             traffic.bytes_sent, compute_.busy_seconds()},
         {});
  } else if (now - trainer_lost_ > options_.trainer_patience) {
    GiveUp("no trainer for " + std::to_string(ToSeconds(options_.trainer_patience)) + " s");
    return;
  }
  control_.PostAt(now + kBeatInterval, [this] { Beat(); });
}

void Worker::GiveUp(const std::string& reason) {
  LOG_ERROR("{}", reason);
  if (trainer_up_) Send(options_.trainer, Lane::kControl, protocol::Failure{reason}, {});
  Stop(Status(StatusCode::kFailedPrecondition, reason));
}

void Worker::Handle(const WorkerId& from, Envelope envelope) {
  using namespace protocol;  // the alternatives of Message
  const bool from_trainer = from == options_.trainer;
  std::visit(
      [&](auto& message) {
        using M = std::decay_t<decltype(message)>;
        if constexpr (std::is_same_v<M, Forward>) {
          On(from, message, std::move(envelope.payload));
        } else if constexpr (std::is_same_v<M, Backward>) {
          On(from, message, std::move(envelope.payload));
        } else if (!from_trainer) {
          counters_.refused.Add("control from a peer");  // control comes from the trainer alone
        } else if constexpr (std::is_same_v<M, Welcome>) {
          On(from, message);
        } else if constexpr (std::is_same_v<M, Roster>) {
          On(from, message);
        } else if constexpr (std::is_same_v<M, Reduce>) {
          if (replica_) Carry(replica_->OnReduce(message));
        } else if constexpr (std::is_same_v<M, Commit>) {
          if (replica_) Carry(replica_->OnCommit(message));
        } else if constexpr (std::is_same_v<M, WriteCheckpoint>) {
          if (replica_) Carry(replica_->OnWriteCheckpoint(message));
        } else if constexpr (std::is_same_v<M, Shutdown>) {
          LOG_INFO("dismissed: {}", message.reason);
          Stop(Status());
        }
      },
      envelope.message);
}

void Worker::On(const WorkerId&, const protocol::Welcome& welcome) {
  if (job_) {
    // This incarnation has its stage; under a new trainer, which begins at a checkpoint, a new one
    // must ask for one.
    if (welcome.term > welcome_.term) {
      Stop(Status(StatusCode::kAborted, "the trainer was started again"));
    }
    return;
  }
  auto job = api::FromJsonText(welcome.job_json);
  if (!job.ok()) {
    GiveUp("the trainer's job cannot be read: " + job.status().message());
    return;
  }
  job_ = *std::move(job);
  welcome_ = welcome;
  counters_.stages = welcome.stage_count;
  counters_.stage = static_cast<std::int64_t>(welcome.stage.value);
  LOG_INFO("serving stage {} of {}, from version {}", welcome.stage.value, welcome.stage_count,
           welcome.version.value);
  compute_.PostState([this, job = *job_, welcome] {
    auto stage = std::make_shared<Result<std::unique_ptr<model::Stage>>>(
        LoadStage(job, welcome, options_.threads, options_.device));
    control_.Post([this, stage, welcome] { StageIsReady(std::move(*stage), welcome); });
  });
}

void Worker::StageIsReady(Result<std::unique_ptr<model::Stage>> stage,
                          const protocol::Welcome& welcome) {
  if (!stage.ok()) {
    GiveUp("stage " + std::to_string(welcome.stage.value) +
           " cannot be set up: " + stage.status().message());
    return;
  }
  stage_ = std::move(*stage);
  protocol::ReplicaOptions options{
      .self = options_.id,
      .stage = welcome.stage,
      .stages = welcome.stage_count,
      .groups = {},
      .keeps_previous_version = job_->spec.training.stepMode == api::StepMode::kDelayed,
      .generation = welcome.generation,
      .version = welcome.version};
  for (const model::ParameterGroup& group : stage_->groups()) options.groups.push_back(group.index);
  replica_.emplace(std::move(options));
  counters_.version = welcome.version.value;
  compute_.PostState([this, welcome] {
    const Digest state = stage_->StateDigest();
    control_.Post([this, welcome, state] {
      Send(options_.trainer, Lane::kControl,
           protocol::Ready{welcome.generation, welcome.stage, welcome.version, state}, {});
    });
  });
}

void Worker::On(const WorkerId&, const protocol::Roster& roster) {
  if (!replica_) return;
  Carry(replica_->OnRoster(roster));
  for (const protocol::Member& member : roster.members) {
    // One of each two dials; which one does not matter for what flows.
    if (options_.id < member.id) endpoint_->Connect(member.id, member.addresses);
  }
}

void Worker::On(const WorkerId&, const protocol::Forward& frame, Bytes payload) {
  if (!replica_) return;
  // The first frame of a key is the one that counts; the replica refuses the others.
  inputs_.try_emplace(frame.key, Inputs{frame, std::move(payload), {}});
  Carry(replica_->OnForward(frame));
}

void Worker::On(const WorkerId& from, const protocol::Backward& frame, Bytes payload) {
  if (!replica_) return;
  const auto it = inputs_.find(frame.key);
  protocol::Actions actions = replica_->OnBackward(from, frame);
  const bool accepted =
      !actions.empty() && std::holds_alternative<protocol::action::RunBackward>(actions.front());
  if (accepted && it != inputs_.end()) it->second.boundary = std::move(payload);
  Carry(std::move(actions));
}

void Worker::Carry(protocol::Actions actions) {
  for (const protocol::Action& action : actions) {
    std::visit([this](const auto& a) { Do(a); }, action);
  }
  counters_.queued_tasks = replica_ ? replica_->queued() : 0;
  counters_.parked_frames = replica_ ? replica_->parked() : 0;
}

void Worker::Do(const protocol::action::RunForward& a) {
  const auto it = inputs_.find(a.key);
  if (it == inputs_.end()) return;
  compute_.PostTask(a.key.step, ComputeKind::kForward,
                    [this, a, frame = it->second.frame, input = std::move(it->second.boundary)] {
                      const std::vector<std::int32_t> ids = TokensOf(frame);
                      const Timepoint begin = Clock::now();
                      auto result = std::make_shared<Result<model::ForwardResult>>(stage_->Forward(
                          a.key, a.version, {frame.sequences, frame.tokens_per_sequence, ids},
                          input, a.keep_graph));
                      const double seconds = ToSeconds(Clock::now() - begin);
                      control_.Post([this, key = a.key, result, seconds] {
                        if (!result->ok()) {
                          GiveUp("forward failed: " + result->status().message());
                          return;
                        }
                        counters_.forward_seconds.Observe(seconds);
                        inputs_[key].output = std::move((*result)->boundary);
                        Carry(replica_->OnForwardDone(key, (*result)->loss,
                                                      {seconds, inputs_[key].output.size()}));
                      });
                    });
}

void Worker::Do(const protocol::action::RunBackward& a) {
  const auto it = inputs_.find(a.key);
  if (it == inputs_.end()) return;
  compute_.PostTask(
      a.key.step, ComputeKind::kBackward, [this, a, gradient = std::move(it->second.boundary)] {
        const Timepoint begin = Clock::now();
        auto result = std::make_shared<Result<Bytes>>(stage_->Backward(a.key, gradient));
        const double seconds = ToSeconds(Clock::now() - begin);
        control_.Post([this, key = a.key, result, seconds] {
          if (!result->ok()) {
            GiveUp("backward failed: " + result->status().message());
            return;
          }
          counters_.backward_seconds.Observe(seconds);
          const std::uint64_t bytes = (*result)->size();
          inputs_[key].output = std::move(**result);
          Carry(replica_->OnBackwardDone(key, {seconds, bytes}));
        });
      });
}

void Worker::Do(const protocol::action::SendForward& a) {
  TaskKey done = a.message.key;
  done.stage = protocol::StageIndex(done.stage.value - 1);
  done.attempt = a.message.hops[done.stage.value].attempt;
  Bytes output = std::move(inputs_[done].output);
  counters_.boundary_bytes_forward += output.size();
  Send(a.to, Lane::kData, a.message, std::move(output));
}

void Worker::Do(const protocol::action::SendBackward& a) {
  Bytes output = std::move(inputs_[a.done].output);
  counters_.boundary_bytes_backward += output.size();
  Send(a.to, Lane::kData, a.message, std::move(output));
}

void Worker::Do(const protocol::action::FoldGradients& a) {
  inputs_.erase(a.key);
  compute_.PostState([this, key = a.key] {
    const Status status = stage_->Fold(key);
    if (!status.ok()) control_.Post([this, status] { GiveUp(status.message()); });
  });
}

void Worker::Do(const protocol::action::DropTask& a) {
  inputs_.erase(a.key);
  compute_.PostState([this, key = a.key] { stage_->Drop(key); });
}

void Worker::Do(const protocol::action::StartReduce& a) {
  // Behind all folds of the step, which stand in the same queue already.
  compute_.PostState([this, reduce = a.reduce] {
    for (std::uint64_t i = 0; i < stage_->groups().size(); ++i) {
      if (stage_->groups()[i].index != reduce.group) continue;
      reduce_.Post(
          [this, reduce, own = stage_->Accumulator(reduce.step, i)] { BeginReduce(reduce, own); });
    }
  });
}

void Worker::Do(const protocol::action::ApplyCommit& a) {
  std::vector<std::shared_ptr<GroupReduce>> sums;
  for (const model::ParameterGroup& group : stage_->groups()) {
    sums.push_back(sums_.at({a.record.step, group.index}));
  }
  compute_.PostState([this, record = a.record, sums = std::move(sums)] {
    std::vector<Bytes> results;
    for (const auto& sum : sums) results.push_back(sum->result());
    const Status status = stage_->Apply(results, record.clip, record.learning_rate, record.skip);
    const Digest state = status.ok() ? stage_->StateDigest() : Digest{};
    control_.Post([this, record, status, state] {
      if (!status.ok()) {
        GiveUp("the commit of step " + std::to_string(record.step.value) +
               " cannot be applied: " + status.message());
        return;
      }
      ++counters_.commits;
      counters_.version = record.step.value + 1;
      Carry(replica_->OnApplied(record.step, state));
    });
  });
}

void Worker::Do(const protocol::action::ReleaseStep& a) {
  for (auto it = sums_.begin(); it != sums_.end();) {
    it = it->first.first == a.step ? sums_.erase(it) : std::next(it);
  }
  compute_.PostState([this, step = a.step] { stage_->ReleaseStep(step); });
  reduce_.Post([this, step = a.step] {
    reduce_floor_ = std::max(reduce_floor_, step.Next());
    std::erase_if(reduces_, [&](const auto& r) { return r.first.step < reduce_floor_; });
    std::erase_if(early_chunks_, [&](const auto& r) { return r.first.step < reduce_floor_; });
  });
}

void Worker::Do(const protocol::action::TakeCheckpoint& a) {
  compute_.PostState([this, request = a.request] {
    auto tensors = std::make_shared<std::vector<state::NamedTensor>>(stage_->Snapshot());
    storage_.Post([this, request, tensors] {
      protocol::CheckpointWritten written{
          request.generation, request.version, welcome_.stage, {}, {}};
      auto files = WriteStage(*job_, request, welcome_, *tensors);
      if (files.ok()) {
        written.files = std::move(*files);
      } else {
        written.error = files.status().message();
      }
      control_.Post([this, written] { Send(options_.trainer, Lane::kControl, written, {}); });
    });
  });
}

void Worker::Do(const protocol::action::Tell& a) {
  if (const auto* progress = std::get_if<protocol::Progress>(&a.message)) {
    progress_.reports.insert(progress_.reports.end(), progress->reports.begin(),
                             progress->reports.end());
    if (progress_.reports.size() >= kReportsMax) FlushProgress();
    return;
  }
  FlushProgress();
  Send(options_.trainer, Lane::kControl, a.message, {});
}

void Worker::FlushProgress() {
  if (progress_.reports.empty()) return;
  Send(options_.trainer, Lane::kControl, std::exchange(progress_, {}), {});
}

void Worker::Do(const protocol::action::Refuse& a) {
  counters_.refused.Add(a.reason);
  LOG_DEBUG("refused ({}): step {} microbatch {} stage {}", a.reason, a.key.step.value,
            a.key.microbatch.value, a.key.stage.value);
}

void Worker::Do(const protocol::action::Fail& a) { GiveUp(a.reason); }

void Worker::Send(const WorkerId& to, Lane lane, protocol::Message message, Bytes payload) {
  const Status status = outbox_->Send(to, lane, {std::move(message), std::move(payload)});
  if (!status.ok()) GiveUp("cannot send to " + to.value + ": " + status.message());
  if (outbox_->waiting() > 0) ScheduleFlush();
}

void Worker::ScheduleFlush() {
  if (std::exchange(flush_scheduled_, true)) return;
  control_.PostAt(Clock::now() + kFlushInterval, [this] {
    flush_scheduled_ = false;
    if (outbox_->Flush() > 0) ScheduleFlush();
  });
}

void Worker::BeginReduce(const protocol::Reduce& reduce, model::GradientSum own) {
  const ReduceKey key{reduce.step, reduce.group, reduce.k};
  auto sum = std::make_shared<GroupReduce>(
      reduce, options_.id, std::move(own), buffers_,
      [this](const WorkerId& to, protocol::ReduceChunk chunk, Bytes payload) {
        counters_.reduce_bytes += payload.size();
        const Status status = chunk_outbox_->Send(to, Lane::kData, {chunk, std::move(payload)});
        if (!status.ok()) LOG_WARN("reduce: {}", status.message());
      });
  reduces_[key] = sum;
  sum->Start();
  if (const auto early = early_chunks_.extract(key)) {
    for (const EarlyChunk& chunk : early.mapped()) {
      early_bytes_ -= chunk.payload.size();
      OnChunk(chunk.from, chunk.chunk, chunk.payload);
    }
  }
  FinishIfDone(key);
  FlushChunks();
}

void Worker::OnChunk(const WorkerId& from, const protocol::ReduceChunk& chunk, Bytes payload) {
  const ReduceKey key{chunk.step, chunk.group, chunk.k};
  if (chunk.step < reduce_floor_) {
    counters_.refused.Add("late chunk");
    return;
  }
  const auto it = reduces_.find(key);
  if (it == reduces_.end()) {
    // The peer heard of the reduce first. What may come before this worker has sent anything is at
    // most its own shard from each peer: less than one group in all.
    early_bytes_ += payload.size();
    early_chunks_[key].push_back({from, chunk, std::move(payload)});
    return;
  }
  const bool was_done = it->second->done();
  if (const Status status = it->second->OnChunk(from, chunk, payload); !status.ok()) {
    counters_.refused.Add("bad chunk");
    LOG_WARN("reduce of step {}: {}", chunk.step.value, status.message());
  }
  if (!was_done) FinishIfDone(key);
  FlushChunks();
}

void Worker::FlushChunks() {
  if (chunk_outbox_->Flush() == 0 || std::exchange(chunk_flush_scheduled_, true)) return;
  reduce_.PostAt(Clock::now() + kFlushInterval, [this] {
    chunk_flush_scheduled_ = false;
    FlushChunks();
  });
}

void Worker::FinishIfDone(const ReduceKey& key) {
  const auto it = reduces_.find(key);
  if (it == reduces_.end() || !it->second->done()) return;
  const std::shared_ptr<GroupReduce> sum = it->second;
  const Bytes result = sum->result();
  std::vector<protocol::TensorNorm> norms;
  for (std::uint64_t i = 0; i < stage_->groups().size(); ++i) {
    if (stage_->groups()[i].index != key.group) continue;
    norms = ComputeTensorNorms(*stage_, i, sum->own(), result);
  }
  const Digest digest = state::PiecedBytes({result}).digest();
  control_.Post([this, key, sum, digest, norms = std::move(norms)]() mutable {
    sums_[{key.step, key.group}] = sum;
    Carry(replica_->OnGroupReduced(key.step, key.group, key.k, digest, std::move(norms)));
  });
}

}  // namespace swarm::stage

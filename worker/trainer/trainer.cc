#include "worker/trainer/trainer.h"

#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "api/boundary.h"
#include "api/enum_names.h"
#include "api/parse.h"
#include "base/log.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/optim/schedule.h"
#include "worker/trainer/checkpoints/publish.h"

namespace swarm::trainer {

using net::Lane;
using net::WorkerId;
using protocol::EventKind;
using protocol::Message;

namespace {

/// How long to wait at the end until all farewells are on their way.
constexpr Duration kFarewell = std::chrono::seconds(2);
/// Between two looks at what has a deadline.
constexpr Duration kTick = std::chrono::milliseconds(100);
/// Between two tries to begin a generation, when the storage does not answer.
constexpr Duration kStorageRetry = std::chrono::seconds(2);
/// Between two looks for a later trainer, besides those before each write.
constexpr Duration kFencePeriod = std::chrono::seconds(10);
/// Steps that a trainer's end may cost beside the checkpoints: those of so long.
constexpr Duration kArchivePeriod = std::chrono::seconds(10);

double UnixEpoch() {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(wall).count() - ToSeconds(Clock::now().time_since_epoch());
}

bool UsesBucket(const api::Spec& spec) {
  for (const std::string* uri : {&spec.model.uri, &spec.model.tokenizer.uri, &spec.data.uri,
                                 &spec.data.validationUri, &spec.checkpoint.uri}) {
    if (uri->starts_with("s3://")) return true;
  }
  return false;
}

/// Of a worker's numeric class, what this job depends on (model/numeric_class.h).
std::vector<std::string> ProbesOf(const api::Spec& spec) {
  std::vector<std::string> probes{std::string(api::NameOf(spec.training.precision))};
  const api::BoundaryCodec codec = spec.pipeline.boundary.codec;
  if (api::IsLearned(codec)) probes.emplace_back(api::NameOf(codec));
  return probes;
}

bool MayPass(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded;
}

/// Waits; false if it was cancelled meanwhile.
bool Pause(Duration duration, const std::stop_token& cancelled) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  return !never.wait_for(lock, cancelled, duration, [&] { return cancelled.stop_requested(); });
}

/// Does `prepare` again while a bucket does not answer.
template <typename Prepare>
auto AwaitStorage(const TrainerOptions& options, Prepare prepare) -> decltype(prepare()) {
  const Timepoint begin = Clock::now();
  while (true) {
    auto result = prepare();
    const double waited = ToSeconds(Clock::now() - begin);
    if (!MayPass(result.status()) || !UsesBucket(options.job.spec)) return result;
    if (waited >= ToSeconds(options.storage_patience)) {
      return result.status().WithContext("the storage has not answered for " +
                                         std::to_string(static_cast<int>(waited)) + " s");
    }
    LOG_WARN("waiting for the storage, for {:.0f} s of at most {:.0f}: {}", waited,
             ToSeconds(options.storage_patience), result.status().message());
    if (!Pause(kStorageRetry, options.cancelled)) {
      return Cancelled("stopped while it waited for the storage");
    }
  }
}

Status CheckFence(Fence* fence) { return fence == nullptr ? Status() : fence->Check(); }

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::Start(TrainerOptions options,
                                                const net::MakeEndpoint& make_endpoint) {
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(options)));
  RETURN_IF_ERROR(trainer->Prepare());
  // Whoever connects meets a trainer that is complete: the loop waits until it is.
  std::promise<void> complete;
  trainer->control_.Post([opened = complete.get_future().share()] { opened.wait(); });
  auto endpoint = make_endpoint(trainer.get());
  if (endpoint.ok()) {
    trainer->endpoint_ = std::move(*endpoint);
    trainer->outbox_ = std::make_unique<net::Outbox>(trainer->endpoint_.get(), &trainer->control_);
  }
  complete.set_value();
  if (!endpoint.ok()) return endpoint.status();
  trainer->control_.Post([t = trainer.get()] { t->Tick(); });
  return trainer;
}

Trainer::Trainer(TrainerOptions options) : options_(std::move(options)) {}

Trainer::~Trainer() {
  control_.Stop();
  storage_.Stop();
  endpoint_.reset();
}

/// Of several trainers that come at once, the last one in the order of the fence goes on.
Status Trainer::FenceCheckpoints() {
  const api::Spec& spec = options_.job.spec;
  if (spec.checkpoint.uri.empty() || checkpoint_fence_) return Status();
  ASSIGN_OR_RETURN(auto storage, storage::Storage::Open(spec.checkpoint.uri, spec.storage));
  ASSIGN_OR_RETURN(checkpoint_fence_,
                   Fence::Make(std::move(storage), options_.job_uid, options_.term));
  return Status();
}

Result<Beginning> Trainer::PrepareStorage() {
  RETURN_IF_ERROR(ResolveModel(&options_.job));
  ASSIGN_OR_RETURN(data_, JobData::Open(options_.job));
  const bool resume = options_.resume || options_.term.value > 1;
  // First a look: who may not begin here must not end the one that is at work.
  ASSIGN_OR_RETURN(const Beginning found, FindBeginning(options_.job, resume));
  api::SwarmJob resolved = options_.job;
  RETURN_IF_ERROR(ResolveBoundary(&resolved, options_.replicas.size(), found));
  const Status fenced = FenceCheckpoints();
  const bool refused = fenced.code() == StatusCode::kPermissionDenied ||
                       fenced.code() == StatusCode::kUnauthenticated ||
                       fenced.code() == StatusCode::kAborted;
  if (!fenced.ok() && (refused || (resume && MayPass(fenced)))) return fenced;
  if (!fenced.ok()) LOG_WARN("there will be no checkpoints for now: {}", fenced.message());
  // A checkpoint that another trainer published before it met the fence counts.
  return FindBeginning(options_.job, resume);
}

/// A new machine has none of the lines that trainers before have written.
void Trainer::RestoreSteps(const Beginning& beginning) {
  const api::Spec& spec = options_.job.spec;
  const std::filesystem::path path = options_.out_dir + "/steps.jsonl";
  std::error_code error;
  if (std::filesystem::exists(path, error)) return;
  const bool take_over = options_.term.value > 1;
  if (!take_over && beginning.version.value == 0) return;
  auto storage = storage::Storage::Open(spec.checkpoint.uri, spec.storage);
  const auto steps = storage.ok() ? ReadSteps(**storage) : storage.status();
  if (!steps.ok()) {
    LOG_WARN("steps.jsonl begins here, as the steps before cannot be read: {}",
             steps.status().message());
    return;
  }
  std::filesystem::create_directories(options_.out_dir, error);
  std::ofstream out(path, std::ios::binary);
  for (const auto& [step, line] : *steps) out << line << "\n";
}

Status Trainer::Prepare() {
  ASSIGN_OR_RETURN(const Beginning beginning,
                   AwaitStorage(options_, [this] { return PrepareStorage(); }));
  RETURN_IF_ERROR(ResolveBoundary(&options_.job, options_.replicas.size(), beginning));
  const api::Spec& spec = options_.job.spec;
  protocol::CoordinatorOptions options{
      .term = options_.term,
      .take_over = options_.term.value > 1,
      .replicas = options_.replicas,
      .microbatches = options_.job.microbatches(),
      .in_flight_max = spec.pipeline.inFlightMax,
      .max_steps = spec.training.maxSteps,
      .delayed = spec.training.stepMode == api::StepMode::kDelayed,
      .tied_head = spec.model.config.tie_word_embeddings,
      .shared_basis = api::HasTurningBasis(spec.pipeline.boundary),
      .exact = spec.training.accumulation == api::Accumulation::kExact,
      .probes = ProbesOf(spec),
      .max_grad_norm = spec.training.maxGradNorm,
      .seed = spec.training.seed,
      .learning_rate =
          [spec](protocol::Step step) {
            return optim::LearningRate(step.value, spec.optimizer, spec.schedule,
                                       spec.training.maxSteps);
          },
      .job_json = api::ToJsonText(options_.job),
      .checkpoint_interval_steps = spec.checkpoint.intervalSteps,
      .checkpoint_uri = spec.checkpoint.uri,
      // A bucket may come back; a disk that is full stays so.
      .last_checkpoint_patience = storage::LocalPath(spec.checkpoint.uri).empty()
                                      ? options_.storage_patience
                                      : Duration::zero(),
      .validation_interval_steps = spec.training.validationIntervalSteps,
      .validation_microbatches = data_->validation_microbatches(),
      .balance = options_.balance,
      .keep_workers = options_.keep_workers,
      .unix_epoch = UnixEpoch()};
  options.generation = beginning.generation;
  options.first_version = first_version_ = beginning.version;
  options.resume_uri = beginning.checkpoint_uri;
  if (!options.resume_uri.empty()) {
    LOG_INFO("going on from version {} in {}", beginning.version.value, options.resume_uri);
  }
  metrics_.version = options.first_version.value;
  ASSIGN_OR_RETURN(auto out, storage::Storage::Open(options_.out_dir));
  auto out_fence = Fence::Make(std::move(out), options_.job_uid, options_.term);
  if (out_fence.status().code() == StatusCode::kAborted) return out_fence.status();
  std::shared_ptr<Fence> fence = out_fence.ok() ? std::move(*out_fence) : nullptr;
  const std::string beside = std::filesystem::absolute(options_.out_dir).lexically_normal();
  if (!spec.checkpoint.uri.empty() &&
      !storage::LocalPath(spec.checkpoint.uri).starts_with(beside)) {
    archive_.emplace(options_.term);
    RestoreSteps(beginning);
  }
  ASSIGN_OR_RETURN(log_,
                   RunLog::Open(options_.out_dir,
                                options.take_over ? RunLog::kKeepAll : options.first_version.value,
                                [fence] { return CheckFence(fence.get()); }));
  if (options_.trace_progress) RETURN_IF_ERROR(log_->TraceProgress());
  coordinator_ = std::make_unique<protocol::Coordinator>(std::move(options), Clock::now());
  return {};
}

Outcome Trainer::Wait() { return ended_.get_future().get(); }

void Trainer::RequestStop(Duration limit) {
  control_.Post([this, limit] {
    Carry(coordinator_->OnStopRequested(Clock::now()));
    control_.PostAt(Clock::now() + limit, [this] {
      if (coordinator_->finished()) return;
      LOG_WARN("there is no time left for the last checkpoint");
      overdue_ = true;
      Carry(coordinator_->OnStopOverdue());
    });
  });
}

Status Trainer::CheckHealth(Duration limit) {
  return StatusWithin(limit) ? Status() : DeadlineExceeded("the trainer's loop does not answer");
}

Status Trainer::CheckReady(Duration limit) {
  const auto status = StatusWithin(limit);
  if (!status) return DeadlineExceeded("the trainer's loop does not answer");
  using protocol::JobState;
  const JobState state = status->state;
  const bool over =
      state == JobState::kSucceeded || state == JobState::kFailed || state == JobState::kSuperseded;
  return over ? Unavailable("the job is over for this trainer: " + std::string(NameOf(state)))
              : Status();
}

void Trainer::OnMessage(const WorkerId& from, Lane lane, net::Envelope envelope) {
  if (lane == Lane::kData && std::holds_alternative<protocol::Heartbeat>(envelope.message)) {
    // The same beat on another connection: it says no more than that its sender lives.
    control_.Post([this, from] { detector_.OnBeat(from, Clock::now()); });
    return;
  }
  control_.Post([this, from, envelope = std::move(envelope)]() mutable {
    Handle(from, std::move(envelope));
  });
}

void Trainer::OnPeerUp(const WorkerId&) {
  control_.Post([this] { outbox_->Flush(); });
}

void Trainer::OnPeerDown(const WorkerId& peer, const Status& why) {
  control_.Post([this, peer, why] {
    outbox_->Forget(peer);
    pulses_.erase(peer);
    observers_.erase(peer);
    detector_.Forget(peer);
    Carry(coordinator_->OnWorkerLost(peer, why.message(), /*connected=*/false, Clock::now()));
    EndIfAllHaveHeard();
  });
}

void Trainer::Handle(const WorkerId& from, net::Envelope envelope) {
  using namespace protocol;  // the alternatives of Message
  const Timepoint now = Clock::now();
  std::visit(
      [&](auto& message) {
        using M = std::decay_t<decltype(message)>;
        if constexpr (std::is_same_v<M, Hello>) detector_.Watch(from, now);
        if constexpr (std::is_same_v<M, Progress>) log_->Progress(from.value, message);
        if constexpr (std::is_same_v<M, Heartbeat>) {
          OnBeat(from, message);
        } else if constexpr (std::is_same_v<M, Observe>) {
          observers_.insert(from);
          Carry(coordinator_->OnMessage(from, message, now));
          Send(from, Lane::kControl, Describe());
        } else {
          Carry(coordinator_->OnMessage(from, message, now));
        }
      },
      envelope.message);
}

void Trainer::Tick() {
  const Timepoint now = Clock::now();
  for (const WorkerId& silent : detector_.Suspects(now)) {
    detector_.Forget(silent);
    pulses_.erase(silent);
    Carry(coordinator_->OnWorkerLost(silent, "no sign of life", /*connected=*/true, now));
  }
  Carry(coordinator_->OnTick(now));
  ArchiveNowAndThen();
  LookForLaterTrainer(now);
  if (!coordinator_->finished()) {
    control_.PostAt(std::min(now + kTick, detector_.NextDeadline()), [this] { Tick(); });
  }
}

void Trainer::OnBeat(const WorkerId& from, const protocol::Heartbeat& beat) {
  const Timepoint now = Clock::now();
  detector_.OnBeat(from, now);
  Carry(coordinator_->OnBeat(from, beat, now));
  Pulse& pulse = pulses_[from];
  const double seconds = ToSeconds(now - pulse.time);
  if (pulse.time != Timepoint() && seconds > 0) {
    // A second's worth of memory, whatever the rate of the beats.
    const double weight = std::min(1.0, seconds);
    const double busy = (beat.busy_seconds - pulse.beat.busy_seconds) / seconds;
    const double rate = static_cast<double>(beat.bytes_sent - pulse.beat.bytes_sent) / seconds;
    pulse.utilization += weight * (busy - pulse.utilization);
    pulse.bytes_per_second += weight * (rate - pulse.bytes_per_second);
  }
  pulse.time = now;
  pulse.beat = beat;
}

protocol::JobStatus Trainer::Describe() const {
  protocol::JobStatus status = coordinator_->Status();
  status.tokens_per_second = metrics_.tokens_per_second;
  for (protocol::StageStatus& stage : status.stages) {
    for (auto& worker : stage.workers) {
      const auto pulse = pulses_.find(worker.id);
      if (pulse == pulses_.end()) continue;
      worker.queued = pulse->second.beat.queued_tasks;
      worker.utilization = pulse->second.utilization;
      worker.bytes_per_second = pulse->second.bytes_per_second;
    }
  }
  return status;
}

std::optional<protocol::JobStatus> Trainer::StatusWithin(Duration limit) {
  const auto answer = std::make_shared<std::promise<protocol::JobStatus>>();
  auto status = answer->get_future();
  control_.Post([this, answer] { answer->set_value(Describe()); });
  if (status.wait_for(limit) != std::future_status::ready) return std::nullopt;
  return status.get();
}

void Trainer::Carry(protocol::Orders orders) {
  for (protocol::Order& order : orders) {
    std::visit([this](auto& o) { Do(o); }, order);
  }
}

void Trainer::Do(protocol::order::Tell& o) { Send(o.to, Lane::kControl, std::move(o.message)); }

void Trainer::Do(protocol::order::Issue& o) {
  protocol::Forward& frame = o.frame;
  const std::uint64_t m = frame.key.microbatch.value;
  const std::vector<std::int32_t> ids = frame.kind == protocol::TaskKind::kTrain
                                            ? data_->Microbatch(frame.key.step.value, m)
                                            : data_->ValidationMicrobatch(m);
  frame.sequences = data_->sequences();
  frame.tokens_per_sequence = data_->tokens_per_sequence();
  frame.tokens = Bytes::Copy(ids.data(), ids.size() * sizeof(std::int32_t));
  const WorkerId to = frame.hops[0].worker;
  Send(to, Lane::kData, std::move(frame));
}

void Trainer::Do(const protocol::order::StepDone& o) {
  const api::Training& training = options_.job.spec.training;
  const std::uint64_t tokens = training.globalBatchSize * training.sequenceLength;
  const StepLine line{o.record, tokens, o.seconds, o.boundary_bytes};
  const bool fresh = log_->Step(line);
  log_->Ledger({o.record, o.claims});
  if (log_->fenced()) return OnLaterTrainer(log_->fence());
  if (fresh && archive_) archive_->Add(o.record.generation, o.record.step.value, FormatStep(line));
  metrics_.version = o.record.step.value + 1;
  if (fresh) {
    ++metrics_.steps;
    metrics_.tokens += tokens;
    metrics_.skipped_steps += o.record.skip ? 1 : 0;
    metrics_.boundary_bytes += o.boundary_bytes;
    metrics_.useful_tasks += 2 * options_.job.microbatches() * options_.replicas.size();
  }
  metrics_.loss = o.record.loss;
  metrics_.grad_norm = o.record.grad_norm;
  metrics_.learning_rate = o.record.learning_rate;
  if (o.seconds > 0) {
    metrics_.step_seconds.Observe(o.seconds);
    metrics_.tokens_per_second = static_cast<double>(tokens) / o.seconds;
  }
  LOG_INFO("step {} loss {:.17g} grad_norm {:.17g} seconds {:.6f}", o.record.step.value,
           o.record.loss, o.record.grad_norm, o.seconds);
}

void Trainer::Do(const protocol::order::Validated& o) {
  metrics_.validation_loss = o.loss;
  log_->Validation(o.version, o.loss);
  LOG_INFO("validation loss {:.4f} at version {}", o.loss, o.version.value);
}

void Trainer::Do(const protocol::order::PublishCheckpoint& o) {
  checkpoint::Manifest manifest{.job_uid = options_.job_uid,
                                .generation = coordinator_->generation(),
                                .term = options_.term,
                                .version = o.version,
                                .stage_count = options_.replicas.size(),
                                .files = o.files};
  ArchiveSteps();
  storage_.Post([this, manifest = std::move(manifest), job = options_.job] {
    Status status = FenceCheckpoints();
    if (status.ok()) status = CheckFence(checkpoint_fence_.get());
    if (status.code() == StatusCode::kAborted) {
      control_.Post([this, status] { OnLaterTrainer(status); });
      return;
    }
    const auto storage = storage::Storage::Open(job.spec.checkpoint.uri, job.spec.storage);
    if (status.ok()) {
      status = storage.ok() ? PublishCheckpoint(**storage, job, manifest) : storage.status();
    }
    if (status.ok()) ++metrics_.checkpoints;
    control_.Post([this, version = manifest.version, error = status.message()] {
      Carry(coordinator_->OnCheckpointPublished(version, error, Clock::now()));
    });
  });
}

void Trainer::Do(const protocol::order::Event& o) {
  log_->Event(o.kind, o.text);
  if (o.kind == EventKind::kCheckpointFailed) {
    ++metrics_.checkpoint_failures;
    LOG_WARN("{}: {}", NameOf(o.kind), o.text);
  } else {
    LOG_INFO("{}: {}", NameOf(o.kind), o.text);
  }
}

void Trainer::Do(const protocol::order::BeginGeneration& o) {
  storage_.Post([this, job = options_.job, folder = options_.out_dir, wanted = o.generation,
                 term = options_.term] {
    const Status fenced = CheckFence(checkpoint_fence_.get());
    if (fenced.code() == StatusCode::kAborted) {
      control_.Post([this, fenced] { OnLaterTrainer(fenced); });
      return;
    }
    const auto begun = trainer::BeginGeneration(job, folder, wanted, term);
    control_.Post([this, wanted, begun] {
      const Timepoint now = Clock::now();
      Status status = begun.status();
      if (begun.ok()) status = log_->CutTo(begun->version.value);
      if (log_->fenced()) return OnLaterTrainer(log_->fence());
      if (!status.ok()) {
        log_->Event(EventKind::kRollbackDelayed, status.message());
        LOG_WARN("the job cannot go back to its last checkpoint yet: {}", status.message());
        control_.PostAt(now + kStorageRetry, [this, wanted] {
          if (!coordinator_->finished()) Do(protocol::order::BeginGeneration{wanted});
        });
        return;
      }
      metrics_.discarded_steps += metrics_.version - begun->version.value;
      metrics_.version = begun->version.value;
      Carry(coordinator_->OnGenerationBegun(begun->generation, begun->version,
                                            begun->checkpoint_uri, now));
    });
  });
}

void Trainer::OnLaterTrainer(const Status& why) {
  Carry(coordinator_->OnSuperseded("a later trainer writes this job's files: " + why.message()));
}

/// Who has lost all workers to it may never write again, and so never learn.
void Trainer::LookForLaterTrainer(Timepoint now) {
  if (looking_ || now - looked_ < kFencePeriod) return;
  looked_ = now;
  if (!log_->MayWrite()) return OnLaterTrainer(log_->fence());
  looking_ = true;
  storage_.Post([this] {
    const Status fenced = CheckFence(checkpoint_fence_.get());
    control_.Post([this, fenced] {
      looking_ = false;
      if (fenced.code() == StatusCode::kAborted) OnLaterTrainer(fenced);
    });
  });
}

void Trainer::ArchiveNowAndThen() {
  const Timepoint now = Clock::now();
  if (archiving_ > 0 || now - archived_ < kArchivePeriod) return;
  archived_ = now;
  ArchiveSteps();
}

void Trainer::ArchiveSteps() {
  if (!archive_ || !archive_->changed()) return;
  ++archiving_;
  storage_.Post([this, pieces = archive_->TakeChanged(), spec = options_.job.spec]() mutable {
    auto storage = storage::Storage::Open(spec.checkpoint.uri, spec.storage);
    Status status = storage.status();
    std::erase_if(pieces, [&](const StepPiece& piece) {
      // One that does not answer is not asked for the others.
      if (status.ok()) status = (*storage)->Write(piece.name, Bytes::Copy(piece.lines));
      return status.ok();
    });
    control_.Post([this, status, left = std::move(pieces)]() mutable {
      --archiving_;
      if (!status.ok()) LOG_WARN("steps are not kept yet: {}", status.message());
      archive_->Retry(std::move(left));
    });
  });
}

void Trainer::Do(const protocol::order::Forget& o) { outbox_->Forget(o.worker); }

void Trainer::Do(const protocol::order::Finish& o) {
  const bool resumable = first_version_.value > 0 || metrics_.checkpoints > 0;
  outcome_ = Outcome{.succeeded = o.succeeded,
                     .stopped_early = o.stopped_early,
                     .superseded = o.superseded,
                     .reason = o.reason,
                     .failure_class = o.failure_class,
                     .resumable = resumable,
                     .overdue = overdue_};
  if (!overdue_) ArchiveSteps();
  if (o.superseded) {
    LOG_WARN("leaving: {}", o.reason);  // the log is the other's
  } else {
    log_->Event(o.succeeded ? EventKind::kSucceeded : EventKind::kFailed, o.reason);
  }
  const Timepoint now = Clock::now();
  for (const WorkerId& observer : observers_) Send(observer, Lane::kControl, Describe());
  control_.PostAt(now + kFarewell, [this] { End(); });
  EndIfAllHaveHeard();
}

void Trainer::Send(const WorkerId& to, Lane lane, Message message) {
  const Status status = outbox_->Send(to, lane, {std::move(message), {}});
  if (!status.ok()) LOG_WARN("cannot send to {}: {}", to.value, status.message());
}

/// The workers leave when they have heard; then there is nobody left to wait for.
void Trainer::EndIfAllHaveHeard() {
  if (outcome_ && pulses_.empty() && outbox_->waiting() == 0) End();
}

void Trainer::End() {
  if (std::exchange(ended_already_, true)) return;
  ended_.set_value(*outcome_);
}

}  // namespace swarm::trainer

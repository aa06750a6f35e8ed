#include "worker/trainer/trainer.h"

#include <cstring>

#include "base/log.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/protocol/failure.h"
#include "worker/trainer/checkpoints/publish.h"

namespace swarm::trainer {

using net::Lane;
using net::WorkerId;
using protocol::EventKind;
using protocol::EvictionCause;
using protocol::Message;

namespace {

/// How long to wait at the end until all farewells are on their way.
constexpr Duration kFarewell = std::chrono::seconds(2);
/// The period of checks of deadlines.
constexpr Duration kTick = std::chrono::milliseconds(100);
/// The period of checks for a later trainer, besides those before each write.
constexpr Duration kFencePeriod = std::chrono::seconds(10);
}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::Start(TrainerOptions options,
                                                const net::MakeEndpoint& make_endpoint) {
  ASSIGN_OR_RETURN(Preparation preparation, Prepare(options));
  options.job = preparation.job;
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(options), std::move(preparation)));
  // The loop waits until the trainer is complete: peers may call before make_endpoint has returned.
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

Trainer::Trainer(TrainerOptions options, Preparation preparation)
    : options_(std::move(options)),
      first_version_(preparation.beginning.version),
      data_(std::move(preparation.data)),
      log_(std::move(preparation.log)),
      coordinator_(std::make_unique<protocol::Coordinator>(std::move(preparation.coordinator),
                                                           Clock::now())),
      fence_(std::move(preparation.fence)) {
  metrics_.version = first_version_.value;
  if (preparation.keeps_steps_apart) {
    step_writer_.emplace(options_.job.spec, options_.term, control_, storage_);
  }
  if (!options_.job.spec.logging.tensorboard.empty()) {
    curves_.emplace(options_.job.spec, control_, storage_);
  }
  for (storage::Place& place : storage::CheckpointPlaces(options_.job.spec)) {
    if (place.home) continue;
    copiers_.push_back(std::make_unique<Copier>(
        options_.job, std::move(place),
        [this](const CopyReport& report) { control_.Post([this, report] { OnCopied(report); }); }));
  }
  CopyCheckpoints();  // what an earlier trainer may have left
}

Trainer::~Trainer() {
  for (const auto& copier : copiers_) copier->Abandon();
  control_.Stop();
  storage_.Stop();
  copiers_.clear();
  endpoint_.reset();
  data_.reset();  // its threads post
}

void Trainer::RequestStop(Duration limit) {
  control_.Post([this, limit] {
    Carry(coordinator_->OnStopRequested(Clock::now()));
    control_.PostAt(Clock::now() + limit, [this] {
      for (const auto& copier : copiers_) copier->Abandon();
      if (coordinator_->finished()) return;
      LOG_WARN("stopping without the last checkpoint: the time limit is over");
      ending_.MarkOverdue();
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
  if (protocol::IsOnlooker(from) && !protocol::IsOfOnlooker(envelope.message)) {
    LOG_DEBUG("refused from {}: an onlooker takes no part", from.value);
    return;
  }
  if (const auto* beat = std::get_if<protocol::Heartbeat>(&envelope.message);
      lane == Lane::kData && beat != nullptr) {
    // The same beat on another connection, from which only the life of its sender is taken.
    control_.Post([this, from, beat = *beat] { pulses_.OnSignOfLife(from, beat, Clock::now()); });
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
    ForgetReads(peer);
    pulses_.Forget(peer);
    traffic_.Forget(peer);
    observers_.erase(peer);
    lost_.push_back({.worker = peer, .why = why.message()});
    // Behind the losses that wait here already: many workers may go at once.
    if (lost_.size() == 1) control_.Post([this] { LoseWorkers(); });
  });
}

void Trainer::LoseWorkers() {
  if (lost_.empty()) return;
  Carry(coordinator_->OnWorkersLost(std::exchange(lost_, {}), Clock::now()));
  EndIfAllHaveHeard();
}

void Trainer::Handle(const WorkerId& from, net::Envelope envelope) {
  using namespace protocol;  // the alternatives of Message
  const Timepoint now = Clock::now();
  std::visit(
      [&](auto& message) {
        using M = std::decay_t<decltype(message)>;
        if constexpr (std::is_same_v<M, Hello>) {
          LoseWorkers();  // its earlier connection may be among them
          pulses_.Watch(from, now);
          traffic_.Watch(from, message.region);
        }
        if constexpr (std::is_same_v<M, Progress>) log_->Progress(from.value, message);
        if constexpr (std::is_same_v<M, Heartbeat>) {
          Carry(coordinator_->OnBeat(from, message, now));
          pulses_.OnBeat(from, message, now);
          traffic_.OnBeat(from, message, now);
          lanes_.OnBeat(from, message, now);
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
  for (const WorkerId& silent : pulses_.TakeSilent(now)) {
    lost_.push_back({silent, "no sign of life", /*connected=*/true, EvictionCause::kSilent});
  }
  LoseWorkers();
  std::vector<protocol::TaskKey> awaited;
  for (const auto& [read, frame] : reads_) awaited.push_back(frame.key);
  coordinator_->OnTokensAwaited(awaited, now);
  Carry(coordinator_->OnTick(now));
  log_->Flush();
  if (step_writer_) step_writer_->OnTick(now);
  if (curves_) curves_->OnTick(now);
  LookForLaterTrainer(now);
  if (!coordinator_->finished()) {
    control_.PostAt(std::min(now + kTick, pulses_.NextDeadline()), [this] { Tick(); });
  }
}

protocol::JobStatus Trainer::Describe() const {
  protocol::JobStatus status = coordinator_->Status();
  status.tokens_per_second = metrics_.tokens_per_second;
  pulses_.Describe(&status);
  status.traffic = traffic_.Read(Clock::now());
  return status;
}

page::JobView Trainer::View() const {
  const api::Training& training = options_.job.spec.training;
  return {.status = Describe(),
          .members = coordinator_->Details(),
          .boundaries = coordinator_->boundaries(),
          .tokens_of_microbatch = training.microbatchSize * training.sequenceLength,
          .committed_steps = metrics_.steps,
          .discarded_steps = metrics_.discarded_steps,
          .contributions_of_step = options_.job.microbatches() * options_.replicas.size(),
          .worker_price = api::WorkerPrices(options_.job.spec)};
}

template <typename Answer>
std::optional<Answer> Trainer::Within(Duration limit, std::function<Answer()> ask) {
  const auto answer = std::make_shared<std::promise<Answer>>();
  auto future = answer->get_future();
  control_.Post([answer, ask = std::move(ask)] { answer->set_value(ask()); });
  if (future.wait_for(limit) != std::future_status::ready) return std::nullopt;
  return future.get();
}

std::optional<protocol::JobStatus> Trainer::StatusWithin(Duration limit) {
  return Within<protocol::JobStatus>(limit, [this] { return Describe(); });
}

std::optional<page::JobView> Trainer::ViewWithin(Duration limit) {
  return Within<page::JobView>(limit, [this] { return View(); });
}

std::optional<page::LanesView> Trainer::LanesWithin(Duration limit, std::int64_t after) {
  return Within<page::LanesView>(limit, [this, after] {
    const Timepoint now = Clock::now();
    return page::LanesView{.slot = page::Lanes::SlotOf(now),
                           .lanes = lanes_.Since(after, now),
                           .lost = coordinator_->Status().evicted};
  });
}

void Trainer::Carry(protocol::Orders orders) {
  for (protocol::Order& order : orders) {
    std::visit([this](auto& o) { Do(o); }, order);
  }
}

void Trainer::Do(protocol::order::Tell& o) { Send(o.to, Lane::kControl, std::move(o.message)); }

void Trainer::Do(protocol::order::Issue& o) {
  const protocol::TaskKey& key = o.frame.key;
  const auto sequences = o.frame.kind == protocol::TaskKind::kTrain
                             ? data_->Draw(key.step.value, key.microbatch.value)
                             : data_->ValidationSequences(key.microbatch.value);
  const std::uint64_t read = next_read_++;
  reads_.emplace(read, std::move(o.frame));
  data_->Read(sequences, [this, read](Result<std::vector<std::int32_t>> ids) {
    if (control_.InLoop()) return OnTokens(read, ids);
    control_.Post([this, read, ids = std::move(ids)] { OnTokens(read, ids); });
  });
}

void Trainer::OnTokens(std::uint64_t read, const Result<std::vector<std::int32_t>>& ids) {
  auto found = reads_.extract(read);
  if (found.empty()) return;
  if (!ids.ok()) {
    const Status& status = ids.status();
    return Carry(coordinator_->OnTokensLost(status.message(), protocol::FailureClassOf(status)));
  }
  protocol::Forward& frame = found.mapped();
  frame.sequences = data_->sequences();
  frame.tokens_per_sequence = data_->tokens_per_sequence();
  frame.tokens = Bytes::Copy(ids->data(), ids->size() * sizeof(std::int32_t));
  const WorkerId to = frame.hops[0].worker;
  Send(to, Lane::kData, std::move(frame));
}

void Trainer::ForgetReads(const WorkerId& worker) {
  std::erase_if(reads_, [&](const auto& read) { return read.second.hops[0].worker == worker; });
}

void Trainer::Do(const protocol::order::StepDone& o) {
  const api::Training& training = options_.job.spec.training;
  const std::uint64_t tokens = training.globalBatchSize * training.sequenceLength;
  const StepLine line{o.record, tokens, o.seconds, o.boundary_bytes, o.times};
  const bool fresh = log_->Step(line);
  log_->Ledger({o.record, o.claims, o.redone});
  if (log_->fenced()) return OnLaterTrainer(log_->fence());
  if (fresh && step_writer_)
    step_writer_->Add(o.record.generation, o.record.step.value, FormatStep(line));
  if (fresh && curves_) curves_->Step(line);
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
  if (log_->Validation(o.version, o.loss) && curves_) curves_->Validation(o.version, o.loss);
  LOG_INFO("validation loss {:.4f} at version {}", o.loss, o.version.value);
}

void Trainer::Do(const protocol::order::PublishCheckpoint& o) {
  checkpoint::Manifest manifest{.job_uid = options_.job_uid,
                                .generation = coordinator_->generation(),
                                .term = options_.term,
                                .version = o.version,
                                .stage_count = options_.replicas.size(),
                                .files = o.files};
  if (step_writer_) step_writer_->Write();
  if (curves_) curves_->Write();
  storage_.Post([this, manifest = std::move(manifest), job = options_.job] {
    Status status = fence_->Take();
    if (status.ok()) status = fence_->Check();
    if (status.code() == StatusCode::kAborted) {
      control_.Post([this, status] { OnLaterTrainer(status); });
      return;
    }
    const auto storage = storage::Storage::Open(job.spec.checkpoint.uri, job.spec.storage);
    if (status.ok()) {
      // The tokenizer never changes.
      status = storage.ok() ? PublishCheckpoint(**storage, job, data_->tokenizer(), manifest)
                            : storage.status();
    }
    if (status.ok()) ++metrics_.checkpoints;
    if (status.ok()) CopyCheckpoints();
    control_.Post([this, version = manifest.version, error = status.message()] {
      Carry(coordinator_->OnCheckpointPublished(version, error, Clock::now()));
    });
  });
}

void Trainer::CopyCheckpoints() {
  for (const auto& copier : copiers_) copier->Copy();
}

void Trainer::OnCopied(const CopyReport& report) {
  const bool copied = report.status.ok();
  const EventKind kind = copied ? EventKind::kCheckpointCopied : EventKind::kCheckpointNotCopied;
  log_->Event(kind, report.Text(), {.seconds = report.seconds});
  if (copied) {
    LOG_INFO("{}", report.Text());
  } else {
    LOG_WARN("{}", report.Text());
  }
}

void Trainer::AwaitCopies() {
  for (const auto& copier : copiers_) {
    ++copying_;
    copier->WhenDone([this] {
      control_.Post([this] {
        --copying_;
        EndIfAllHaveHeard();
      });
    });
  }
  if (copying_ > 0) LOG_INFO("the last checkpoint is copied before the trainer ends");
}

void Trainer::Do(const protocol::order::Event& o) {
  log_->Event(o.kind, o.text, o.fields);
  if (o.kind == EventKind::kCheckpointFailed) {
    ++metrics_.checkpoint_failures;
    LOG_WARN("{}: {}", NameOf(o.kind), o.text);
  } else {
    LOG_INFO("{}: {}", NameOf(o.kind), o.text);
  }
}

void Trainer::Do(const protocol::order::BeginGeneration& o) {
  reads_.clear();
  storage_.Post([this, o, job = options_.job, folder = options_.out_dir, term = options_.term] {
    const Status fenced = fence_->Check();
    if (fenced.code() == StatusCode::kAborted) {
      control_.Post([this, fenced] { OnLaterTrainer(fenced); });
      return;
    }
    const auto begun = trainer::BeginGeneration(job, folder, o.generation, term,
                                                o.doubted ? Look::kFiles : Look::kManifest);
    control_.Post([this, order = o, begun] {
      const Timepoint now = Clock::now();
      Status status = begun.status();
      if (begun.ok()) status = log_->CutTo(begun->version.value);
      if (log_->fenced()) return OnLaterTrainer(log_->fence());
      if (!status.ok()) {
        log_->Event(EventKind::kRollbackDelayed, status.message());
        LOG_WARN("the job cannot return to its last checkpoint yet, trying again: {}",
                 status.message());
        control_.PostAt(now + kStorageRetry, [this, order] {
          if (!coordinator_->finished()) Do(order);
        });
        return;
      }
      for (const std::string& text : begun->damaged) {
        LOG_WARN("a damaged checkpoint is set aside: {}", text);
        log_->Event(EventKind::kCheckpointDamaged, text + "; the job goes on from version " +
                                                       std::to_string(begun->version.value));
      }
      metrics_.discarded_steps += metrics_.version - begun->version.value;
      metrics_.version = begun->version.value;
      Carry(coordinator_->OnGenerationBegun(begun->generation, begun->version,
                                            begun->checkpoint_uri, begun->manifest, now));
    });
  });
}

void Trainer::OnLaterTrainer(const Status& why) {
  Carry(coordinator_->OnSuperseded("a later trainer writes this job's files: " + why.message()));
}

/// A trainer that has lost all workers to a later one may never write again, so writing alone would
/// not tell it.
void Trainer::LookForLaterTrainer(Timepoint now) {
  if (looking_ || now - looked_ < kFencePeriod) return;
  looked_ = now;
  if (!log_->MayWrite()) return OnLaterTrainer(log_->fence());
  looking_ = true;
  storage_.Post([this] {
    const Status fenced = fence_->Check();
    control_.Post([this, fenced] {
      looking_ = false;
      if (fenced.code() == StatusCode::kAborted) OnLaterTrainer(fenced);
    });
  });
}

void Trainer::Do(const protocol::order::Forget& o) {
  outbox_->Forget(o.worker);
  ForgetReads(o.worker);
}

void Trainer::Do(const protocol::order::Retire& o) {
  if (options_.on_retired) options_.on_retired(o.workers);
}

void Trainer::Do(const protocol::order::Finish& o) {
  reads_.clear();
  const bool resumable = first_version_.value > 0 || metrics_.checkpoints > 0;
  ending_.Decide({.succeeded = o.succeeded,
                  .stopped_early = o.stopped_early,
                  .superseded = o.superseded,
                  .was_stopped = o.was_stopped,
                  .reason = o.reason,
                  .failure_class = o.failure_class,
                  .resumable = resumable,
                  .overdue = ending_.overdue()});
  if (!ending_.overdue() && step_writer_) step_writer_->Write();
  if (!ending_.overdue() && curves_) curves_->Write();
  if (o.superseded) {
    LOG_WARN("leaving: {}", o.reason);  // the log belongs to the later trainer
  } else {
    log_->Event(o.succeeded ? EventKind::kSucceeded : EventKind::kFailed, o.reason,
                {.cause = std::string(NameOf(o.failure_class))});
  }
  const Timepoint now = Clock::now();
  for (const WorkerId& observer : observers_) Send(observer, Lane::kControl, Describe());
  if (!o.superseded && !ending_.overdue()) AwaitCopies();
  control_.PostAt(now + kFarewell, [this] {
    farewell_over_ = true;
    EndIfAllHaveHeard();
  });
  EndIfAllHaveHeard();
}

void Trainer::Send(const WorkerId& to, Lane lane, Message message) {
  const Status status = outbox_->Send(to, lane, {std::move(message), {}});
  if (!status.ok()) LOG_WARN("cannot send to {}: {}", to.value, status.message());
}

/// The workers leave when they have heard of the end; then the trainer waits for none.
void Trainer::EndIfAllHaveHeard() {
  const bool heard = farewell_over_ || (pulses_.empty() && outbox_->waiting() == 0);
  if (ending_.decided() && heard && copying_ == 0) ending_.End();
}

}  // namespace swarm::trainer

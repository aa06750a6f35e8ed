#include "worker/stage/worker.h"

#include "api/parse.h"
#include "base/log.h"
#include "worker/protocol/failure.h"

namespace swarm::stage {

using net::Envelope;
using net::Lane;
using protocol::WorkerId;

namespace {

constexpr Duration kBeatInterval = std::chrono::milliseconds(250);
/// Between two lines that say that there is no trainer.
constexpr Duration kMissInterval = std::chrono::seconds(60);
/// Between two tries to load a state from a storage that does not answer; the trainer has a limit.
constexpr Duration kLoadRetry = std::chrono::seconds(5);
constexpr std::size_t kEarlyControlMax = 65536;

bool WasRefused(const protocol::Actions& actions) {
  return actions.size() == 1 && std::holds_alternative<protocol::action::Refuse>(actions.front());
}

}  // namespace

Result<std::unique_ptr<Worker>> Worker::Start(WorkerOptions options,
                                              const net::MakeEndpoint& make_endpoint) {
  std::unique_ptr<Worker> worker(new Worker(std::move(options)));
  // Others may call before make_endpoint has returned. What they say waits until it has.
  std::promise<bool> made;
  std::promise<void> installed;
  worker->control_.Post([&, worker = worker.get()] {
    if (!made.get_future().get()) return;
    worker->outbox_ = std::make_unique<net::Outbox>(worker->endpoint_.get(), &worker->control_);
    worker->reducing_.Attach(worker->endpoint_.get());
    worker->trainer_lost_ = Clock::now();
    worker->endpoint_->Connect(worker->options_.trainer, worker->options_.trainer_addresses);
    worker->Beat();
    installed.set_value();
  });
  auto endpoint = make_endpoint(worker.get());
  if (endpoint.ok()) worker->endpoint_ = *std::move(endpoint);
  made.set_value(endpoint.ok());
  if (!endpoint.ok()) {
    worker->control_.Stop();
    return endpoint.status();
  }
  installed.get_future().wait();
  return worker;
}

Worker::Worker(WorkerOptions options)
    : options_(std::move(options)),
      donor_([this](protocol::Generation generation, protocol::Step step,
                    protocol::GroupIndex group,
                    const protocol::Attempt& k) -> std::shared_ptr<const checkpoint::PiecedBytes> {
        const auto it = sums_.find({step, group});
        const bool here =
            it != sums_.end() && it->second.generation == generation && it->second.k == k;
        return here ? it->second.pieces : nullptr;
      }),
      reducing_(options_.id, &metrics_, [this](ReducedSum sum) {
        control_.Post([this, sum = std::move(sum)]() mutable { OnSum(std::move(sum)); });
      }) {}

Worker::~Worker() {
  // A loop that has stopped drops what is posted to it, so the order among these does not matter;
  // the endpoint goes when nobody sends any more.
  control_.Stop();
  compute_.Stop();
  reducing_.Stop();
  storage_.Stop();
  pins_.Stop();
  endpoint_.reset();
}

Status Worker::Wait() { return ended_.get_future().get(); }

void Worker::Stop(const Status& why) {
  if (!has_ended_.exchange(true)) ended_.set_value(why);
}

void Worker::Leave(Duration grace) {
  control_.Post([this, grace] {
    if (leave_by_) return;
    if (!trainer_up_ || !replica_) {
      Stop(Status());  // there is nothing to hand over, or nobody who could arrange it
      return;
    }
    LOG_INFO("leaving within {} s", ToSeconds(grace));
    leave_by_ = Clock::now() + grace;
    Tell(protocol::Leaving{ToSeconds(grace)});
    control_.PostAt(*leave_by_, [this] { Stop(Status()); });
  });
}

void Worker::OnMessage(const WorkerId& from, Lane, Envelope envelope) {
  if (protocol::IsOnlooker(from)) {
    metrics_.refused.Add("from an onlooker");
    return;
  }
  if (auto* chunk = std::get_if<protocol::ReduceChunk>(&envelope.message)) {
    reducing_.OnChunk(from, *chunk, std::move(envelope.payload));
    return;
  }
  control_.Post([this, from, envelope = std::move(envelope)]() mutable {
    Handle(from, std::move(envelope));
  });
}

void Worker::OnPeerUp(const WorkerId& peer) {
  control_.Post([this, peer] {
    if (dropped_.erase(peer) > 0) reducing_.Expect(peer);  // a new incarnation of it
    if (peer == options_.trainer) {
      trainer_up_ = true;
      SayHello();
    }
    outbox_->Flush();
  });
  reducing_.Flush();
}

void Worker::OnPeerDown(const WorkerId& peer, const Status& why) {
  control_.Post([this, peer, why] {
    LOG_INFO("{} is gone: {}", peer.value, why.message());
    const Timepoint now = Clock::now();
    if (peer == options_.trainer) {
      trainer_up_ = false;
      trainer_lost_ = now;
      outbox_->Forget(peer);  // the next one asks for what it needs
      return;
    }
    if (FindMember(peer) == nullptr)
      outbox_->Forget(peer);  // a joiner; if it comes again, it asks again
    if (state_fetch_) state_fetch_->OnDonorLost(peer, now);
    std::vector<GradientFetch*> fetches;  // one may end, and with it another may begin
    for (const auto& [step, fetch] : gradient_fetches_) fetches.push_back(fetch.get());
    for (GradientFetch* fetch : fetches) fetch->OnDonorLost(peer, now);
  });
}

void Worker::SayHello() {
  if (!replica_) {  // what was begun for a trainer that is gone is of no use to this one
    ForgetEverything();
    ++loadings_;
  }
  Send(options_.trainer, Lane::kControl,
       protocol::Hello{.id = options_.id,
                       .incarnation = options_.incarnation,
                       .cluster = options_.cluster,
                       .addresses = endpoint_->addresses(),
                       .threads = static_cast<std::uint64_t>(options_.threads),
                       .term = term_,
                       .serving = replica_.has_value(),
                       .numeric_class = options_.numeric_class,
                       .region = options_.region},
       {});
  if (leave_by_) Tell(protocol::Leaving{ToSeconds(*leave_by_ - Clock::now())});
}

void Worker::Beat() {
  const Timepoint now = Clock::now();
  if (trainer_up_) {
    const net::Traffic traffic = endpoint_->traffic();
    const protocol::Heartbeat beat{term_, compute_.finished(), compute_.queued(),
                                   traffic.bytes_sent, compute_.busy_seconds()};
    Send(options_.trainer, Lane::kControl, beat, {});
    // On both connections, as a lost packet holds up one of them for seconds. What the data lane
    // has no room for is not worth waiting for.
    (void)endpoint_->Send(options_.trainer, Lane::kData, {beat, {}});
  } else if (now - trainer_lost_ > options_.trainer_patience) {
    GiveUp(DeadlineExceeded("no trainer for " +
                            std::to_string(ToSeconds(options_.trainer_patience)) + " s"));
    return;
  } else {
    MissTrainer(now);
  }
  if (state_fetch_) state_fetch_->OnTick(now);
  std::vector<GradientFetch*> fetches;
  for (const auto& [step, fetch] : gradient_fetches_) fetches.push_back(fetch.get());
  for (GradientFetch* fetch : fetches) fetch->OnTick(now);
  control_.PostAt(now + kBeatInterval, [this] { Beat(); });
}

void Worker::MissTrainer(Timepoint now) {
  if (now - std::max(trainer_lost_, missed_) < kMissInterval) return;
  missed_ = now;
  LOG_INFO("no trainer for {:.0f} s; waiting for the next one, {:.0f} s at most",
           ToSeconds(now - trainer_lost_), ToSeconds(options_.trainer_patience));
}

void Worker::GiveUp(const Status& why) {
  if (trainer_up_) {
    Send(options_.trainer, Lane::kControl,
         protocol::Failure{why.message(), protocol::FailureClassOf(why)}, {});
  }
  Stop(why);
}

Status Worker::Ask(Duration limit, std::function<Status()> question) {
  const auto answer = std::make_shared<std::promise<Status>>();
  auto status = answer->get_future();
  control_.Post([answer, question = std::move(question)] { answer->set_value(question()); });
  if (status.wait_for(limit) != std::future_status::ready) {
    return DeadlineExceeded("the worker's loop does not answer");
  }
  return status.get();
}

Status Worker::CheckHealth(Duration limit) {
  return Ask(limit, [] { return Status(); });
}

Status Worker::CheckReady(Duration limit) {
  return Ask(limit, [this] { return Readiness(); });
}

Status Worker::Readiness() const {
  if (!replica_) return Unavailable(job_ ? "loading its state" : "waiting for the trainer");
  const protocol::Member* self = FindMember(options_.id);
  if (self == nullptr || self->incarnation != options_.incarnation) {
    return Unavailable("not in the roster yet");
  }
  if (leave_by_) return Unavailable("leaving");
  if (replica_->version().value + 1 < decided_.value) {
    return Unavailable("at version " + std::to_string(replica_->version().value) + " of " +
                       std::to_string(decided_.value));
  }
  return Status();
}

void Worker::Handle(const WorkerId& from, Envelope envelope) {
  using namespace protocol;  // the alternatives of Message
  std::visit(
      [&](auto& message) {
        using M = std::decay_t<decltype(message)>;
        if constexpr (std::is_same_v<M, Forward> || std::is_same_v<M, Backward> ||
                      std::is_same_v<M, Parcel> || std::is_same_v<M, Fetched>) {
          On(from, message, std::move(envelope.payload));
        } else if constexpr (std::is_same_v<M, Fetch>) {
          Donor::Answer answer = donor_.OnFetch(message);
          Send(from, Lane::kData, std::move(answer.message), std::move(answer.payload));
        } else if (from != options_.trainer) {
          metrics_.refused.Add("control from a peer");  // control comes from the trainer alone
        } else if constexpr (std::is_same_v<M, Welcome>) {
          On(message);
        } else if constexpr (std::is_same_v<M, Shutdown>) {
          if (message.term < term_) return;
          LOG_INFO("dismissed: {}", message.reason);
          Stop(message.rejoin ? Status(StatusCode::kAborted, message.reason) : Status());
        } else if (replica_) {
          OnControl(message);
        } else if constexpr (std::is_same_v<M, Rollback>) {
          if (message.term < term_ || message.generation <= welcome_.generation) return;
          term_ = message.term;
          Do(action::BeginAnew{message});
        } else if (early_control_.size() < kEarlyControlMax) {
          early_control_.push_back(message);
        }
      },
      envelope.message);
}

/// From the trainer, for the replica.
void Worker::OnControl(const protocol::Message& message) {
  using namespace protocol;
  std::visit(
      [&](const auto& m) {
        using M = std::decay_t<decltype(m)>;
        if constexpr (std::is_same_v<M, Roster>) {
          Actions actions = replica_->OnRoster(m);
          if (!WasRefused(actions)) {
            ConnectTo(m.members);
            for (const Member& member : roster_.members) {
              const auto same = [&](const Member& other) { return other.id == member.id; };
              if (std::none_of(m.members.begin(), m.members.end(), same)) Drop(member.id);
            }
            roster_ = m;
          }
          Carry(std::move(actions));
        } else if constexpr (std::is_same_v<M, Resend>) {
          Carry(replica_->OnResend(m));
        } else if constexpr (std::is_same_v<M, Redirect>) {
          Carry(replica_->OnRedirect(m));
        } else if constexpr (std::is_same_v<M, Revoke>) {
          Carry(replica_->OnRevoke(m));
        } else if constexpr (std::is_same_v<M, Void>) {
          Carry(replica_->OnVoid(m));
        } else if constexpr (std::is_same_v<M, Thaw>) {
          Carry(replica_->OnThaw(m));
        } else if constexpr (std::is_same_v<M, Rollback>) {
          Carry(replica_->OnRollback(m));
        } else if constexpr (std::is_same_v<M, Takeover>) {
          Carry(replica_->OnTakeover(m));
        } else if constexpr (std::is_same_v<M, HandOver>) {
          Carry(replica_->OnHandOver(m));
        } else if constexpr (std::is_same_v<M, Reduce>) {
          Carry(replica_->OnReduce(m));
        } else if constexpr (std::is_same_v<M, Commit>) {
          decided_ = std::max(decided_, protocol::Version(m.record.step.value + 1));
          Carry(replica_->OnCommit(m));
        } else if constexpr (std::is_same_v<M, WriteCheckpoint>) {
          Carry(replica_->OnWriteCheckpoint(m));
        } else if constexpr (std::is_same_v<M, PinState>) {
          Carry(replica_->OnPinState(m));
        } else if constexpr (std::is_same_v<M, UnpinState>) {
          Carry(replica_->OnUnpinState(m));
        }
      },
      message);
  if (replica_) term_ = std::max(term_, replica_->term());
}

// ---- getting a state ----

void Worker::On(const protocol::Welcome& welcome) {
  // Who serves already is told otherwise: by Takeover, Rollback or Shutdown. Not so by a new
  // trainer that was told by this worker that it holds nothing.
  if (welcome.term < term_ || (replica_ && welcome.term == term_)) return;
  auto job = api::FromJsonText(welcome.job_json);
  if (!job.ok()) {
    GiveUp(job.status().WithContext("the trainer's job cannot be read"));
    return;
  }
  term_ = welcome.term;
  job_ = *std::move(job);
  BeginLoading(welcome);
}

void Worker::BeginLoading(const protocol::Welcome& welcome) {
  ForgetEverything();
  compute_.DropTasks();
  donor_.Clear();
  const std::shared_future<void> forgotten = reducing_.ForgetBefore(welcome.generation);
  // Behind what uses the stage of before, and once nobody holds it: there is room for one.
  compute_.PostState([forgotten] { forgotten.wait(); });
  welcome_ = welcome;
  ++loadings_;
  metrics_.stages = welcome.stage_count;
  metrics_.stage = static_cast<std::int64_t>(welcome.stage.value);
  if (welcome.donors.empty()) {
    LOG_INFO("serving stage {} of {}, from version {}", welcome.stage.value, welcome.stage_count,
             welcome.version.value);
    LoadFrom(welcome, std::nullopt);
    return;
  }
  LOG_INFO("joining stage {} of {} at version {}", welcome.stage.value, welcome.stage_count,
           welcome.version.value);
  for (const protocol::Member& donor : welcome.donors) {
    endpoint_->Connect(donor.id, donor.addresses);
  }
  state_fetch_ = std::make_unique<StateFetch>(
      welcome,
      [this](const WorkerId& to, const protocol::Fetch& fetch) {
        Send(to, Lane::kData, fetch, {});
      },
      [this, loading = loadings_](Result<checkpoint::TensorLookup> tensors) {
        control_.Post([this, loading, tensors = std::move(tensors)]() mutable {
          if (loading != loadings_) return;
          state_fetch_.reset();
          if (!tensors.ok()) {
            Stop(Status(StatusCode::kAborted,
                        "the state cannot be copied: " + tensors.status().message()));
            return;
          }
          LoadFrom(welcome_, *std::move(tensors));
        });
      });
  state_fetch_->OnTick(Clock::now());
}

void Worker::LoadFrom(const protocol::Welcome& welcome,
                      std::optional<checkpoint::TensorLookup> tensors) {
  compute_.PostState([this, job = *job_, welcome, tensors = std::move(tensors),
                      loading = loadings_] {
    auto stage = std::make_shared<Result<std::unique_ptr<model::Stage>>>(
        tensors
            ? TakeStage(job, welcome, *tensors, options_.threads, options_.device,
                        options_.create_stage)
            : LoadStage(job, welcome, options_.threads, options_.device, options_.create_stage));
    const Digest state = stage->ok() ? (**stage)->StateDigest() : Digest{};
    control_.Post(
        [this, stage, state, loading] { StageIsReady(std::move(*stage), state, loading); });
  });
}

void Worker::StageIsReady(Result<std::unique_ptr<model::Stage>> stage, const Digest& state,
                          std::uint64_t loading) {
  if (loading != loadings_) return;  // something else is being loaded already
  if (!stage.ok()) {
    const Status why = stage.status().WithContext("stage " + std::to_string(welcome_.stage.value) +
                                                  " cannot be set up");
    const bool from_bucket =
        welcome_.checkpoint_uri.starts_with("s3://") || job_->spec.model.uri.starts_with("s3://");
    if (stage.status().code() != StatusCode::kUnavailable || !from_bucket) return GiveUp(why);
    LOG_WARN("{}; trying again", why.message());
    control_.PostAt(Clock::now() + kLoadRetry, [this, loading] {
      if (loading == loadings_) LoadFrom(welcome_, std::nullopt);
    });
    return;
  }
  stage_ = *std::move(stage);
  protocol::ReplicaOptions options{
      .self = {options_.id, options_.incarnation, welcome_.stage, options_.cluster,
               endpoint_->addresses(), options_.region},
      .stages = welcome_.stage_count,
      .keeps_previous_version = job_->spec.training.stepMode == api::StepMode::kDelayed,
      .term = term_,
      .generation = welcome_.generation,
      .floor = welcome_.floor,
      .version = welcome_.version,
      .retained_bytes_max = options_.retained_bytes_max};
  for (const model::ParameterGroup& group : stage_->groups()) options.groups.push_back(group.index);
  replica_.emplace(std::move(options));
  metrics_.version = welcome_.version.value;
  Tell(protocol::Ready{welcome_.generation, welcome_.stage, welcome_.version, state});
  for (const protocol::Message& message : std::exchange(early_control_, {})) {
    if (replica_) OnControl(message);
  }
}

/// Whatever belongs to a replica that is no more.
void Worker::ForgetEverything() {
  replica_.reset();
  stage_.reset();
  progress_ = {};
  inputs_.clear();
  gradients_.clear();
  outputs_.clear();
  returns_.clear();
  sums_.clear();
  parcels_.Clear();
  state_fetch_.reset();
  gradient_fetches_.clear();
  early_control_.clear();
  decided_ = {};
}

void Worker::ConnectTo(const std::vector<protocol::Member>& members) {
  for (const protocol::Member& member : members) {
    if (dropped_.erase(member.id) > 0) reducing_.Expect(member.id);
    // One of each two dials; which one does not matter for what flows.
    if (options_.id < member.id) endpoint_->Connect(member.id, member.addresses);
  }
}

const protocol::Member* Worker::FindMember(const WorkerId& id) const {
  const auto found = std::find_if(roster_.members.begin(), roster_.members.end(),
                                  [&](const protocol::Member& member) { return member.id == id; });
  return found == roster_.members.end() ? nullptr : &*found;
}

std::string Worker::RegionOf(const WorkerId& peer) const {
  const protocol::Member* member = FindMember(peer);
  return member == nullptr ? "" : member->region;
}

void Worker::Drop(const WorkerId& peer) {
  dropped_.insert(peer);
  outbox_->Forget(peer);
  reducing_.Forget(peer);
  endpoint_->Disconnect(peer);
}

// ---- data ----

void Worker::On(const WorkerId& from, const protocol::Forward& frame, Bytes payload) {
  if (!replica_) return;
  const std::uint64_t tokens = std::uint64_t{frame.sequences} * frame.tokens_per_sequence;
  if (frame.tokens.size() % sizeof(std::int32_t) != 0 ||
      frame.tokens.size() / sizeof(std::int32_t) != tokens) {
    metrics_.refused.Add("tokens");
    return;
  }
  // The first frame of a key is the one that counts; the replica refuses the others.
  const auto [it, fresh] = inputs_.try_emplace(frame.key, Input{frame, std::move(payload)});
  protocol::Actions actions = replica_->OnForward(from, frame);
  if (fresh && WasRefused(actions)) inputs_.erase(it);
  Carry(std::move(actions));
}

void Worker::On(const WorkerId& from, const protocol::Backward& frame, Bytes payload) {
  if (!replica_) return;
  const auto [it, fresh] = gradients_.try_emplace(frame.key, std::move(payload));
  protocol::Actions actions = replica_->OnBackward(from, frame);
  if (fresh && WasRefused(actions)) gradients_.erase(it);
  Carry(std::move(actions));
}

void Worker::On(const WorkerId& from, const protocol::Parcel& parcel, Bytes payload) {
  if (!IsCurrent(parcel.generation) || parcel.stage != welcome_.stage) {
    metrics_.refused.Add("parcel");
    return;
  }
  std::map<protocol::GroupIndex, std::uint64_t> group_bytes;
  const std::uint64_t element =
      job_->spec.training.accumulation == api::Accumulation::kExact ? 8 : 4;
  for (const model::ParameterGroup& group : stage_->groups()) {
    group_bytes[group.index] = group.count * element;
  }
  const auto whole = parcels_.Add(from, parcel, payload, group_bytes);
  if (!whole.ok()) {
    metrics_.refused.Add("parcel");
    LOG_WARN("{}", whole.status().message());
  } else if (*whole != nullptr) {
    Carry(replica_->OnParcel(from, parcel.step, parcel.generation, (*whole)->level,
                             (*whole)->contributions));
  }
}

void Worker::On(const WorkerId& from, const protocol::Fetched& fetched, Bytes payload) {
  const Timepoint now = Clock::now();
  if (state_fetch_ && state_fetch_->OnFetched(from, fetched, payload, now)) return;
  const auto it = gradient_fetches_.find(protocol::Step(fetched.version.value));
  if (it != gradient_fetches_.end()) it->second->OnFetched(from, fetched, payload, now);
}

// ---- sending ----

void Worker::Send(const WorkerId& to, Lane lane, protocol::Message message, Bytes payload) {
  if (dropped_.contains(to)) return;  // evicted: what it needs is asked of the trainer
  const Status status = outbox_->Send(to, lane, {std::move(message), std::move(payload)});
  if (!status.ok()) GiveUp(Internal("cannot send to " + to.value + ": " + status.message()));
}

/// To the trainer, if there is one: what the next one needs to know it asks for.
void Worker::Tell(protocol::Message message) {
  if (!trainer_up_) return;
  FlushProgress();
  Send(options_.trainer, Lane::kControl, std::move(message), {});
}

void Worker::FlushProgress() {
  if (progress_.reports.empty()) return;
  protocol::Progress progress = std::exchange(progress_, {});
  if (trainer_up_) Send(options_.trainer, Lane::kControl, std::move(progress), {});
}

}  // namespace swarm::stage

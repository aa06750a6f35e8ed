#include "worker/stage/worker.h"

#include <algorithm>

#include "api/parse.h"
#include "base/log.h"
#include "base/machine_memory.h"
#include "worker/protocol/failure.h"
#include "worker/protocol/roster.h"

namespace swarm::stage {

using net::Envelope;
using net::Lane;
using protocol::WorkerId;

namespace {

constexpr Duration kTick = std::chrono::milliseconds(250);
constexpr std::size_t kEarlyControlMax = 65536;

/// Reports that wait for each other are sent when there are this many.
constexpr std::size_t kReportsBeforeFlush = 64;

/// The span that begins with the arrival of an output or an input gradient; none of other messages.
std::optional<Span> ArrivalOf(const Envelope& envelope) {
  const auto span = [&](SpanKind kind, const protocol::TaskKey& key) {
    return Span{.kind = kind,
                .stage = key.stage.value,
                .step = key.step.value,
                .microbatch = key.microbatch.value,
                .bytes = envelope.payload.size(),
                .begin = Clock::now()};
  };
  if (const auto* forward = std::get_if<protocol::Forward>(&envelope.message)) {
    return span(SpanKind::kReceiveActivations, forward->key);
  }
  if (const auto* backward = std::get_if<protocol::Backward>(&envelope.message)) {
    return span(SpanKind::kReceiveGradients, backward->key);
  }
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<Worker>> Worker::Start(WorkerOptions options,
                                              const net::MakeEndpoint& make_endpoint,
                                              std::shared_ptr<const KeptState> kept) {
  std::unique_ptr<Worker> worker(new Worker(std::move(options), std::move(kept)));
  // Peers may call before make_endpoint has returned. Their calls wait until it has.
  std::promise<bool> made;
  std::promise<void> installed;
  worker->control_.Post([&, worker = worker.get()] {
    if (!made.get_future().get()) return;
    for (const auto& [outbox, kind] : {std::pair(&worker->outbox_, MemoryKind::kOutbox),
                                       std::pair(&worker->relays_, MemoryKind::kRelayed),
                                       std::pair(&worker->parcels_, MemoryKind::kParcels)}) {
      *outbox = std::make_unique<net::Outbox>(
          worker->endpoint_.get(), &worker->control_,
          [worker, kind](std::int64_t bytes) { worker->memory_.Change(kind, bytes); });
    }
    worker->reducing_.Attach(worker->endpoint_.get());
    worker->trainer_.Begin(Clock::now());
    worker->endpoint_->Connect(worker->options_.trainer, worker->options_.trainer_addresses);
    worker->Tick();
    installed.set_value();
  });
  auto endpoint = net::DetourEndpoint::Create(worker->options_.id, worker.get(), make_endpoint);
  if (endpoint.ok()) worker->endpoint_ = *std::move(endpoint);
  made.set_value(endpoint.ok());
  if (!endpoint.ok()) {
    worker->control_.Stop();
    return endpoint.status();
  }
  Await(installed.get_future().share());
  return worker;
}

Worker::Worker(WorkerOptions options, std::shared_ptr<const KeptState> kept)
    : options_(std::move(options)),
      neighbours_(options_.id),
      kept_(std::move(kept)),
      loader_(options_, control_, compute_, *this),
      runner_({options_, control_, compute_, reducing_, metrics_, memory_, *this}),
      reducing_(
          options_.id, options_.threads, &metrics_, &memory_,
          [this](ReducedSum sum) {
            control_.Post(
                [this, sum = std::move(sum)]() mutable { runner_.OnSum(std::move(sum)); });
          },
          [this](protocol::Awaiting awaiting) {
            control_.Post(
                [this, awaiting = std::move(awaiting)]() mutable { Tell(std::move(awaiting)); });
          },
          [this](const Status& why) {
            control_.Post([this, why] { GiveUp(why.WithContext("a step's sum cannot be read")); });
          }) {}

Worker::~Worker() {
  StopLoops();
  // The endpoint goes last, when nothing is sent any more.
  endpoint_.reset();
}

void Worker::StopLoops() {
  // A loop that has stopped drops what is posted to it, so the order among these does not matter.
  control_.Stop();
  compute_.Stop();
  reducing_.Stop();
  runner_.Stop();
}

std::shared_ptr<const KeptState> Worker::TakeState() {
  StopLoops();
  return runner_.TakeState();
}

void Worker::Stop(const Status& why) {
  if (!has_ended_.exchange(true)) ended_.set_value(why);
}

void Worker::Leave(Duration grace) {
  control_.Post([this, grace] {
    if (leave_by_) return;
    if (!trainer_.up() || runner_.replica() == nullptr) {
      Stop(Status());  // there is nothing to hand over, or no trainer to arrange it
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
  if (std::holds_alternative<protocol::PeerBeat>(envelope.message)) {
    // The next tick is early enough: in a large swarm most messages are beats.
    const std::lock_guard lock(heard_mutex_);
    heard_[from] = Clock::now();
    return;
  }
  std::optional<Span> arrival;
  if (options_.spans != nullptr) arrival = ArrivalOf(envelope);
  control_.Post([this, from, arrival, envelope = std::move(envelope)]() mutable {
    Handle(from, std::move(envelope));
    if (!arrival) return;
    arrival->end = Clock::now();
    options_.spans->Record(*arrival);
  });
}

void Worker::OnPeerUp(const WorkerId& peer) {
  control_.Post([this, peer] {
    if (peers_.Readmit(peer)) reducing_.Expect(peer);  // a new incarnation of it
    if (peer == options_.trainer) {
      trainer_.OnUp();
      SayHello();
    }
    for (net::Outbox* outbox : Outboxes()) outbox->Flush();
  });
  reducing_.Flush();
}

void Worker::OnPeerDown(const WorkerId& peer, const Status& why) {
  control_.Post([this, peer, why] {
    LOG_INFO("{} is gone: {}", peer.value, why.message());
    const Timepoint now = Clock::now();
    if (peer == options_.trainer) {
      trainer_.OnDown(now);
      outbox_->Forget(peer);  // the next trainer asks for the messages that it needs
      return;
    }
    // A joiner that is not in the roster asks again when it comes back.
    if (!peers_.IsMember(peer)) outbox_->Forget(peer);
    loader_.OnDonorLost(peer, now);
    runner_.OnDonorLost(peer, now);
  });
}

void Worker::SayHello() {
  // Whatever this worker began for an earlier trainer is of no use to this one.
  if (runner_.replica() == nullptr) ForgetEverything();
  Send(options_.trainer, Lane::kControl,
       protocol::Hello{.id = options_.id,
                       .incarnation = options_.incarnation,
                       .cluster = options_.cluster,
                       .addresses = endpoint_->addresses(),
                       .threads = static_cast<std::uint64_t>(options_.threads),
                       .term = term_,
                       .serving = runner_.replica() != nullptr,
                       .numeric_class = options_.numeric_class,
                       .region = options_.region,
                       .pod = options_.pod,
                       .offers = kept_ != nullptr,
                       .offer = kept_ ? kept_->held() : protocol::HeldState()},
       {});
  if (leave_by_) Tell(protocol::Leaving{ToSeconds(*leave_by_ - Clock::now())});
}

/// With other regions, as far as they are known.
std::vector<protocol::Heartbeat::Exchanged> Worker::ExchangedWithRegions() const {
  std::vector<protocol::Heartbeat::Exchanged> exchanged;
  if (options_.region.empty()) return exchanged;
  for (const auto& [region, bytes] : metrics_.region_bytes.Read()) {
    if (region.empty() || region == options_.region) continue;
    exchanged.push_back({region, bytes.sent + bytes.copied});
  }
  return exchanged;
}

void Worker::Beat(Timepoint now) {
  const Duration period = protocol::HeartbeatPeriod(peers_.members());
  // A roster that has become smaller shortens the time that the last beat has named.
  next_beat_ = std::min(next_beat_, now + period);
  if (now < next_beat_) return;
  next_beat_ = now + period;
  const net::Traffic traffic = endpoint_->traffic();
  const protocol::Heartbeat beat{term_,
                                 compute_.finished() + runner_.states().finished(),
                                 compute_.queued() + runner_.states().queued(),
                                 traffic.bytes_sent,
                                 compute_.busy_seconds(),
                                 copied_bytes_,
                                 ToSeconds(period),
                                 metrics_.summing.seconds(),
                                 ExchangedWithRegions()};
  Send(options_.trainer, Lane::kControl, beat, {});
  // On both connections, as a lost packet holds up one of them for seconds. A beat for which the
  // data lane has no room is dropped.
  (void)endpoint_->Send(options_.trainer, Lane::kData, {beat, {}});
}

void Worker::Tick() {
  const Timepoint now = Clock::now();
  if (trainer_.up()) {
    Beat(now);
  } else if (trainer_.Missed(now) > options_.trainer_patience) {
    GiveUp(DeadlineExceeded("no trainer for " +
                            std::to_string(ToSeconds(options_.trainer_patience)) + " s"));
    return;
  } else if (trainer_.IsTimeToLog(now)) {
    LOG_INFO("no trainer for {:.0f} s; waiting for the next one, {:.0f} s at most",
             ToSeconds(trainer_.Missed(now)), ToSeconds(options_.trainer_patience));
  }
  TendNeighbours(now);
  loader_.OnTick(now);
  runner_.OnTick(now);
  control_.PostAt(now + kTick, [this] { Tick(); });
}

void Worker::GiveUp(const Status& why) {
  if (trainer_.up()) {
    Send(options_.trainer, Lane::kControl,
         protocol::Failure{why.message(), protocol::FailureClassOf(why), welcome_.generation}, {});
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
  const protocol::Replica* replica = runner_.replica();
  if (replica == nullptr)
    return Unavailable(job_ ? "loading its state" : "waiting for the trainer");
  const protocol::Member* self = protocol::FindMember(replica->roster(), options_.id);
  if (self == nullptr || self->incarnation != options_.incarnation) {
    return Unavailable("not in the roster yet");
  }
  if (leave_by_) return Unavailable("leaving");
  if (replica->version().value + 1 < runner_.decided().value) {
    return Unavailable("at version " + std::to_string(replica->version().value) + " of " +
                       std::to_string(runner_.decided().value));
  }
  return Status();
}

void Worker::Handle(const WorkerId& from, Envelope envelope) {
  using namespace protocol;  // the alternatives of Message
  neighbours_.OnExchange(from, envelope.message, Clock::now());
  std::visit(
      [&](auto& message) {
        using M = std::decay_t<decltype(message)>;
        if constexpr (std::is_same_v<M, Forward>) {
          runner_.OnForward(from, message, std::move(envelope.payload));
        } else if constexpr (std::is_same_v<M, Backward>) {
          runner_.OnBackward(from, message, std::move(envelope.payload));
        } else if constexpr (std::is_same_v<M, Parcel>) {
          runner_.OnParcel(from, message, envelope.payload);
        } else if constexpr (std::is_same_v<M, Fetched>) {
          const Timepoint now = Clock::now();
          if (loader_.OnFetched(from, message, envelope.payload, now) ||
              runner_.OnFetched(from, message, envelope.payload, now)) {
            NoteCopied(from, envelope.payload.size());
          }
        } else if constexpr (std::is_same_v<M, Fetch>) {
          runner_.OnFetch(from, message);
        } else if constexpr (std::is_same_v<M, Relayed>) {
          Relay(from, std::move(message), std::move(envelope.payload));
        } else if (from != options_.trainer) {
          metrics_.refused.Add("control from a peer");  // control comes from the trainer alone
        } else if constexpr (std::is_same_v<M, Welcome>) {
          HandleWelcome(message);
        } else if constexpr (std::is_same_v<M, Detours>) {
          HandleDetours(message);
        } else if constexpr (std::is_same_v<M, protocol::Meet>) {
          if (message.term >= term_) HandleMeet(message);
        } else if constexpr (std::is_same_v<M, Retire>) {
          if (message.term >= term_ && options_.on_retired) options_.on_retired(message.workers);
        } else if constexpr (std::is_same_v<M, Shutdown>) {
          if (message.term < term_) return;
          LOG_INFO("dismissed: {}", message.reason);
          Stop(message.rejoin ? Status(StatusCode::kAborted, message.reason) : Status());
        } else if (runner_.replica() != nullptr) {
          HandleControl(message);
        } else if constexpr (std::is_same_v<M, Rollback>) {
          if (message.term < term_ || message.generation <= welcome_.generation) return;
          BeginAnew(message);
        } else if (early_control_.size() < kEarlyControlMax) {
          early_control_.push_back(message);
        }
      },
      envelope.message);
}

void Worker::NoteCopied(const WorkerId& from, std::uint64_t bytes) {
  copied_bytes_ += bytes;
  // A joiner copies before it has a roster.
  const auto donor = std::ranges::find(welcome_.donors, from, &protocol::Member::id);
  metrics_.region_bytes.AddCopied(
      donor != welcome_.donors.end() ? donor->region : peers_.RegionOf(from), bytes);
}

/// From the trainer, for the replica.
void Worker::HandleControl(const protocol::Message& message) {
  runner_.OnControl(message);
  if (runner_.replica() == nullptr || runner_.replica()->term() <= term_) return;
  term_ = runner_.replica()->term();
  endpoint_->SetDetours({});  // the new trainer orders its own
}

// ---- getting a state ----

void Worker::HandleWelcome(const protocol::Welcome& welcome) {
  // A worker that serves already is directed by Takeover, Rollback or Shutdown. A new trainer sends
  // a welcome only if this worker told it that it holds nothing.
  if (welcome.term < term_) return;
  if (runner_.replica() != nullptr && welcome.term == term_) return;
  auto job = api::FromJsonText(welcome.job_json);
  if (!job.ok()) {
    GiveUp(job.status().WithContext("the trainer's job cannot be read"));
    return;
  }
  term_ = welcome.term;
  job_ = *std::move(job);
  FillInHostMemory(options_.memory, &*job_);
  BeginLoading(welcome);
}

void Worker::BeginLoading(const protocol::Welcome& welcome) {
  std::map<std::string, double> round_trips = RoundTrips();
  ForgetEverything();
  runner_.MakeRoom(welcome.generation);
  welcome_ = welcome;
  metrics_.stages = welcome.stage_count;
  metrics_.stage = static_cast<std::int64_t>(welcome.stage.value);
  loader_.Begin(*job_, welcome, std::move(round_trips), std::exchange(kept_, nullptr));
}

std::map<std::string, double> Worker::RoundTrips() const {
  std::map<std::string, double> shortest;
  if (runner_.replica() == nullptr) return shortest;
  for (const auto& [peer, link] : endpoint_->links()) {
    const protocol::Member* member = protocol::FindMember(runner_.replica()->roster(), peer);
    if (member == nullptr || member->region.empty() || link.round_trip <= 0) continue;
    const auto [known, fresh] = shortest.emplace(member->region, link.round_trip);
    if (!fresh) known->second = std::min(known->second, link.round_trip);
  }
  return shortest;
}

void Worker::ForgetEverything() {
  loader_.Cancel();
  runner_.Forget();
  neighbours_.Clear();
  endpoint_->SetDetours({});
  progress_ = {};
  early_control_.clear();
}

void Worker::SendFetch(const WorkerId& to, const protocol::Fetch& fetch) {
  Send(to, Lane::kData, fetch, {});
}

void Worker::Meet(const protocol::Member& donor) { endpoint_->Know(donor.id, WaysTo(donor)); }

std::vector<protocol::Address> Worker::WaysTo(const protocol::Member& peer) const {
  return protocol::WaysTo(peer, options_.cluster);
}

void Worker::OnCopyFailed(const Status& why) {
  Stop(Status(StatusCode::kAborted, "the state cannot be copied: " + why.message()));
}

void Worker::SetBudget(const model::Stage& stage) {
  std::uint64_t budget = options_.memory_budget;
  if (budget == 0) budget = job_->spec.workers.memoryBudgetBytes;
  if (budget == 0) {
    const std::uint64_t memory = options_.memory > 0 ? options_.memory : UsableMemory();
    budget = DefaultBudget(memory, StateBytes(*job_, stage));
  }
  memory_.SetBudget(budget);
  outbox_->SetBytesMax(memory_.share(MemoryKind::kOutbox));
  relays_->SetBytesMax(memory_.share(MemoryKind::kRelayed));
  LOG_INFO("may hold {} MiB beside its state", budget >> 20);
}

void Worker::OnLoaded(std::unique_ptr<model::Stage> stage, const Digest& digest) {
  SetBudget(*stage);
  runner_.Install(*job_, welcome_, std::move(stage),
                  {.self = {options_.id, options_.incarnation, welcome_.stage, options_.cluster,
                            endpoint_->addresses(), options_.region, options_.pod},
                   .stages = welcome_.stage_count,
                   .keeps_previous_version = job_->spec.training.overlaps_steps(),
                   .term = term_,
                   .generation = welcome_.generation,
                   .floor = welcome_.floor,
                   .version = welcome_.version});
  Tell(protocol::Ready{welcome_.generation, welcome_.stage, welcome_.version, digest});
  for (const protocol::Message& message : std::exchange(early_control_, {})) {
    if (runner_.replica() != nullptr) HandleControl(message);
  }
}

void Worker::BeginAnew(const protocol::Rollback& request) {
  protocol::Welcome welcome = welcome_;
  welcome.generation = request.generation;
  welcome.stage = request.stage;
  welcome.version = request.version;
  welcome.checkpoint_uri = request.checkpoint_uri;
  welcome.manifest = request.manifest;
  welcome.donors.clear();
  welcome.goes_on = false;
  term_ = std::max(term_, request.term);
  BeginLoading(welcome);
}

void Worker::Rejoin(const std::string& reason) {
  LOG_INFO("{}", reason);
  Stop(Status(StatusCode::kAborted, reason));
}

// ---- peers ----

void Worker::OnRoster(const protocol::Roster& roster) {
  for (const WorkerId& peer : peers_.Replace(roster)) Evict(peer);
  Meet(roster.members.elements());
}

void Worker::OnRosterChange(const protocol::RosterChange& change) {
  for (const WorkerId& peer : change.gone) Evict(peer);
  peers_.Change(change);
  Meet(change.came);
}

void Worker::Meet(const std::vector<protocol::Member>& members) {
  const protocol::Roster& roster = runner_.replica()->roster();
  link_reports_.OnRoster(roster);
  const bool tied = job_->spec.model.trains_tied_head();
  const auto change = neighbours_.OnRoster(roster, welcome_.stage_count, tied, Clock::now());
  for (const protocol::Member& member : members) {
    if (peers_.Readmit(member.id)) reducing_.Expect(member.id);
    if (member.id != options_.id && !neighbours_.Has(member.id)) {
      endpoint_->Know(member.id, WaysTo(member));
    }
  }
  const protocol::Member self{.id = options_.id, .addresses = endpoint_->addresses()};
  for (const WorkerId& id : change.came) {
    const protocol::Member& peer = *FindMember(roster, id);
    if (IsDialler(self, peer)) endpoint_->Connect(id, WaysTo(peer));
  }
  for (const WorkerId& id : change.gone) {
    const protocol::Member* member = FindMember(roster, id);
    if (member != nullptr) endpoint_->Know(id, WaysTo(*member));
  }
}

void Worker::HandleMeet(const protocol::Meet& meet) {
  if (peers_.IsMember(meet.joiner.id)) return;  // it has come meanwhile
  endpoint_->Know(meet.joiner.id, WaysTo(meet.joiner));
  // To send something is to dial. What the joiner asks for keeps the connection open.
  (void)endpoint_->Send(meet.joiner.id, Lane::kControl, {protocol::PeerBeat{}, {}});
}

void Worker::TendNeighbours(Timepoint now) {
  std::map<WorkerId, Timepoint> heard;
  {
    const std::lock_guard lock(heard_mutex_);
    heard.swap(heard_);
  }
  for (const auto& [peer, at] : heard) neighbours_.OnBeat(peer, at);
  protocol::Neighbours::Due due = neighbours_.OnTick(now);
  for (const WorkerId& peer : due.beats) {
    // A beat that cannot be sent now is of no use later.
    (void)endpoint_->Send(peer, Lane::kControl, {protocol::PeerBeat{}, {}});
  }
  if (options_.reports_links) {
    if (auto links = link_reports_.OnLook(endpoint_->links(), now)) Tell(*std::move(links));
  }
  if (!due.report) return;
  metrics_.unheard_neighbours = due.report->peers.size();
  Tell(*std::move(due.report));
}

void Worker::HandleDetours(const protocol::Detours& detours) {
  if (detours.term < term_) return;
  std::map<WorkerId, WorkerId> via;
  for (const protocol::Detour& detour : detours.detours) via[detour.peer] = detour.via;
  endpoint_->SetDetours(std::move(via));
  for (net::Outbox* outbox : Outboxes()) outbox->Flush();
  reducing_.Flush();
}

void Worker::Relay(const WorkerId& from, protocol::Relayed relayed, Bytes payload) {
  // Its sender must have sent it itself, so no message travels in a circle.
  if (from != relayed.from || !peers_.IsMember(relayed.to)) {
    metrics_.refused.Add("to be relayed for strangers");
    return;
  }
  const WorkerId to = relayed.to;
  const std::uint64_t bytes = payload.size();
  // What has no room is lost, as on any network, and asked for again.
  if (!relays_->Send(to, Lane::kData, {std::move(relayed), std::move(payload)}).ok()) {
    metrics_.refused.Add("too much to relay");
    return;
  }
  metrics_.relayed_bytes += bytes;
}

void Worker::Evict(const WorkerId& peer) {
  peers_.Evict(peer);
  for (net::Outbox* outbox : Outboxes()) outbox->Forget(peer);
  reducing_.Forget(peer);
  endpoint_->Disconnect(peer);
}

// ---- sending ----

void Worker::Send(const WorkerId& to, Lane lane, protocol::Message message, Bytes payload) {
  if (peers_.IsEvicted(to)) return;
  const bool is_parcel = std::holds_alternative<protocol::Parcel>(message);
  neighbours_.OnExchange(to, message, Clock::now());
  const Status status =
      (is_parcel ? parcels_ : outbox_)->Send(to, lane, {std::move(message), std::move(payload)});
  if (status.code() == StatusCode::kResourceExhausted) {
    // Lost, as on any network: whoever needs it asks again, or the trainer issues it anew.
    metrics_.refused.Add("too much to send");
    return;
  }
  if (!status.ok()) GiveUp(Internal("cannot send to " + to.value + ": " + status.message()));
}

/// While there is no trainer, the message is dropped: the next trainer asks for what it needs.
void Worker::Tell(protocol::Message message) {
  if (!trainer_.up()) return;
  FlushProgress();
  Send(options_.trainer, Lane::kControl, std::move(message), {});
}

void Worker::Report(const protocol::Progress& progress) {
  progress_.reports.insert(progress_.reports.end(), progress.reports.begin(),
                           progress.reports.end());
  if (progress_.reports.size() >= kReportsBeforeFlush) FlushProgress();
}

void Worker::FlushProgress() {
  if (progress_.reports.empty()) return;
  protocol::Progress progress = std::exchange(progress_, {});
  if (trainer_.up()) Send(options_.trainer, Lane::kControl, std::move(progress), {});
}

}  // namespace swarm::stage

#include "worker/stage/replica_runner.h"

#include <algorithm>
#include <cstring>

#include "api/model/memory.h"
#include "base/log.h"
#include "worker/protocol/roster.h"
#include "worker/stage/task_digests.h"

namespace swarm::stage {

using net::Lane;
using protocol::TaskKey;
using protocol::WorkerId;

namespace {

std::vector<std::int32_t> TokensOf(const protocol::Forward& frame) {
  std::vector<std::int32_t> ids(frame.tokens.size() / sizeof(std::int32_t));
  if (!ids.empty()) std::memcpy(ids.data(), frame.tokens.data(), ids.size() * sizeof(ids[0]));
  return ids;
}

bool WasRefused(const protocol::Actions& actions) {
  return actions.size() == 1 && std::holds_alternative<protocol::action::Refuse>(actions.front());
}

}  // namespace

ReplicaRunner::ReplicaRunner(const RunnerParts& parts)
    : parts_(parts),
      payloads_(&parts_.memory),
      parcels_(&parts_.memory),
      held_(parts, {[this] { OnMoments(); },
                    [this](const protocol::CommitRecord& record, const Status& status) {
                      OnApplied(record, status);
                    },
                    [this](const protocol::CommitRecord& record,
                           const std::shared_ptr<model::Stage>& stage,
                           const std::vector<bool>& own) { ReportState(record, stage, own); }}),
      states_(&parts_.memory,
              [this](const Status& why) {
                parts_.control.Post([this, why] {
                  parts_.host.GiveUp(why.WithContext("the state of the stage cannot be read"));
                });
              }),
      donor_(
          &parts_.memory,
          [this](protocol::Generation generation, protocol::Step step, protocol::GroupIndex group,
                 const protocol::Attempt& k) -> std::shared_ptr<const checkpoint::PiecedBytes> {
            const auto it = sums_.find({step, group});
            if (it == sums_.end()) return nullptr;
            const ReducedSum& sum = it->second.sum;
            return sum.generation == generation && sum.k == k ? sum.pieces : nullptr;
          }) {}

void ReplicaRunner::Stop() {
  states_.Stop();
  storage_.Stop();
}

std::shared_ptr<const KeptState> ReplicaRunner::TakeState() {
  if (!stage_ || held_.half_applied()) return nullptr;
  // What the stage says counts: an update may have been done of which the replica has not heard.
  const protocol::Version version = stage_->version();
  auto state = KeptState::Make(welcome_.stage, version, stage_->Snapshot());
  Forget();
  if (state.ok()) return *std::move(state);
  LOG_WARN("the state cannot be kept: {}", state.status().message());
  return nullptr;
}

void ReplicaRunner::Install(const api::SwarmJob& job, const protocol::Welcome& welcome,
                            std::shared_ptr<model::Stage> stage, protocol::ReplicaOptions options) {
  SWARM_CHECK(!replica_, "a replica is served already");
  job_ = job;
  welcome_ = welcome;
  stage_ = std::move(stage);
  for (const model::ParameterGroup& group : stage_->groups()) options.groups.push_back(group.index);
  step_bytes_ = 0;
  for (std::uint64_t fragment = 0; fragment < stage_->fragments(); ++fragment) {
    std::uint64_t of_step = 0;
    for (const auto& [group, bytes] : GroupBytes(protocol::Step(fragment))) of_step += bytes;
    step_bytes_ = std::max(step_bytes_, of_step);
  }
  // A stage that replaces the model in an experiment may have no slice.
  const auto slice = model::ComputeSlice(job_.spec.model.config, welcome_.stage.value,
                                         welcome_.stage_count, job_.spec.pipeline.boundary);
  slice_ = slice.ok() ? *slice : model::Slice();
  const auto share = [&](MemoryKind kind) { return parts_.memory.share(kind); };
  options.retained_bytes_max = share(MemoryKind::kRetained);
  options.parked_bytes_max = share(MemoryKind::kInputs);
  // The sum that is being decided has its place, too.
  const std::uint64_t room = share(MemoryKind::kKeptSums) / std::max<std::uint64_t>(step_bytes_, 1);
  kept_steps_max_ = std::max(std::max<std::uint64_t>(room, 1) - 1, protocol::kKeptStepsMin);
  options.kept_steps_max = kept_steps_max_;
  parts_.compute.PostState([this, stage = stage_] {
    parts_.compute.SetStage({.tasks_at_once = stage->tasks_at_once(),
                             .work = [stage] { return stage->Work(); },
                             .in_pass = [stage] { return stage->InPass(); },
                             .abandon = [stage] { stage->Abandon(); }});
  });
  held_.Install(welcome.generation, stage_, CountParts(), welcome.version);
  options.whole = held_.whole();
  replica_.emplace(std::move(options));
  LOG_DEBUG("account: serves {} {}", welcome.generation.value, welcome.stage.value);
  parts_.metrics.version = welcome.version.value;
}

void ReplicaRunner::Forget() {
  parts_.compute.PostState([this] { parts_.compute.SetStage({}); });
  replica_.reset();
  stage_.reset();
  decided_ = {};
  payloads_.Clear();
  sums_.clear();
  parcels_.Clear();
  gradient_fetches_.clear();
  held_.Forget();
  waiting_sum_.reset();
}

void ReplicaRunner::MakeRoom(protocol::Generation generation) {
  parts_.compute.DropTasks();
  donor_.Clear();
  const std::shared_future<void> forgotten = parts_.reducing.ForgetBefore(generation);
  // Behind the work that uses the previous stage, and gives it to be read.
  parts_.compute.PostState([this, forgotten] {
    Await(forgotten);
    Await(states_.Drain());
  });
}

Span ReplicaRunner::SpanOf(SpanKind kind, const TaskKey& key) const {
  Span span = SpanOf(kind, key.step);
  span.microbatch = key.microbatch.value;
  return span;
}

void ReplicaRunner::NoteTask(SpanKind kind, const TaskKey& key, const Computed& computed) const {
  if (parts_.options.spans == nullptr) return;
  parts_.options.spans->Record({.kind = kind,
                                .stage = key.stage.value,
                                .step = key.step.value,
                                .microbatch = key.microbatch.value,
                                .begin = computed.begin,
                                .end = computed.end});
}

std::map<protocol::GroupIndex, std::uint64_t> ReplicaRunner::GroupBytes(protocol::Step step) const {
  const std::uint64_t element =
      job_.spec.training.accumulation == api::Accumulation::kExact ? 8 : 4;
  std::map<protocol::GroupIndex, std::uint64_t> bytes;
  for (const model::ParameterGroup& group : stage_->SumGroups(step)) {
    bytes[group.index] = group.count * element;
  }
  return bytes;
}

std::uint64_t ReplicaRunner::GraphBytesOf(const protocol::Forward& frame) const {
  const std::uint64_t tokens =
      std::uint64_t{frame.sequences} * (std::max(frame.tokens_per_sequence, 1u) - 1);
  return api::GraphBytes(job_.spec.model.config, job_.spec.pipeline.recompute,
                         static_cast<std::uint64_t>(slice_.count), tokens, slice_.head);
}

void ReplicaRunner::Carry(protocol::Actions actions) {
  for (const protocol::Action& action : actions) {
    std::visit([this](const auto& a) { Do(a); }, action);
  }
  parts_.metrics.queued_tasks = replica_ ? replica_->queued() : 0;
  parts_.metrics.parked_frames = replica_ ? replica_->parked() : 0;
}

// ---- messages ----

void ReplicaRunner::OnControl(const protocol::Message& message) {
  if (!replica_) return;
  protocol::Actions actions = replica_->OnControl(message);
  if (!WasRefused(actions)) Follow(message);
  Carry(std::move(actions));
}

void ReplicaRunner::Follow(const protocol::Message& message) {
  if (const auto* commit = std::get_if<protocol::Commit>(&message)) {
    decided_ = std::max(decided_, protocol::Version(commit->record.step.value + 1));
  } else if (const auto* roster = std::get_if<protocol::Roster>(&message)) {
    if (roster->epoch == replica_->roster().epoch) parts_.host.OnRoster(*roster);
  } else if (const auto* change = std::get_if<protocol::RosterChange>(&message)) {
    if (change->epoch == replica_->roster().epoch) parts_.host.OnRosterChange(*change);
  }
}

void ReplicaRunner::OnForward(const WorkerId& from, const protocol::Forward& frame, Bytes payload) {
  if (!replica_) return;
  const std::uint64_t tokens = std::uint64_t{frame.sequences} * frame.tokens_per_sequence;
  if (frame.tokens.size() % sizeof(std::int32_t) != 0 ||
      frame.tokens.size() / sizeof(std::int32_t) != tokens) {
    parts_.metrics.refused.Add("tokens");
    return;
  }
  // The first frame of a key is the one that counts; the replica refuses the others.
  const std::uint64_t bytes = payload.size();
  const bool fresh = payloads_.AddInput(frame, std::move(payload));
  protocol::Actions actions = replica_->OnForward(from, frame, bytes);
  if (fresh && WasRefused(actions)) payloads_.DropInput(frame.key);
  Carry(std::move(actions));
}

void ReplicaRunner::OnBackward(const WorkerId& from, const protocol::Backward& frame,
                               Bytes payload) {
  if (!replica_) return;
  const std::uint64_t bytes = payload.size();
  const bool fresh = payloads_.AddGradient(frame.key, std::move(payload));
  protocol::Actions actions = replica_->OnBackward(from, frame, bytes);
  if (fresh && WasRefused(actions)) payloads_.DropGradient(frame.key);
  Carry(std::move(actions));
}

void ReplicaRunner::OnParcel(const WorkerId& from, const protocol::Parcel& parcel,
                             const Bytes& payload) {
  if (!IsCurrent(parcel.generation) || parcel.stage != welcome_.stage) {
    parts_.metrics.refused.Add("parcel");
    return;
  }
  const auto whole = parcels_.Add(from, parcel, payload, GroupBytes(parcel.step));
  if (!whole.ok()) {
    parts_.metrics.refused.Add("parcel");
    LOG_WARN("{}", whole.status().message());
  } else if (*whole != nullptr) {
    Carry(replica_->OnParcel(from, parcel.step, parcel.generation, (*whole)->level,
                             (*whole)->contributions));
  }
}

bool ReplicaRunner::OnFetched(const WorkerId& from, const protocol::Fetched& fetched,
                              const Bytes& payload, Timepoint now) {
  if (held_.OnFetched(from, fetched, payload, now)) return true;
  const auto it = gradient_fetches_.find(protocol::Step(fetched.version.value));
  return it != gradient_fetches_.end() && it->second.fetch->OnFetched(from, fetched, payload, now);
}

/// A copy, because a call to one fetch may end it and begin another.
std::vector<GradientFetch*> ReplicaRunner::Fetches() const {
  std::vector<GradientFetch*> fetches;
  for (const auto& [step, fetch] : gradient_fetches_) fetches.push_back(fetch.fetch.get());
  return fetches;
}

void ReplicaRunner::OnTick(Timepoint now) {
  for (GradientFetch* fetch : Fetches()) fetch->OnTick(now);
  held_.OnTick(now);
}

void ReplicaRunner::OnDonorLost(const WorkerId& donor, Timepoint now) {
  for (GradientFetch* fetch : Fetches()) fetch->OnDonorLost(donor, now);
  held_.OnDonorLost(donor, now);
}

// ---- execution ----

void ReplicaRunner::Do(const protocol::action::RunForward& a) {
  const Payloads::Input* input = payloads_.FindInput(a.key);
  if (input == nullptr) return;
  parts_.compute.PostTask(
      a.key, ComputeKind::kForward,
      [this, a, stage = stage_, audited = IsAudited(input->frame), frame = input->frame,
       boundary = payloads_.TakeBoundary(a.key)](const std::shared_ptr<Compute::Turn>& turn) {
        const std::vector<std::int32_t> ids = TokensOf(frame);
        const std::uint64_t input = audited ? InputDigest(frame, boundary) : 0;
        if (a.keep_graph) EnterPhase(chaos::WorkPhase::kForward, a.key.step);
        stage->SubmitForward(
            a.key, a.version, {frame.sequences, frame.tokens_per_sequence, ids}, boundary,
            a.keep_graph, [this, a, frame, turn, input](Result<model::ForwardResult> result) {
              const Computed computed = turn->Finish();
              NoteTask(SpanKind::kForward, a.key, computed);
              protocol::TaskDigests digests;
              if (input != 0 && result.ok()) digests = {input, OutputDigest(*result)};
              parts_.control.Post([this, a, frame, result = std::move(result),
                                   seconds = computed.seconds(), digests]() mutable {
                OnForward(a, frame, std::move(result), seconds, digests);
              });
            });
      });
}

void ReplicaRunner::OnForward(const protocol::action::RunForward& task,
                              const protocol::Forward& frame, Result<model::ForwardResult> result,
                              double seconds, const protocol::TaskDigests& digests) {
  const TaskKey& key = task.key;
  if (!IsCurrent(key.generation)) return;
  // Commits do not wait behind tasks: an evaluation that was issued twice, or a task that
  // began before this loop heard of the commit, is of no use any more.
  if (result.status().code() == StatusCode::kNotFound) {
    Carry(replica_->OnForwardGone(key));
    return;
  }
  if (!result.ok()) {
    parts_.host.GiveUp(result.status().WithContext("forward failed"));
    return;
  }
  parts_.metrics.forward_seconds.Observe(seconds);
  const std::uint64_t bytes = result->boundary.size();
  payloads_.KeepOutput(key, std::move(result->boundary));
  if (task.keep_graph) payloads_.NoteGraph(key, GraphBytesOf(frame));
  Carry(replica_->OnForwardDone(key, result->loss, {seconds, bytes}, digests));
}

void ReplicaRunner::Do(const protocol::action::RunBackward& a) {
  const Payloads::Input* input = payloads_.FindInput(a.key);
  parts_.compute.PostTask(
      a.key, ComputeKind::kBackward,
      [this, key = a.key, stage = stage_, audited = input != nullptr && IsAudited(input->frame),
       gradient = payloads_.TakeGradient(a.key)](const std::shared_ptr<Compute::Turn>& turn) {
        EnterPhase(chaos::WorkPhase::kBackward, key.step);
        const bool errs = parts_.options.errs && parts_.options.errs();
        const std::uint64_t taken = audited ? DigestOfBytes(gradient) : 0;
        stage->SubmitBackward(
            key, errs ? Corrupted(gradient) : gradient,
            [this, key, turn, audited, errs, taken](Result<model::BackwardResult> result) {
              const Computed computed = turn->Finish();
              NoteTask(SpanKind::kBackward, key, computed);
              if (errs && result.ok()) result->gradient = Corrupted(result->gradient);
              protocol::TaskDigests digests;
              if (audited && result.ok()) digests = {taken, OutputDigest(*result)};
              parts_.control.Post(
                  [this, key, result = std::move(result), seconds = computed.seconds(),
                   digests]() mutable { OnBackward(key, std::move(result), seconds, digests); });
            });
      });
}

void ReplicaRunner::OnBackward(const TaskKey& key, Result<model::BackwardResult> result,
                               double seconds, const protocol::TaskDigests& digests) {
  if (!IsCurrent(key.generation)) return;
  if (result.status().code() == StatusCode::kNotFound) {
    LOG_DEBUG("the attempt was closed before its backward");
    return;
  }
  if (!result.ok()) {
    parts_.host.GiveUp(result.status().WithContext("backward failed"));
    return;
  }
  parts_.metrics.backward_seconds.Observe(seconds);
  const std::uint64_t bytes = result->gradient.size();
  payloads_.KeepReturned(key, std::move(result->gradient));
  Carry(replica_->OnBackwardDone(key, {seconds, bytes}, result->fits, digests));
}

/// Empty for a worker that is not in the roster.
std::string ReplicaRunner::RegionOf(const WorkerId& id) const {
  const protocol::Member* member = protocol::FindMember(replica_->roster(), id);
  return member == nullptr ? "" : member->region;
}

void ReplicaRunner::Do(const protocol::action::SendForward& a) {
  const Bytes output = payloads_.Output(a.source);
  Span span = SpanOf(SpanKind::kSendActivations, a.source);
  span.bytes = output.size();
  const SpanTimer timer(parts_.options.spans, span);
  parts_.metrics.boundary_bytes_forward += output.size();
  parts_.metrics.region_bytes.AddSent(RegionOf(a.to), output.size());
  parts_.host.Send(a.to, Lane::kData, a.message, output);
}

void ReplicaRunner::Do(const protocol::action::SendBackward& a) {
  const Bytes gradient = payloads_.Returned(a.source);
  Span span = SpanOf(SpanKind::kSendGradients, a.source);
  span.bytes = gradient.size();
  const SpanTimer timer(parts_.options.spans, span);
  parts_.metrics.boundary_bytes_backward += gradient.size();
  parts_.metrics.region_bytes.AddSent(RegionOf(a.to), gradient.size());
  parts_.host.Send(a.to, Lane::kData, a.message, gradient);
}

void ReplicaRunner::Do(const protocol::action::FoldGradients& a) {
  payloads_.DropInput(a.key);
  parts_.compute.PostState([spans = parts_.options.spans, span = SpanOf(SpanKind::kFold, a.key),
                            stage = stage_, key = a.key] {
    const SpanTimer timer(spans, span);
    const Status status = stage->Fold(key);
    SWARM_CHECK(status.ok(), status.message());
    LOG_DEBUG("account: folds {} {} {}", key.generation.value, key.step.value,
              key.microbatch.value);
  });
}

void ReplicaRunner::Do(const protocol::action::DropTask& a) {
  payloads_.DropInput(a.key);
  payloads_.DropGradient(a.key);
  parts_.compute.Drop(a.key);
  parts_.compute.PostState([stage = stage_, key = a.key] { stage->Drop(key); });
}

void ReplicaRunner::Do(const protocol::action::ReleaseRetained& a) {
  if (a.gradient) {
    payloads_.DropReturned(a.key);
  } else {
    payloads_.DropOutput(a.key);
  }
}

// ---- reduce and commit ----

void ReplicaRunner::Do(const protocol::action::StartReduce& a) {
  std::map<WorkerId, std::string> regions;
  for (const WorkerId& id : a.reduce.participants) regions.emplace(id, RegionOf(id));
  // Behind all folds of the step, which stand in the same queue already.
  parts_.compute.PostState([this, stage = stage_, reduce = a.reduce,
                            codec = job_.spec.training.reduceCodec, regions = std::move(regions)] {
    EnterPhase(chaos::WorkPhase::kReduce, reduce.step);
    LOG_DEBUG("account: sums {} {} {} {} {}", reduce.generation.value, reduce.step.value,
              reduce.group.value, reduce.k.term.value, reduce.k.n);
    for (std::uint64_t i = 0; i < stage->groups().size(); ++i) {
      if (stage->groups()[i].index != reduce.group) continue;
      parts_.reducing.Begin(reduce, stage, i, stage->BeginAccumulator(reduce.step, i), codec,
                            regions);
    }
  });
  if (!a.reduce.holders.empty()) waiting_sum_.reset();
  held_.OnReduce(a.reduce);
}

void ReplicaRunner::Do(const protocol::action::StopReduces& a) {
  // Through the same queue as the reduces, so that it comes after them.
  parts_.compute.PostState([this, generation = welcome_.generation, step = a.step] {
    parts_.reducing.Abandon(generation, step);
  });
  held_.StopReduce();
  waiting_sum_.reset();
}

void ReplicaRunner::OnSum(ReducedSum sum) {
  if (!IsCurrent(sum.generation)) return;
  const bool divided = !sum.holders.empty();
  const bool waits = std::ranges::any_of(
      sum.parts, [&](const protocol::PartDigest& part) { return !held_.Has(part.name.part); });
  if (waits) {
    waiting_sum_ = std::move(sum);
    return;
  }
  const auto [step, group, k] = std::tuple(sum.step, sum.group, sum.k);
  const Digest digest = divided ? Digest() : sum.pieces->digest();
  std::vector<protocol::TensorNorm> norms = sum.norms;
  protocol::Actions actions =
      replica_->OnGroupReduced(step, group, k, digest, std::move(norms), sum.parts);
  if (actions.empty()) return;  // superseded
  if (Spans* const spans = parts_.options.spans) {
    Span span = SpanOf(SpanKind::kSum, step);
    span.bytes = sum.elements.size();
    span.begin = sum.begun;
    span.end = Clock::now();
    spans->Record(span);
  }
  KeepSum(std::move(sum));
  Carry(std::move(actions));
}

void ReplicaRunner::KeepSum(ReducedSum sum) {
  std::uint64_t bytes = sum.holders.empty() ? sum.elements.size() : 0;
  const std::uint64_t element =
      job_.spec.training.accumulation == api::Accumulation::kExact ? 8 : 4;
  for (const protocol::PartDigest& part : sum.parts) {
    bytes += stage_->parameters()[part.name.part].count * element;
  }
  MemoryCharge charge(&parts_.memory, MemoryKind::kKeptSums, bytes);
  sums_[{sum.step, sum.group}] = {std::move(sum), std::move(charge)};
}

void ReplicaRunner::Do(const protocol::action::FetchGradients& a) {
  std::vector<GradientFetch::Group> groups;
  const auto bytes = GroupBytes(a.record.step);
  const protocol::GroupResult* divided = held_.FindDivided(a.record);
  for (const model::ParameterGroup& group : stage_->groups()) {
    if (divided != nullptr && divided->group == group.index) continue;
    groups.push_back({group.index, bytes.at(group.index)});
  }
  const protocol::Roster& roster = replica_->roster();
  const std::vector<WorkerId> donors =
      protocol::ReplicasOf(roster, welcome_.stage, parts_.options.id, welcome_.donors);
  StepFetch& step = gradient_fetches_[a.record.step];
  step.charge = MemoryCharge(&parts_.memory, MemoryKind::kKeptSums, step_bytes_);
  step.fetch = std::make_unique<GradientFetch>(
      a.record, groups, donors,
      [this](const WorkerId& to, const protocol::Fetch& request) {
        parts_.host.Send(to, Lane::kData, request, {});
      },
      [this, record = a.record](Result<std::vector<Bytes>> gradients) {
        // Not here: the fetch is still on the stack.
        parts_.control.Post([this, record, gradients = std::move(gradients)]() mutable {
          OnGradients(record, std::move(gradients));
        });
      },
      protocol::FarFrom(parts_.options.region, donors,
                        roster.members.empty() ? welcome_.donors : roster.members.elements()));
  step.fetch->OnTick(Clock::now());
}

void ReplicaRunner::OnGradients(const protocol::CommitRecord& record,
                                Result<std::vector<Bytes>> gradients) {
  if (!IsCurrent(record.generation) || gradient_fetches_.erase(record.step) == 0) return;
  if (!gradients.ok()) {
    Do(protocol::action::Rejoin{"the gradients of step " + std::to_string(record.step.value) +
                                " cannot be fetched: " + gradients.status().message()});
    return;
  }
  const std::size_t first = held_.FindDivided(record) != nullptr ? 1 : 0;  // groups()[0] is divided
  for (std::size_t i = 0; i < gradients->size(); ++i) {
    const protocol::GroupIndex group = stage_->groups()[first + i].index;
    const auto result = std::find_if(record.groups.begin(), record.groups.end(),
                                     [&](const auto& r) { return r.group == group; });
    ReducedSum sum{.generation = record.generation,
                   .step = record.step,
                   .group = group,
                   .k = result->k,
                   .elements = (*gradients)[i],
                   .pieces = {},
                   .norms = {},
                   .parts = {},
                   .holders = {}};
    sum.pieces = std::make_shared<const checkpoint::PiecedBytes>(std::vector<Bytes>{sum.elements});
    KeepSum(std::move(sum));
  }
  // Sums that the others made at another scale level must be read at that level.
  if (!record.groups.empty() && !record.skip) {
    const auto own = std::find_if(record.groups.begin(), record.groups.end(), [&](const auto& r) {
      return r.group == stage_->groups().front().index;
    });
    Do(protocol::action::ClearStep{record.step, own->level});
  }
  Carry(replica_->OnGradientsFetched(record.step));
}

void ReplicaRunner::Do(const protocol::action::ApplyCommit& a) {
  std::vector<Bytes> sums;
  for (const model::ParameterGroup& group : stage_->groups()) {
    const auto sum = sums_.find({a.record.step, group.index});
    sums.push_back(sum == sums_.end() ? Bytes() : sum->second.sum.elements);
  }
  if (const protocol::GroupResult* divided = held_.FindDivided(a.record)) {
    // A worker that holds no part has no sum, and needs none.
    if (sums.front().empty()) {
      sums.front() = Bytes::Wrap(nullptr, GroupBytes(a.record.step).at(divided->group), nullptr);
    }
    return held_.Apply(a.record, std::move(sums), a.holds);
  }
  parts_.compute.PostState([this, span = SpanOf(SpanKind::kUpdate, a.record.step), stage = stage_,
                            record = a.record, sums = std::move(sums)]() mutable {
    EnterPhase(chaos::WorkPhase::kCommit, record.step);
    const auto timer = std::make_shared<const SpanTimer>(parts_.options.spans, span);
    stage->SubmitApply(std::move(sums), record.clip, record.learning_rate, record.skip,
                       [this, record, timer, weak = std::weak_ptr(stage)](const Status& status) {
                         parts_.control.Post([this, record, status] { OnApplied(record, status); });
                         if (const auto stage = weak.lock(); stage && status.ok())
                           ReportState(record, stage);
                       });
  });
}

void ReplicaRunner::OnApplied(const protocol::CommitRecord& record, const Status& status) {
  if (!IsCurrent(record.generation)) return;
  if (status.code() == StatusCode::kUnavailable) {
    Do(protocol::action::Rejoin{status.message()});
    return;
  }
  if (!status.ok()) {
    parts_.host.GiveUp(status.WithContext(
        "the commit of step " + std::to_string(record.step.value) + " cannot be applied"));
    return;
  }
  ++parts_.metrics.commits;
  parts_.metrics.version = record.step.value + 1;
  Carry(replica_->OnApplied(record.step));
  if (replica_) held_.OnVersion(replica_->version());
}

void ReplicaRunner::ReportState(const protocol::CommitRecord& record,
                                const std::shared_ptr<model::Stage>& stage,
                                const std::vector<bool>& own) {
  std::vector<protocol::PartName> names;
  std::vector<StateReader::State> parts;
  for (std::uint64_t part = 0; part < own.size(); ++part) {
    if (!own[part]) continue;
    names.push_back({stage->groups().front().index, part});
    parts.push_back(stage->PartState(part));
  }
  const auto report = [this, stage, names, generation = record.generation, step = record.step](
                          const Digest& state, const std::vector<Digest>& digests) {
    std::vector<protocol::PartDigest> held;
    for (std::size_t i = 0; i < names.size(); ++i) held.push_back({names[i], digests[i]});
    parts_.control.Post([this, generation, step, state, held = std::move(held)] {
      if (IsCurrent(generation)) Carry(replica_->OnStateRead(step, state, held));
    });
  };
  states_.ComputeDigests(stage->State(), std::move(parts), report);
}

std::size_t ReplicaRunner::CountParts() const {
  if (job_.spec.pipeline.shardUpdate == api::ShardUpdate::kNone) return 0;
  return static_cast<std::size_t>(
      std::ranges::count(stage_->parameters(), 0u, &model::ParameterSlot::group));
}

void ReplicaRunner::OnMoments() {
  if (auto sum = std::exchange(waiting_sum_, std::nullopt)) OnSum(*std::move(sum));
}

void ReplicaRunner::OnFetch(const WorkerId& from, const protocol::Fetch& fetch) {
  const bool of_part =
      fetch.kind == protocol::FetchKind::kMoments || fetch.kind == protocol::FetchKind::kWeights;
  if (of_part) return held_.OnFetch(from, fetch);
  Donor::Answer answer = donor_.OnFetch(fetch);
  parts_.host.Send(from, Lane::kData, std::move(answer.message), std::move(answer.payload));
}

void ReplicaRunner::Do(const protocol::action::ReleaseStep& a) {
  payloads_.DropUpTo(a.step);
  parcels_.DropUpTo(a.step);
  parts_.reducing.Release(welcome_.generation, a.step);
  parts_.compute.PostState([stage = stage_, step = a.step] { stage->ReleaseStep(step); });
}

void ReplicaRunner::Do(const protocol::action::ReleaseSums& a) {
  std::erase_if(sums_, [&](const auto& entry) { return entry.first.first < a.below; });
  held_.Release(a.below);
}

void ReplicaRunner::Do(const protocol::action::ClearStep& a) {
  parts_.compute.PostState([stage = stage_, a, generation = welcome_.generation] {
    const Status status = stage->SetScaleLevel(a.step, static_cast<unsigned>(a.level));
    SWARM_CHECK(status.ok(), status.message());
    LOG_DEBUG("account: clears {} {}", generation.value, a.step.value);
  });
}

// ---- copies of the state ----

void ReplicaRunner::CopyState(std::function<StateReader::State(const model::Stage&)> read,
                              std::function<void(std::shared_ptr<const StateReader::Copy>)> done) {
  // Behind the commits that stand in the same queue already, and before the next one.
  parts_.compute.PostState([this, stage = stage_, read = std::move(read), done = std::move(done)] {
    stage->Settle();
    states_.MakeCopy(read(*stage), [stage, done](auto copy) { done(std::move(copy)); });
  });
}

void ReplicaRunner::Do(const protocol::action::TakeCheckpoint& a) {
  const auto read = [request = a.request](const model::Stage& stage) {
    StateReader::State state;
    // The request may have been made to an earlier process of this worker's name.
    const bool holds = std::ranges::all_of(request.moments, [&](const protocol::PartName& name) {
      return stage.HoldsPart(name.part);
    });
    if (!holds) return state;
    if (request.weights) state = stage.State();
    for (const protocol::PartName& name : request.moments) {
      const StateReader::State part = stage.PartState(name.part);
      state.insert(state.end(), part.begin() + 1, part.end());
    }
    std::ranges::sort(state, {}, &checkpoint::NamedTensor::name);
    return state;
  };
  CopyState(read, [this, request = a.request, job = job_, welcome = welcome_](auto copy) {
    storage_.Post([this, request, job, welcome, copy = std::move(copy)] {
      protocol::CheckpointWritten written{
          request.generation, request.version, welcome.stage, {}, {},
          request.weights,    request.moments};
      Result<std::vector<protocol::CheckpointFile>> files =
          FailedPrecondition("the moments of some parts are not here");
      if (!copy->tensors.empty()) files = WriteStage(job, request, welcome, copy->tensors);
      if (files.ok()) {
        written.files = std::move(*files);
      } else {
        written.error = files.status().message();
      }
      parts_.control.Post([this, written] { parts_.host.Tell(written); });
    });
  });
}

void ReplicaRunner::Do(const protocol::action::PinCopy& a) {
  const auto read = [](const model::Stage& stage) { return stage.State(); };
  CopyState(read, [this, request = a.request](auto copy) {
    auto cut = checkpoint::CutState(copy->tensors);
    auto state =
        cut.ok() ? std::make_shared<const checkpoint::PiecedBytes>(*std::move(cut)) : nullptr;
    parts_.control.Post([this, request, state, status = cut.status(), bytes = copy->bytes] {
      if (!IsCurrent(request.generation)) return;
      if (state) donor_.Pin(request.generation, request.version, state, bytes);
      parts_.host.Tell(protocol::StatePinned{request.generation, request.version,
                                             state ? state->digest() : Digest{}, status.message(),
                                             kept_steps_max_});
    });
  });
}

void ReplicaRunner::Do(const protocol::action::UnpinCopy& a) {
  donor_.Unpin(welcome_.generation, a.version);
}

// ---- leaving ----

void ReplicaRunner::Do(const protocol::action::SendParcel& a) {
  // Behind all folds of the step.
  protocol::Parcel header;
  header.generation = welcome_.generation;
  header.step = a.step;
  header.stage = welcome_.stage;
  header.level = a.level;
  header.contributions = a.contributions;
  parts_.compute.PostState([this, stage = stage_, a, header] {
    auto pieces = std::make_shared<std::vector<std::pair<protocol::Parcel, Bytes>>>();
    for (std::uint64_t i = 0; i < stage->groups().size(); ++i) {
      auto some = CutParcel(header, stage->groups()[i].index, stage->Accumulator(a.step, i));
      pieces->insert(pieces->end(), some.begin(), some.end());
    }
    parts_.control.Post([this, to = a.to, pieces, generation = header.generation] {
      if (!IsCurrent(generation)) return;
      for (auto& [piece, payload] : *pieces) {
        parts_.metrics.region_bytes.AddSent(RegionOf(to), payload.size());
        parts_.host.Send(to, Lane::kData, piece, payload);
      }
    });
  });
}

void ReplicaRunner::Do(const protocol::action::AdoptParcel& a) {
  const Parcels::Whole* parcel = parcels_.Find(a.donor, a.step);
  if (parcel == nullptr) return;
  parts_.compute.PostState([stage = stage_, step = a.step, parts = parcel->parts,
                            contributions = parcel->contributions,
                            generation = welcome_.generation] {
    for (std::uint64_t i = 0; i < stage->groups().size(); ++i) {
      for (const Parcels::Part& part : parts) {
        if (part.group != stage->groups()[i].index) continue;
        const Status status = stage->Absorb(step, i, part.elements, part.finite);
        SWARM_CHECK(status.ok(), status.message());
      }
    }
    for (const protocol::Contribution& c : contributions) {
      LOG_DEBUG("account: folds {} {} {}", generation.value, step.value, c.microbatch.value);
    }
  });
  parcels_.Drop(a.donor, a.step);
}

void ReplicaRunner::Do(const protocol::action::DropParcel& a) { parcels_.Drop(a.donor, a.step); }

// ---- the trainer ----

void ReplicaRunner::Do(const protocol::action::Tell& a) {
  if (const auto* progress = std::get_if<protocol::Progress>(&a.message)) {
    parts_.host.Report(*progress);
  } else {
    parts_.host.Tell(a.message);
  }
}

void ReplicaRunner::Do(const protocol::action::Refuse& a) {
  parts_.metrics.refused.Add(a.reason);
  LOG_DEBUG("refused ({}): step {} microbatch {} stage {}", a.reason, a.key.step.value,
            a.key.microbatch.value, a.key.stage.value);
}

}  // namespace swarm::stage

// Worker: what the replica decides is done here.
#include <cstring>

#include "base/log.h"
#include "worker/stage/worker.h"

namespace swarm::stage {

using net::Lane;
using protocol::TaskKey;
using protocol::WorkerId;

namespace {

/// Reports that are sent together at the latest.
constexpr std::size_t kReportsBeforeFlush = 64;

std::vector<std::int32_t> TokensOf(const protocol::Forward& frame) {
  std::vector<std::int32_t> ids(frame.tokens.size() / sizeof(std::int32_t));
  if (!ids.empty()) std::memcpy(ids.data(), frame.tokens.data(), ids.size() * sizeof(ids[0]));
  return ids;
}

/// Takes the bytes out of `from`; nothing if there are none.
Bytes Extract(std::map<TaskKey, Bytes>& from, const TaskKey& key) {
  auto node = from.extract(key);
  return node ? std::move(node.mapped()) : Bytes();
}

Bytes Find(const std::map<TaskKey, Bytes>& in, const TaskKey& key) {
  const auto it = in.find(key);
  return it == in.end() ? Bytes() : it->second;
}

}  // namespace

void Worker::Carry(protocol::Actions actions) {
  for (const protocol::Action& action : actions) {
    std::visit([this](const auto& a) { Do(a); }, action);
  }
  metrics_.queued_tasks = replica_ ? replica_->queued() : 0;
  metrics_.parked_frames = replica_ ? replica_->parked() : 0;
}

// ---- execution ----

void Worker::Do(const protocol::action::RunForward& a) {
  const auto it = inputs_.find(a.key);
  if (it == inputs_.end()) return;
  compute_.PostTask(
      a.key.step, ComputeKind::kForward,
      [this, a, stage = stage_, frame = it->second.frame, input = std::move(it->second.boundary)] {
        const std::vector<std::int32_t> ids = TokensOf(frame);
        if (a.keep_graph) EnterPhase(chaos::WorkPhase::kForward, a.key.step);
        const Timepoint begin = Clock::now();
        auto result = std::make_shared<Result<model::ForwardResult>>(
            stage->Forward(a.key, a.version, {frame.sequences, frame.tokens_per_sequence, ids},
                           input, a.keep_graph));
        const double seconds = ToSeconds(Clock::now() - begin);
        control_.Post([this, key = a.key, result, seconds] {
          if (!IsCurrent(key.generation)) return;
          // Commits do not wait behind tasks, and one that was closed while it waited here is of no
          // use to anybody.
          if (result->status().code() == StatusCode::kNotFound) {
            Carry(replica_->OnForwardGone(key));
            return;
          }
          if (!result->ok()) {
            GiveUp(result->status().WithContext("forward failed"));
            return;
          }
          metrics_.forward_seconds.Observe(seconds);
          const std::uint64_t bytes = (*result)->boundary.size();
          outputs_[key] = std::move((*result)->boundary);
          Carry(replica_->OnForwardDone(key, (*result)->loss, {seconds, bytes}));
        });
      });
}

void Worker::Do(const protocol::action::RunBackward& a) {
  compute_.PostTask(a.key.step, ComputeKind::kBackward,
                    [this, a, stage = stage_, gradient = Extract(gradients_, a.key)] {
                      EnterPhase(chaos::WorkPhase::kBackward, a.key.step);
                      const Timepoint begin = Clock::now();
                      auto result =
                          std::make_shared<Result<Bytes>>(stage->Backward(a.key, gradient));
                      const bool fits = result->ok() && stage->Fits(a.key);
                      const double seconds = ToSeconds(Clock::now() - begin);
                      control_.Post([this, key = a.key, result, seconds, fits] {
                        if (!IsCurrent(key.generation)) return;
                        if (result->status().code() == StatusCode::kNotFound) {
                          LOG_DEBUG("the attempt was closed before its backward");
                          return;
                        }
                        if (!result->ok()) {
                          GiveUp(result->status().WithContext("backward failed"));
                          return;
                        }
                        metrics_.backward_seconds.Observe(seconds);
                        const std::uint64_t bytes = (*result)->size();
                        returns_[key] = std::move(**result);
                        Carry(replica_->OnBackwardDone(key, {seconds, bytes}, fits));
                      });
                    });
}

void Worker::Do(const protocol::action::SendForward& a) {
  const Bytes output = Find(outputs_, a.source);
  metrics_.boundary_bytes_forward += output.size();
  metrics_.region_bytes.Add(RegionOf(a.to), output.size());
  Send(a.to, Lane::kData, a.message, output);
}

void Worker::Do(const protocol::action::SendBackward& a) {
  const Bytes gradient = Find(returns_, a.source);
  metrics_.boundary_bytes_backward += gradient.size();
  metrics_.region_bytes.Add(RegionOf(a.to), gradient.size());
  Send(a.to, Lane::kData, a.message, gradient);
}

void Worker::Do(const protocol::action::FoldGradients& a) {
  inputs_.erase(a.key);
  compute_.PostState([stage = stage_, key = a.key] {
    const Status status = stage->Fold(key);
    SWARM_CHECK(status.ok(), status.message());
  });
}

void Worker::Do(const protocol::action::DropTask& a) {
  inputs_.erase(a.key);
  gradients_.erase(a.key);
  compute_.PostState([stage = stage_, key = a.key] { stage->Drop(key); });
}

void Worker::Do(const protocol::action::ReleaseRetained& a) {
  (a.gradient ? returns_ : outputs_).erase(a.key);
}

// ---- reduce and commit ----

void Worker::Do(const protocol::action::StartReduce& a) {
  // Behind all folds of the step, which stand in the same queue already.
  compute_.PostState(
      [this, stage = stage_, reduce = a.reduce, codec = job_->spec.training.reduceCodec] {
        EnterPhase(chaos::WorkPhase::kReduce, reduce.step);
        for (std::uint64_t i = 0; i < stage->groups().size(); ++i) {
          if (stage->groups()[i].index != reduce.group) continue;
          reducing_.Begin(reduce, stage, i, stage->Accumulator(reduce.step, i), codec);
        }
      });
}

void Worker::Do(const protocol::action::StopReduces& a) {
  // Through the same queue as what has begun them.
  compute_.PostState([this, generation = welcome_.generation, step = a.step] {
    reducing_.Abandon(generation, step);
  });
}

void Worker::OnSum(ReducedSum sum) {
  if (!IsCurrent(sum.generation)) return;
  const auto [step, group, k] = std::tuple(sum.step, sum.group, sum.k);
  const Digest digest = sum.pieces->digest();
  std::vector<protocol::TensorNorm> norms = sum.norms;
  protocol::Actions actions = replica_->OnGroupReduced(step, group, k, digest, std::move(norms));
  if (actions.empty()) return;  // superseded
  sums_[{step, group}] = std::move(sum);
  Carry(std::move(actions));
}

std::vector<WorkerId> Worker::DonorsOfGradients() const {
  std::vector<WorkerId> donors;
  const auto add = [&](const protocol::Member& member) {
    const bool known = std::find(donors.begin(), donors.end(), member.id) != donors.end();
    if (member.stage == welcome_.stage && member.id != options_.id && !known) {
      donors.push_back(member.id);
    }
  };
  for (const protocol::Member& member : roster_.members) add(member);
  if (roster_.members.empty()) {
    for (const protocol::Member& member : welcome_.donors) add(member);
  }
  return donors;
}

void Worker::Do(const protocol::action::FetchGradients& a) {
  std::vector<GradientFetch::Group> groups;
  const std::uint64_t element =
      job_->spec.training.accumulation == api::Accumulation::kExact ? 8 : 4;
  for (const model::ParameterGroup& group : stage_->groups()) {
    groups.push_back({group.index, group.count * element});
  }
  auto& fetch = gradient_fetches_[a.record.step];
  fetch = std::make_unique<GradientFetch>(
      a.record, groups, DonorsOfGradients(),
      [this](const WorkerId& to, const protocol::Fetch& request) {
        Send(to, Lane::kData, request, {});
      },
      [this, record = a.record](Result<std::vector<Bytes>> gradients) {
        // Not here: the fetch is still on the stack.
        control_.Post([this, record, gradients = std::move(gradients)]() mutable {
          OnGradients(record, std::move(gradients));
        });
      });
  fetch->OnTick(Clock::now());
}

void Worker::OnGradients(const protocol::CommitRecord& record,
                         Result<std::vector<Bytes>> gradients) {
  if (!IsCurrent(record.generation) || gradient_fetches_.erase(record.step) == 0) return;
  if (!gradients.ok()) {
    Do(protocol::action::Rejoin{"the gradients of step " + std::to_string(record.step.value) +
                                " cannot be had: " + gradients.status().message()});
    return;
  }
  for (std::size_t i = 0; i < gradients->size(); ++i) {
    const protocol::GroupIndex group = stage_->groups()[i].index;
    const auto result = std::find_if(record.groups.begin(), record.groups.end(),
                                     [&](const auto& r) { return r.group == group; });
    ReducedSum sum{record.generation, record.step, group, result->k, (*gradients)[i], {}, {}};
    sum.pieces = std::make_shared<const checkpoint::PiecedBytes>(std::vector<Bytes>{sum.elements});
    sums_[{record.step, group}] = std::move(sum);
  }
  // What the others have summed at another scale must be read at it.
  if (!record.groups.empty() && !record.skip) {
    const auto own = std::find_if(record.groups.begin(), record.groups.end(), [&](const auto& r) {
      return r.group == stage_->groups().front().index;
    });
    Do(protocol::action::ClearStep{record.step, own->level});
  }
  Carry(replica_->OnGradientsFetched(record.step));
}

void Worker::Do(const protocol::action::ApplyCommit& a) {
  std::vector<Bytes> sums;
  for (const model::ParameterGroup& group : stage_->groups()) {
    const auto sum = sums_.find({a.record.step, group.index});
    sums.push_back(sum == sums_.end() ? Bytes() : sum->second.elements);
  }
  compute_.PostState([this, stage = stage_, record = a.record, sums = std::move(sums)] {
    EnterPhase(chaos::WorkPhase::kCommit, record.step);
    const Status status = stage->Apply(sums, record.clip, record.learning_rate, record.skip);
    const Digest state = status.ok() ? stage->StateDigest() : Digest{};
    control_.Post([this, record, status, state] {
      if (!IsCurrent(record.generation)) return;
      if (!status.ok()) {
        GiveUp(status.WithContext("the commit of step " + std::to_string(record.step.value) +
                                  " cannot be applied"));
        return;
      }
      ++metrics_.commits;
      metrics_.version = record.step.value + 1;
      Carry(replica_->OnApplied(record.step, state));
    });
  });
}

void Worker::Do(const protocol::action::ReleaseStep& a) {
  const auto over = [&](const auto& entry) { return entry.first.step <= a.step; };
  std::erase_if(inputs_, over);
  std::erase_if(gradients_, over);
  std::erase_if(outputs_, over);
  std::erase_if(returns_, over);
  parcels_.DropUpTo(a.step);
  reducing_.Release(welcome_.generation, a.step);
  compute_.PostState([stage = stage_, step = a.step] { stage->ReleaseStep(step); });
}

void Worker::Do(const protocol::action::ReleaseSums& a) {
  std::erase_if(sums_, [&](const auto& entry) { return entry.first.first < a.below; });
}

void Worker::Do(const protocol::action::ClearStep& a) {
  compute_.PostState([stage = stage_, a] {
    const Status status = stage->SetScaleLevel(a.step, static_cast<unsigned>(a.level));
    SWARM_CHECK(status.ok(), status.message());
  });
}

// ---- copies of the state ----

void Worker::Do(const protocol::action::TakeCheckpoint& a) {
  compute_.PostState([this, stage = stage_, request = a.request] {
    auto tensors = std::make_shared<std::vector<checkpoint::NamedTensor>>(stage->Snapshot());
    control_.Post([this, request, tensors] {
      if (!IsCurrent(request.generation)) return;
      storage_.Post([this, request, tensors, job = *job_, welcome = welcome_] {
        protocol::CheckpointWritten written{
            request.generation, request.version, welcome.stage, {}, {}};
        auto files = WriteStage(job, request, welcome, *tensors);
        if (files.ok()) {
          written.files = std::move(*files);
        } else {
          written.error = files.status().message();
        }
        control_.Post([this, written] { Tell(written); });
      });
    });
  });
}

void Worker::Do(const protocol::action::PinCopy& a) {
  compute_.PostState([this, stage = stage_, request = a.request] {
    auto tensors = std::make_shared<std::vector<checkpoint::NamedTensor>>(stage->Snapshot());
    pins_.Post([this, request, tensors] {
      auto cut = checkpoint::CutState(*tensors);
      auto state =
          cut.ok() ? std::make_shared<const checkpoint::PiecedBytes>(*std::move(cut)) : nullptr;
      control_.Post([this, request, state, status = cut.status()] {
        if (!IsCurrent(request.generation)) return;
        if (state) donor_.Pin(request.generation, request.version, state);
        Tell(protocol::StatePinned{request.generation, request.version,
                                   state ? state->digest() : Digest{}, status.message()});
      });
    });
  });
}

void Worker::Do(const protocol::action::UnpinCopy& a) {
  donor_.Unpin(welcome_.generation, a.version);
}

// ---- leaving ----

void Worker::Do(const protocol::action::SendParcel& a) {
  // Behind all folds of the step.
  protocol::Parcel header;
  header.generation = welcome_.generation;
  header.step = a.step;
  header.stage = welcome_.stage;
  header.level = a.level;
  header.contributions = a.contributions;
  compute_.PostState([this, stage = stage_, a, header] {
    auto pieces = std::make_shared<std::vector<std::pair<protocol::Parcel, Bytes>>>();
    for (std::uint64_t i = 0; i < stage->groups().size(); ++i) {
      auto some = CutParcel(header, stage->groups()[i].index, stage->Accumulator(a.step, i));
      pieces->insert(pieces->end(), some.begin(), some.end());
    }
    control_.Post([this, to = a.to, pieces, generation = header.generation] {
      if (!IsCurrent(generation)) return;
      for (auto& [piece, payload] : *pieces) Send(to, Lane::kData, piece, payload);
    });
  });
}

void Worker::Do(const protocol::action::AdoptParcel& a) {
  const Parcels::Whole* parcel = parcels_.Find(a.donor, a.step);
  if (parcel == nullptr) return;
  compute_.PostState([stage = stage_, step = a.step, parts = parcel->parts] {
    for (std::uint64_t i = 0; i < stage->groups().size(); ++i) {
      for (const Parcels::Part& part : parts) {
        if (part.group != stage->groups()[i].index) continue;
        const Status status = stage->Absorb(step, i, part.elements, part.finite);
        SWARM_CHECK(status.ok(), status.message());
      }
    }
  });
  parcels_.Drop(a.donor, a.step);
}

void Worker::Do(const protocol::action::DropParcel& a) { parcels_.Drop(a.donor, a.step); }

// ---- the trainer, and ends ----

void Worker::Do(const protocol::action::BeginAnew& a) {
  protocol::Welcome welcome = welcome_;
  welcome.generation = a.request.generation;
  welcome.stage = a.request.stage;
  welcome.version = a.request.version;
  welcome.checkpoint_uri = a.request.checkpoint_uri;
  welcome.donors.clear();
  term_ = std::max(term_, a.request.term);
  BeginLoading(welcome);
}

void Worker::Do(const protocol::action::Tell& a) {
  if (const auto* progress = std::get_if<protocol::Progress>(&a.message)) {
    progress_.reports.insert(progress_.reports.end(), progress->reports.begin(),
                             progress->reports.end());
    if (progress_.reports.size() >= kReportsBeforeFlush) FlushProgress();
    return;
  }
  Tell(a.message);
}

void Worker::Do(const protocol::action::Refuse& a) {
  metrics_.refused.Add(a.reason);
  LOG_DEBUG("refused ({}): step {} microbatch {} stage {}", a.reason, a.key.step.value,
            a.key.microbatch.value, a.key.stage.value);
}

void Worker::Do(const protocol::action::Rejoin& a) {
  LOG_INFO("{}", a.reason);
  Stop(Status(StatusCode::kAborted, a.reason));
}

}  // namespace swarm::stage

#include "worker/stage/held_parts.h"

#include <algorithm>
#include <span>
#include <string>

#include "base/log.h"
#include "worker/checkpoint/pieces.h"

namespace swarm::stage {

using net::Lane;
using protocol::WorkerId;

namespace {

/// More would not be answered in time.
constexpr std::size_t kEarlyFetchesMax = 4096;

/// A piece of the moments of a part, in a copy. `state`: as model::Stage::PartState.
Bytes ReadMoments(const std::vector<checkpoint::NamedTensor>& state, std::uint64_t piece) {
  std::uint64_t begin = piece * checkpoint::kPieceBytes, left = checkpoint::kPieceBytes;
  std::string copy;
  for (std::size_t field = 1; field < state.size(); ++field) {
    const std::uint64_t size = checkpoint::SizeOf(state[field]);
    const std::uint64_t skip = std::min<std::uint64_t>(begin, size);
    const std::uint64_t take = std::min<std::uint64_t>(left, size - skip);
    const std::size_t there = copy.size();
    copy.resize(there + take);
    const Status read = checkpoint::ReadBytes(
        state[field], skip, std::as_writable_bytes(std::span(copy).subspan(there)));
    SWARM_CHECK(read.ok(), read.message());
    begin -= skip;
    left -= take;
  }
  return Bytes::Copy(copy.data(), copy.size());
}

protocol::Fetched AnswerTo(const protocol::Fetch& fetch) {
  return {.generation = fetch.generation,
          .kind = fetch.kind,
          .version = fetch.version,
          .group = fetch.group,
          .k = fetch.k,
          .piece = fetch.piece,
          .pieces = 0,
          .error = "",
          .part = fetch.part};
}

}  // namespace

HeldParts::HeldParts(const RunnerParts& parts, Events events)
    : parts_(parts), events_(std::move(events)) {}

void HeldParts::Install(protocol::Generation generation, std::shared_ptr<model::Stage> stage,
                        std::size_t count, protocol::Version version) {
  generation_ = generation;
  stage_ = std::move(stage);
  version_ = version;
  held_.clear();
  for (std::size_t part = 0; part < count; ++part) held_.push_back(stage_->HoldsPart(part));
  half_applied_ = false;
}

void HeldParts::Forget() {
  stage_.reset();
  held_.clear();
  moments_.reset();
  weights_.reset();
  updated_.clear();
  early_fetches_.clear();
}

bool HeldParts::whole() const { return std::ranges::find(held_, false) == held_.end(); }

const protocol::GroupResult* HeldParts::FindDivided(const protocol::CommitRecord& record) const {
  const auto own = std::ranges::find(record.groups, stage_->groups().front().index,
                                     &protocol::GroupResult::group);
  return own == record.groups.end() || own->holders.empty() ? nullptr : &*own;
}

SendFetch HeldParts::Send() {
  return [this](const WorkerId& to, const protocol::Fetch& request) {
    parts_.host.Send(to, Lane::kData, request, {});
  };
}

/// Not at once: the fetch is still on the stack.
PartFetch::Done HeldParts::Post(std::function<void(Result<std::vector<Bytes>>)> then) {
  return [this, then = std::move(then)](Result<std::vector<Bytes>> parts) {
    parts_.control.Post([then, parts = std::move(parts)]() mutable { then(std::move(parts)); });
  };
}

void HeldParts::OnReduce(const protocol::Reduce& reduce) {
  if (reduce.holders.empty()) return;
  moments_.reset();
  const WorkerId& self = parts_.options.id;
  std::vector<PartFetch::Part> wanted;
  for (std::uint64_t part = 0; part < reduce.holders.size(); ++part) {
    const protocol::PartHolders& holders = reduce.holders[part];
    if (!holders.Has(self) || held_[part]) continue;
    wanted.push_back({part,
                      stage_->MomentBytes(part),
                      {holders.first == self ? holders.second : holders.first}});
  }
  if (wanted.empty()) return;
  const protocol::Fetch what{.generation = reduce.generation,
                             .kind = protocol::FetchKind::kMoments,
                             .version = protocol::Version(reduce.step.value),
                             .group = reduce.group,
                             .k = {}};
  auto done = Post([this, reduce](Result<std::vector<Bytes>> moments) {
    OnMoments(reduce, std::move(moments));
  });
  moments_ = {reduce.step, reduce.k, std::make_unique<PartFetch>(what, wanted, Send(), done)};
  moments_->fetch->OnTick(Clock::now());
}

void HeldParts::OnMoments(const protocol::Reduce& reduce, Result<std::vector<Bytes>> moments) {
  if (!IsCurrent(reduce.generation) || !moments_ || moments_->k != reduce.k) return;
  moments_.reset();
  if (!moments.ok()) {  // the trainer notices that the sum does not come to an end
    LOG_WARN("the moments of a part: {}", moments.status().message());
    return;
  }
  for (std::uint64_t part = 0; part < moments->size(); ++part) {
    if ((*moments)[part].empty()) continue;
    held_[part] = true;
    parts_.compute.PostState([stage = stage_, part, bytes = (*moments)[part]] {
      const Status status = stage->TakeMoments(part, bytes);
      SWARM_CHECK(status.ok(), status.message());
    });
  }
  events_.on_moments();
}

void HeldParts::Apply(const protocol::CommitRecord& record, std::vector<Bytes> sums, bool holds) {
  const protocol::GroupResult& divided = *FindDivided(record);
  model::Division division;
  for (const protocol::PartHolders& holders : divided.holders) {
    division.own.push_back(holds && holders.Has(parts_.options.id));
  }
  // Zeros with float accumulation, where the stage does not read them.
  division.magnitude_bits = divided.magnitude_bits;
  parts_.compute.PostState([this, stage = stage_, record, sums = std::move(sums), division] {
    if (parts_.options.at_phase) parts_.options.at_phase(chaos::WorkPhase::kCommit, record.step);
    const SpanTimer timer(parts_.options.spans, UpdateSpan(record));
    half_applied_ = true;
    auto made = stage->BeginApply(sums, record.clip, record.learning_rate, record.skip, division);
    parts_.control.Post([this, record, own = division.own, made = std::move(made)]() mutable {
      OnHalfApplied(record, own, std::move(made));
    });
  });
}

void HeldParts::OnHalfApplied(const protocol::CommitRecord& record, const std::vector<bool>& own,
                              Result<std::vector<Bytes>> made) {
  if (!IsCurrent(record.generation)) return;
  if (!made.ok()) return events_.on_applied(record, made.status());
  const protocol::GroupResult& divided = *FindDivided(record);
  std::vector<PartFetch::Part> others;
  std::uint64_t bytes = 0;
  for (std::uint64_t part = 0; part < divided.holders.size(); ++part) {
    const protocol::PartHolders& holders = divided.holders[part];
    held_[part] = own[part];
    bytes += (*made)[part].size();
    if (held_[part] || record.skip) continue;
    others.push_back({part, stage_->parameters()[part].count * sizeof(float), {}});
    for (const WorkerId& id : {holders.first, holders.second}) {
      if (!id.empty() && id != parts_.options.id) others.back().holders.push_back(id);
    }
  }
  updated_[record.step] = {divided.k, *std::move(made),
                           MemoryCharge(&parts_.memory, MemoryKind::kKeptSums, bytes)};
  AnswerEarlyFetches();
  if (others.empty()) return FinishApply(record, {});
  FetchWeights(record, std::move(others));
}

void HeldParts::FetchWeights(const protocol::CommitRecord& record,
                             std::vector<PartFetch::Part> parts) {
  const protocol::GroupResult& divided = *FindDivided(record);
  const protocol::Fetch what{.generation = record.generation,
                             .kind = protocol::FetchKind::kWeights,
                             .version = protocol::Version(record.step.value),
                             .group = divided.group,
                             .k = divided.k};
  auto done = Post([this, record](Result<std::vector<Bytes>> weights) {
    if (!IsCurrent(record.generation) || !weights_ || weights_->step != record.step) return;
    weights_.reset();
    if (!weights.ok()) return events_.on_applied(record, weights.status());
    FinishApply(record, *std::move(weights));
  });
  weights_ = {record.step, divided.k, std::make_unique<PartFetch>(what, parts, Send(), done)};
  weights_->fetch->OnTick(Clock::now());
}

void HeldParts::FinishApply(const protocol::CommitRecord& record, std::vector<Bytes> weights) {
  parts_.compute.PostState(
      [this, stage = stage_, record, own = held_, weights = std::move(weights)] {
        const SpanTimer timer(parts_.options.spans, UpdateSpan(record));
        const Status status = stage->FinishApply(weights);
        half_applied_ = !status.ok();
        parts_.control.Post([this, record, status] {
          if (IsCurrent(record.generation)) events_.on_applied(record, status);
        });
        if (status.ok()) events_.on_state(record, stage, own);
      });
}

void HeldParts::OnVersion(protocol::Version version) {
  version_ = version;
  AnswerEarlyFetches();
}

void HeldParts::Release(protocol::Step below) {
  std::erase_if(updated_, [&](const auto& entry) { return entry.first < below; });
}

void HeldParts::OnFetch(const WorkerId& from, const protocol::Fetch& fetch) {
  const bool moments = fetch.kind == protocol::FetchKind::kMoments;
  const bool current = IsCurrent(fetch.generation) && fetch.part < held_.size();
  const auto updated = updated_.find(protocol::Step(fetch.version.value));
  const bool early = current && (moments ? fetch.version > version_
                                         : fetch.version >= version_ && updated == updated_.end());
  if (early) {
    if (early_fetches_.size() < kEarlyFetchesMax) early_fetches_.emplace_back(from, fetch);
    return;
  }
  if (moments && current && fetch.version == version_ && held_[fetch.part]) {
    return SendMoments(from, fetch);
  }
  Bytes payload;
  if (!moments && current && updated != updated_.end() && updated->second.k == fetch.k) {
    const Bytes& weights = updated->second.weights[fetch.part];
    const std::uint64_t offset = fetch.piece * checkpoint::kPieceBytes;
    if (offset < weights.size()) {
      payload = weights.Slice(offset, std::min(checkpoint::kPieceBytes, weights.size() - offset));
    }
  }
  protocol::Fetched answer = AnswerTo(fetch);
  if (payload.empty()) {
    answer.error = "part " + std::to_string(fetch.part) + " of version " +
                   std::to_string(fetch.version.value) + " is not here";
  }
  parts_.host.Send(from, Lane::kData, std::move(answer), std::move(payload));
}

void HeldParts::SendMoments(const WorkerId& to, const protocol::Fetch& fetch) {
  parts_.compute.PostState([this, stage = stage_, to, fetch] {
    Bytes payload;
    // By now the next update may have begun.
    if (!half_applied_ && stage->version() == fetch.version && stage->HoldsPart(fetch.part)) {
      payload = ReadMoments(stage->PartState(fetch.part), fetch.piece);
    }
    parts_.control.Post([this, to, fetch, payload] {
      protocol::Fetched answer = AnswerTo(fetch);
      if (payload.empty()) answer.error = "the moments are gone";
      parts_.host.Send(to, Lane::kData, std::move(answer), payload);
    });
  });
}

void HeldParts::AnswerEarlyFetches() {
  for (const auto& [from, fetch] : std::exchange(early_fetches_, {})) OnFetch(from, fetch);
}

bool HeldParts::OnFetched(const WorkerId& from, const protocol::Fetched& fetched,
                          const Bytes& payload, Timepoint now) {
  for (const auto* running : {&moments_, &weights_}) {
    if (*running && (*running)->fetch->OnFetched(from, fetched, payload, now)) return true;
  }
  return false;
}

void HeldParts::OnTick(Timepoint now) {
  for (const auto* running : {&moments_, &weights_}) {
    if (*running) (*running)->fetch->OnTick(now);
  }
}

void HeldParts::OnDonorLost(const WorkerId& donor, Timepoint now) {
  for (const auto* running : {&moments_, &weights_}) {
    if (*running) (*running)->fetch->OnDonorLost(donor, now);
  }
}

}  // namespace swarm::stage

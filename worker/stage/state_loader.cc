#include "worker/stage/state_loader.h"

#include <algorithm>

#include "base/log.h"
#include "worker/storage/storage.h"

namespace swarm::stage {

using protocol::WorkerId;

namespace {

/// Between two tries to load a state from a storage that does not answer; the trainer has a limit.
constexpr Duration kLoadRetry = std::chrono::seconds(5);

}  // namespace

void StateLoader::Begin(const api::SwarmJob& job, const protocol::Welcome& welcome,
                        std::map<std::string, double> round_trips,
                        std::shared_ptr<const KeptState> kept) {
  Cancel();
  job_ = job;
  reader_ = {options_.region, std::move(round_trips)};
  welcome_ = welcome;
  for (const protocol::Member& donor : welcome.donors) host_.Meet(donor);
  for (const protocol::Member& peer : welcome.peers) host_.Meet(peer);
  if (welcome.goes_on) {
    if (!kept) return host_.OnCopyFailed(Internal("what it has offered is gone"));
    LOG_INFO("going on with its own state of stage {} of {} at version {}: copies nothing",
             welcome.stage.value, welcome.stage_count, welcome.version.value);
    return Load(KeptState::LookUpIn(std::move(kept)));
  }
  kept.reset();
  const bool joins = !welcome.donors.empty();
  LOG_INFO("{} stage {} of {} at version {}", joins ? "joining" : "serving", welcome.stage.value,
           welcome.stage_count, welcome.version.value);
  if (joins) {
    BeginCopy();
  } else {
    Load(std::nullopt);
  }
}

void StateLoader::Cancel() {
  fetch_.reset();
  ++loads_;
}

void StateLoader::BeginCopy() {
  fetch_ = std::make_unique<StateFetch>(
      welcome_,
      [this](const WorkerId& to, const protocol::Fetch& fetch) { host_.SendFetch(to, fetch); },
      [this, load = loads_](Result<checkpoint::TensorLookup> tensors) {
        // Not here: the fetch is still on the stack.
        control_.Post([this, load, tensors = std::move(tensors)]() mutable {
          if (load != loads_) return;
          fetch_.reset();
          if (!tensors.ok()) return host_.OnCopyFailed(tensors.status());
          Load(*std::move(tensors));
        });
      },
      MemoryForState(job_), options_.region);
  fetch_->OnTick(Clock::now());
}

void StateLoader::Load(std::optional<checkpoint::TensorLookup> tensors) {
  compute_.PostState([this, job = job_, welcome = welcome_, reader = reader_,
                      tensors = std::move(tensors), load = loads_] {
    auto stage = std::make_shared<Result<std::unique_ptr<model::Stage>>>(
        tensors ? TakeStage(job, welcome, *tensors, options_.threads, options_.device,
                            options_.create_stage)
                : LoadStage(job, welcome, reader, options_.threads, options_.device,
                            options_.create_stage));
    const Digest digest = stage->ok() ? (**stage)->StateDigest() : Digest{};
    control_.Post([this, stage, digest, load] { OnMade(std::move(*stage), digest, load); });
  });
}

void StateLoader::OnMade(Result<std::unique_ptr<model::Stage>> stage, const Digest& digest,
                         std::uint64_t load) {
  if (load != loads_) return;
  if (stage.ok()) return host_.OnLoaded(*std::move(stage), digest);
  const Status why = stage.status().WithContext("stage " + std::to_string(welcome_.stage.value) +
                                                " cannot be set up");
  const bool from_bucket = storage::IsBucket(job_.spec.model.uri) ||
                           (!welcome_.checkpoint_uri.empty() &&
                            std::ranges::any_of(storage::CheckpointPlaces(job_.spec),
                                                storage::IsBucket, &storage::Place::uri));
  if (why.code() != StatusCode::kUnavailable || !from_bucket) return host_.OnLoadFailed(why);
  LOG_WARN("{}; trying again", why.message());
  control_.PostAt(Clock::now() + kLoadRetry, [this, load] {
    if (load == loads_) Load(std::nullopt);
  });
}

void StateLoader::OnTick(Timepoint now) {
  if (fetch_) fetch_->OnTick(now);
}

bool StateLoader::OnFetched(const WorkerId& from, const protocol::Fetched& fetched,
                            const Bytes& payload, Timepoint now) {
  return fetch_ && fetch_->OnFetched(from, fetched, payload, now);
}

void StateLoader::OnDonorLost(const WorkerId& donor, Timepoint now) {
  if (fetch_) fetch_->OnDonorLost(donor, now);
}

}  // namespace swarm::stage

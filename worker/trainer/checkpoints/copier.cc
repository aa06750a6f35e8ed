#include "worker/trainer/checkpoints/copier.h"

#include <array>
#include <cstdio>

#include "base/log.h"
#include "worker/checkpoint/copy.h"

namespace swarm::trainer {

std::string CopyReport::Text() const {
  const std::string where = place.uri + " of region " + place.region;
  const std::string what = checkpoint.empty() ? "the newest checkpoint" : checkpoint;
  if (!status.ok()) {
    return what + " is not in " + where + ": " + status.message() +
           "; it is tried again with the next checkpoint";
  }
  std::array<char, 64> cost{};
  std::snprintf(cost.data(), cost.size(), "%.1f MB in %.1f s", static_cast<double>(bytes) / 1e6,
                seconds);
  return what + " is in " + where + ": " + cost.data();
}

Copier::Copier(const api::SwarmJob& job, storage::Place place,
               std::function<void(const CopyReport&)> tell)
    : job_(job), place_(std::move(place)), tell_(std::move(tell)), loop_("copies") {}

void Copier::Copy() {
  if (waiting_.exchange(true)) return;
  loop_.Post([this] {
    waiting_ = false;
    CopyNewest();
  });
}

void Copier::WhenDone(std::function<void()> done) { loop_.Post(std::move(done)); }

Status Copier::CheckOwner(storage::Storage& copies) const {
  ASSIGN_OR_RETURN(const auto ids, checkpoint::ListCheckpoints(copies));
  if (ids.empty()) return Status();
  ASSIGN_OR_RETURN(const checkpoint::Manifest newest,
                   checkpoint::ReadManifest(copies, ids.front()));
  if (newest.job_name == job_.name) return Status();
  return FailedPrecondition("it holds the checkpoints of the job " + newest.job_name +
                            "; give the region another checkpointUri");
}

void Copier::CopyNewest() {
  if (abandoned_) return;
  CopyReport report{.place = place_};
  const Timepoint begin = Clock::now();
  const auto go_on = [this] {
    return abandoned_ ? Cancelled("the trainer ends before it is copied") : Status();
  };
  const auto copy = [&]() -> Status {
    ASSIGN_OR_RETURN(const auto home,
                     storage::Storage::Open(job_.spec.checkpoint.uri, job_.spec.storage));
    ASSIGN_OR_RETURN(const auto ids, checkpoint::ListCheckpoints(*home));
    if (ids.empty()) return Status();
    report.checkpoint = ids.front().Folder();
    ASSIGN_OR_RETURN(const auto copies, storage::OpenPlace(place_));
    RETURN_IF_ERROR(CheckOwner(*copies));
    ASSIGN_OR_RETURN(report.bytes, checkpoint::CopyCheckpoint(*home, *copies, ids.front(), go_on));
    const auto removed = checkpoint::RemoveOld(*copies, job_.spec.checkpoint.keepLast);
    if (!removed.ok()) LOG_WARN("old copies stay: {}", removed.status().message());
    return Status();
  };
  report.status = copy();
  report.seconds = ToSeconds(Clock::now() - begin);
  if (report.bytes > 0 || !report.status.ok()) tell_(report);
}

}  // namespace swarm::trainer

#include "worker/protocol/coordinator/step/checkpoints.h"

namespace swarm::protocol {
namespace {

constexpr int kLastTries = 5;

std::string ToText(Version version) { return "version " + std::to_string(version.value); }

}  // namespace

Checkpoints::Checkpoints(Job* job, Members* members) : job_(*job), members_(*members) {
  if (!job_.begin_uri.empty()) status_.version = job_.version;
}

void Checkpoints::OnNewVersion(Turn& turn) {
  if (job_.options.checkpoint_uri.empty()) return;
  const std::uint64_t interval = job_.options.checkpoint_interval_steps;
  if (job_.version.value == job_.last_step) {
    last_wanted_ = true;  // waits until an earlier one is written
  } else if (interval > 0 && job_.version.value % interval == 0) {
    if (pending_) {
      turn.Report(EventKind::kCheckpointDelayed,
                  ToText(job_.version) + " is not written: " + ToText(pending_->version) +
                      " is still being written");
    } else {
      Request(turn);
    }
  }
}

void Checkpoints::Request(Turn& turn) {
  pending_ = Pending{};
  pending_->version = job_.version;
  pending_->began = pending_->since = turn.now;
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    // Replicas take turns, so that the cost is shared, and the fault of one disk is not for ever.
    const auto replicas = members_.ReadyReplicas(StageIndex(s));
    Ask(StageIndex(s), replicas[(job_.version.value + status_.failures) % replicas.size()], turn);
  }
}

void Checkpoints::Ask(StageIndex stage, const WorkerId& writer, Turn& turn) {
  std::map<WorkerId, std::vector<PartName>> moments;
  moments[writer];
  for (const PartName& name : members_.holders().PartsOf(stage)) {
    const std::set<WorkerId>& holders = members_.holders().Of(name);
    moments[holders.contains(writer) ? writer : *holders.begin()].push_back(name);
  }
  for (auto& [id, names] : moments) {
    turn.Tell(id, WriteCheckpoint{job_.options.term, job_.generation, job_.version,
                                  job_.options.checkpoint_uri, id == writer, names});
    pending_->writers[{stage, id}] = {id == writer, std::move(names)};
  }
}

void Checkpoints::OnWritten(const WorkerId& from, const CheckpointWritten& written, Turn& turn) {
  if (!pending_ || written.version != pending_->version || pending_->publishing ||
      written.generation != job_.generation || !IsWanted(from, written)) {
    return;
  }
  if (!written.error.empty()) {
    OnPublished(written.version, from.value + ": " + written.error, turn);
    return;
  }
  pending_->files[{written.stage, from}] = written.files;
  PublishIfKnown(turn);
}

bool Checkpoints::IsWanted(const WorkerId& from, const CheckpointWritten& written) const {
  const auto wanted = pending_->writers.find({written.stage, from});
  // An earlier try of this version may have asked it for something else.
  return wanted != pending_->writers.end() && wanted->second.weights == written.weights &&
         wanted->second.moments == written.moments;
}

void Checkpoints::PublishIfKnown(Turn& turn) {
  if (pending_->publishing || pending_->files.size() < pending_->writers.size()) return;
  if (!members_.HaveReported(pending_->version)) return;
  pending_->publishing = true;
  pending_->since = turn.now;
  std::vector<CheckpointFile> files;
  for (const auto& [writer, some] : pending_->files) {
    files.insert(files.end(), some.begin(), some.end());
  }
  turn.orders.push_back(order::PublishCheckpoint{pending_->version, std::move(files)});
}

void Checkpoints::OnPublished(Version version, const std::string& error, Turn& turn) {
  turn.advance = true;
  if (!pending_ || pending_->version != version) return;
  const double seconds = ToSeconds(turn.now - pending_->began);
  pending_.reset();
  const bool is_last = version.value == job_.last_step;
  if (error.empty()) {
    status_ = {version, job_.UnixTime(turn.now), 0, {}};
    turn.Report(EventKind::kCheckpointWritten, ToText(version), {.seconds = seconds});
    if (is_last) last_wanted_ = false;
    return;
  }
  status_.error = error;
  ++status_.failures;
  // A failed checkpoint never stops training; the next one is tried when it is due.
  turn.Report(EventKind::kCheckpointFailed, ToText(version) + ": " + error, {.seconds = seconds});
  if (is_last) OnFailedLast(error, turn);
}

void Checkpoints::OnFailedLast(const std::string& error, Turn& turn) {
  if (last_tries_++ == 0) last_failed_ = turn.now;
  if (last_tries_ < kLastTries || turn.now - last_failed_ < job_.options.last_checkpoint_patience) {
    return;
  }
  if (job_.stopping && job_.options.keep_workers) {
    last_given_up_ = true;
    return;
  }
  turn.Fail("trained to the end, but the last checkpoint could not be written: " + error,
            FailureClass::kStorageUnavailable);
}

void Checkpoints::Distrust(Version version, Turn& turn) {
  if (!pending_ || pending_->publishing || pending_->version != version) return;
  turn.Report(EventKind::kCheckpointFailed, ToText(version) + ": replicas held different weights");
  pending_.reset();
}

void Checkpoints::Check(Turn& turn) {
  if (!pending_) return;
  PublishIfKnown(turn);
  if (turn.now - pending_->since < job_.options.patience.checkpoint) return;
  std::string late = pending_->publishing ? "its manifest" : "";
  for (const auto& [key, wanted] : pending_->writers) {
    if (pending_->files.contains(key)) continue;
    const auto& [stage, writer] = key;
    late += (late.empty() ? "stage " : ", stage ") + std::to_string(stage.value) + " at " +
            writer.value;
  }
  OnPublished(pending_->version, "the storage does not come to an end with " + late, turn);
}

void Checkpoints::Lose(const WorkerId& worker, Turn& turn) {
  if (!pending_ || pending_->publishing) return;
  for (const auto& [key, wanted] : pending_->writers) {
    if (key.second != worker || pending_->files.contains(key)) continue;
    // The storage is not at fault: this does not count as a try.
    turn.Report(EventKind::kCheckpointFailed,
                ToText(pending_->version) + ": " + worker.value + " was lost while it wrote",
                {.worker = worker, .stage = key.first});
    pending_.reset();
    return;
  }
}

}  // namespace swarm::protocol

// The checkpoint that is being written, and the last one of the job (docs/protocol.md, rule 20).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/protocol/coordinator/membership/members.h"

namespace swarm::protocol {

class Checkpoints {
 public:
  Checkpoints(Job* job, Members* members);

  /// A commit has made the job's version: begins its checkpoint if one is due.
  void OnNewVersion(Turn& turn);
  void OnWritten(const WorkerId& from, const CheckpointWritten& written, Turn& turn);
  /// The shell has made the checkpoint visible, or has failed (`error`).
  void OnPublished(Version version, const std::string& error, Turn& turn);
  /// The worker is gone. A checkpoint that waits for its file is given up.
  void Lose(const WorkerId& worker, Turn& turn);
  /// A replica held other weights of that version than the others: a file of it is not used.
  void Distrust(Version version, Turn& turn);
  /// Publishes a checkpoint that is written, once all replicas have reported their states. Gives a
  /// checkpoint up whose writers, or whose manifest, do not come to an end: a file system
  /// can hang for ever, and the job must not.
  void Check(Turn& turn);
  /// The replicas of the version that is being written are gone.
  void Cancel() { pending_.reset(); }

  /// The job ends with a checkpoint of its current version.
  void WantLast() { last_wanted_ = !job_.options.checkpoint_uri.empty() || last_wanted_; }
  bool IsWriting() const { return pending_.has_value(); }
  bool IsLastMissing() const { return last_wanted_; }
  /// Begins the checkpoint of the job's version.
  void Request(Turn& turn);
  /// The last checkpoint failed for too long, and the job may end without it: the workers hold its
  /// state for the next trainer.
  bool IsLastGivenUp() const { return last_given_up_; }

  const CheckpointStatus& status() const { return status_; }

 private:
  using Writer = std::pair<StageIndex, WorkerId>;
  struct Wanted {  // WriteCheckpoint
    bool weights = true;
    std::vector<PartName> moments;
  };
  struct Pending {
    Version version;
    std::map<Writer, Wanted> writers;
    std::map<Writer, std::vector<CheckpointFile>> files;
    bool publishing = false;
    Timepoint began;
    Timepoint since;  ///< that the writers, or the shell, were asked
  };
  /// Asks a replica of the stage for its file, and other holders for the moments that it lacks.
  void Ask(StageIndex stage, const WorkerId& writer, Turn& turn);
  /// The worker was asked for just that.
  bool IsWanted(const WorkerId& from, const CheckpointWritten& written) const;
  void PublishIfKnown(Turn& turn);
  void OnFailedLast(const std::string& error, Turn& turn);

  Job& job_;
  Members& members_;
  std::optional<Pending> pending_;
  bool last_wanted_ = false;
  bool last_given_up_ = false;
  int last_tries_ = 0;
  Timepoint last_failed_;  // for the first time
  CheckpointStatus status_;
};

}  // namespace swarm::protocol

// The curves of a job for TensorBoard: the numbers of steps.jsonl as event files.
//
// Each trainer writes files of its own. Where one begins, and where the job returns to an earlier
// step, the file says so (SessionStartRecord), so that TensorBoard shows no step twice. Points of
// the last seconds may go with a trainer; steps.jsonl has them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "api/swarmjob.h"
#include "base/loop.h"
#include "base/status.h"
#include "base/time.h"
#include "worker/protocol/ids.h"
#include "worker/storage/storage.h"
#include "worker/trainer/log/run_log.h"

namespace swarm::trainer {

/// How often records are written.
inline constexpr Duration kEventPeriod = std::chrono::seconds(10);

/// Makes records of steps: train/loss, train/grad_norm, train/learning_rate and
/// train/tokens_per_second, and validation/loss at the step that made the version. Pure, not
/// thread-safe; `time` is in seconds since 1970.
class EventBuffer {
 public:
  void Step(const StepLine& line, double time);
  void Validation(protocol::Version version, double loss, double time);
  /// The records since the last call.
  std::string Take() { return std::exchange(records_, std::string()); }
  bool empty() const { return records_.empty(); }

 private:
  /// Begins a session at `step` unless it follows what was written.
  void Follow(std::uint64_t step, double time);

  std::string records_;
  std::optional<std::uint64_t> last_;  ///< the newest step with a record
};

/// Appends records to event files below a uri. Not thread-safe.
class EventFiles {
 public:
  EventFiles(std::string uri, api::Storage options)
      : uri_(std::move(uri)), options_(std::move(options)) {}

  /// Writes the records, and those that an earlier call could not write: to the end of a local
  /// file, or in a bucket, where nothing grows, as the object anew. There a file ends when it is
  /// long enough, and another begins. Errors: those of Storage; the records wait for the next call.
  Status Append(std::string records, double time);

 private:
  /// Chooses a name behind those that are there, as readers go by names.
  Status Begin(double time);
  Status AppendToFile(const std::string& path);

  const std::string uri_;
  const api::Storage options_;
  std::unique_ptr<storage::Storage> storage_;  ///< since the first file
  std::string name_;     ///< of the current file; empty: none
  std::string content_;  ///< in a bucket: of the current file
  std::string waiting_;  ///< records that are not written yet
};

/// Both, for a trainer with loops. Belongs to `control`; both loops stop before it ends.
class TensorBoardWriter {
 public:
  TensorBoardWriter(const api::Spec& spec, Loop& control, Loop& storage)
      : files_(spec.logging.tensorboard, spec.storage), control_(control), storage_(storage) {}

  void Step(const StepLine& line);
  void Validation(protocol::Version version, double loss);
  /// Writes what has come, on `storage`. A write that fails is repeated with the next one.
  void Write();
  /// The same every few seconds.
  void OnTick(Timepoint now);

 private:
  EventBuffer buffer_;
  EventFiles files_;  ///< of `storage`
  Loop& control_;
  Loop& storage_;
  bool writing_ = false;
  bool failed_ = false;  ///< the last write
  Timepoint written_;
};

}  // namespace swarm::trainer

// Checkpoints: the folders below a job's checkpoint uri.
//
// The folder step-00000100-g0 holds version 100 of generation 0. Its files, for two stages:
//
// - stage-0-of-2.safetensors: the weights, under their Hugging Face names.
// - optimizer-0-of-2.safetensors: the optimizer, as "optimizer.FIELD.NAME"; where workers hold
// parts
//   of it, beside it files like optimizer-0-of-2-from-7.safetensors, from the 7th part on.
// - previous-0-of-2.safetensors: in Delayed mode, the version before, as "previous.NAME".
// - tokenizer.json and others, or tokenizer.model: what made ids of the text, if it has files.
// - manifest.json: written last, and once. From then on the checkpoint exists.
// - damaged.json: the trainer has found that a file is not what was written. The checkpoint counts
//   no more; its files stay for people.
//
// The stages' workers write their files, each its own; the trainer publishes the manifest. Reading
// goes by tensor name, so a job resumes at any number of stages.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/tensor.h"
#include "worker/protocol/ids.h"
#include "worker/protocol/messages/control.h"
#include "worker/storage/places.h"
#include "worker/storage/storage.h"

namespace swarm::checkpoint {

/// The name of a checkpoint's folder. Ordered from old to new.
struct CheckpointId {
  protocol::Generation generation;
  protocol::Version version;
  auto operator<=>(const CheckpointId&) const = default;

  /// "step-00000100-g0".
  std::string Folder() const;
  /// None for a folder with another kind of name.
  static std::optional<CheckpointId> Parse(const std::string& folder);
};

/// Writes the tensors of one stage (names as above, all of one stage) into `folder` of `storage`.
/// Those that are elsewhere come into memory file by file.
/// Durable when it returns. The same tensors give the same files, so repeating it does no
/// harm. `apart`: ends the names of the files, before their type. Errors: those of Storage::Write,
/// EncodeSafetensors and Elsewhere::Read.
Result<std::vector<protocol::CheckpointFile>> WriteStageFiles(
    storage::Storage& storage, const std::string& folder, std::uint64_t stage,
    std::uint64_t stage_count, std::span<const NamedTensor> tensors, const std::string& apart = "");

/// Makes the checkpoint exist, after checking all its files from here: each stage has a file of
/// weights, and each file has its size and a sound header. Where several stages hold a tensor (a
/// tied embedding) the first file counts. Errors: kAlreadyExists (another trainer was first),
/// kFailedPrecondition (a file is missing or of another size: do the workers and the trainer see
/// the same storage?), those of Storage.
Status PublishManifest(storage::Storage& storage, Manifest manifest);

/// The checkpoints that exist, newest first.
Result<std::vector<CheckpointId>> ListCheckpoints(storage::Storage& storage);
/// Errors: kNotFound; kDataLoss, naming the file.
Result<Manifest> ReadManifest(storage::Storage& storage, const CheckpointId& id);
/// The manifest of the highest generation, and in it of the highest version. A damaged manifest is
/// an error that names it; it is not skipped. Errors: kNotFound (there is no checkpoint).
Result<Manifest> FindLatest(storage::Storage& storage);

/// Takes the checkpoint out of the ones that exist, for this reason. Idempotent.
Status SetAside(storage::Storage& storage, const CheckpointId& id, const std::string& reason);

/// Whether it was.
Result<bool> IsSetAside(storage::Storage& storage, const CheckpointId& id);

/// Removes all checkpoints but the newest `keep` (at least one) and those in `referenced`, and
/// unfinished ones that are older than the newest. Those that were set aside stay. Removes a
/// checkpoint's manifest before its other files, so that a half-removed checkpoint is never taken
/// for a checkpoint. Returns the removed ones.
Result<std::vector<CheckpointId>> RemoveOld(storage::Storage& storage, std::uint64_t keep,
                                            std::span<const CheckpointId> referenced = {});

/// The tensors of one checkpoint. Opens a file when a tensor of it is asked for, and then checks
/// its size and digest. Not thread-safe.
class CheckpointReader {
 public:
  /// `uri` is the checkpoint's own folder. Errors: as ReadManifest.
  static Result<std::unique_ptr<CheckpointReader>> Open(const std::string& uri,
                                                        const api::Storage& options = {});
  /// Reads in the first of `places` whose `folder` has the manifest of this digest, or any if it is
  /// zero. What is missing there, or is not what was written, it reads in the next place; it logs
  /// why. Requires a place. Errors: with one place as Open; else kUnavailable if a place does not
  /// answer, and kDataLoss; they name all places.
  static Result<std::unique_ptr<CheckpointReader>> OpenNearest(
      std::span<const storage::Place> places, const std::string& folder,
      const Digest& manifest = {});
  CheckpointReader(std::unique_ptr<storage::Storage> folder, Manifest manifest);

  const Manifest& manifest() const { return manifest_; }
  /// Shares the memory of the file. Errors: kNotFound (no such tensor); kDataLoss (the file is
  /// missing or has changed), naming the file.
  Result<NamedTensor> Lookup(const std::string& name);
  /// Reads all files. Errors: kDataLoss for the first that is missing or has changed, naming it.
  Status CheckFiles();

 private:
  using Folders = std::vector<std::unique_ptr<storage::Storage>>;
  CheckpointReader(Folders folders, std::size_t nearest, Manifest manifest);
  Result<const SafetensorsFile*> OpenFile(std::uint64_t index);

  const Folders folders_;  // copies of one checkpoint
  std::size_t nearest_;    // of folders_: the one that is read, as long as it has everything
  const Manifest manifest_;
  std::vector<std::optional<SafetensorsFile>> files_;  // of manifest_.files; empty: not opened yet
};

}  // namespace swarm::checkpoint

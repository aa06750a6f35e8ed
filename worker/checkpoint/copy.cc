#include "worker/checkpoint/copy.h"

#include <map>
#include <string>

#include "base/digest_stream.h"

namespace swarm::checkpoint {
namespace {

constexpr std::string_view kTensorsEnd = ".safetensors";

Status CopyFile(storage::Storage& from, storage::Storage& to, const storage::StoredFile& file,
                const protocol::CheckpointFile* expected, const std::function<Status()>& go_on) {
  if (expected != nullptr && expected->bytes != file.size) {
    return DataLoss(from.Describe(file.name) + " has " + std::to_string(file.size) + " bytes, " +
                    std::to_string(expected->bytes) + " were written");
  }
  DigestStream digest;
  const auto read = [&](std::uint64_t offset, std::uint64_t size) -> Result<Bytes> {
    RETURN_IF_ERROR(go_on());
    ASSIGN_OR_RETURN(Bytes part, from.ReadRange(file.name, offset, size));
    digest.Add(part.span());
    const bool last = offset + size == file.size;
    // Here, so that a file that is wrong is not placed.
    if (last && expected != nullptr && digest.Finish() != expected->digest) {
      return DataLoss(from.Describe(file.name) +
                      " is damaged: its digest is not that of what was written");
    }
    return part;
  };
  return to.WriteParts(file.name, file.size, read);
}

}  // namespace

Result<std::uint64_t> CopyCheckpoint(storage::Storage& from, storage::Storage& to,
                                     const CheckpointId& id, const std::function<Status()>& go_on) {
  const std::string folder = id.Folder() + "/";
  const std::string manifest_name = folder + kManifestName;
  ASSIGN_OR_RETURN(const Bytes text, from.Read(manifest_name));
  auto manifest = DecodeManifest(text);
  if (!manifest.ok()) return manifest.status().WithContext(from.Describe(manifest_name));
  const auto there = to.Read(manifest_name);
  if (there.ok() && ComputeDigest(there->span()) == manifest->digest) return std::uint64_t{0};
  if (!there.ok() && there.status().code() != StatusCode::kNotFound) return there.status();
  // Another checkpoint of that name must not seem whole while its files are replaced.
  if (there.ok()) RETURN_IF_ERROR(to.Remove(manifest_name));

  std::map<std::string, const protocol::CheckpointFile*> expected;
  for (const protocol::CheckpointFile& file : manifest->files) {
    expected.emplace(folder + file.name, &file);
  }
  ASSIGN_OR_RETURN(const auto files, from.ListFiles(folder));
  std::uint64_t bytes = text.size();
  for (const storage::StoredFile& file : files) {
    const auto found = expected.extract(file.name);
    const bool beside = !file.name.ends_with(kTensorsEnd) && file.name != manifest_name;
    if (found.empty() && !beside) continue;  // a writer that died has left it
    RETURN_IF_ERROR(CopyFile(from, to, file, found.empty() ? nullptr : found.mapped(), go_on));
    bytes += file.size;
  }
  if (!expected.empty()) {
    return DataLoss("a file of the checkpoint is missing: " +
                    from.Describe(expected.begin()->first));
  }
  RETURN_IF_ERROR(go_on());
  RETURN_IF_ERROR(to.Write(manifest_name, text));
  return bytes;
}

}  // namespace swarm::checkpoint

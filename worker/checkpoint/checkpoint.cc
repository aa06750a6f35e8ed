#include "worker/checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "base/log.h"

namespace swarm::checkpoint {
namespace {

constexpr const char* kDamagedName = "damaged.json";
constexpr std::string_view kOptimizerPrefix = "optimizer.";
constexpr std::string_view kPreviousPrefix = "previous.";

// The kinds of files of a stage, and the kind of a tensor.
constexpr std::array<const char*, 3> kKinds = {"stage", "optimizer", "previous"};
std::size_t KindOf(const std::string& tensor) {
  return tensor.starts_with(kOptimizerPrefix) ? 1 : tensor.starts_with(kPreviousPrefix) ? 2 : 0;
}

std::string FileName(const std::string& kind, std::uint64_t stage, std::uint64_t stage_count,
                     const std::string& apart = "") {
  return kind + "-" + std::to_string(stage) + "-of-" + std::to_string(stage_count) + apart +
         ".safetensors";
}

std::string ManifestName(const CheckpointId& id) { return id.Folder() + "/" + kManifestName; }

CheckpointId IdOf(const Manifest& manifest) { return {manifest.generation, manifest.version}; }

Result<protocol::CheckpointFile> WriteFile(storage::Storage& storage, const std::string& folder,
                                           const std::string& name,
                                           std::span<const NamedTensor> tensors) {
  ASSIGN_OR_RETURN(const std::vector<Bytes> pieces, EncodeSafetensors(tensors));
  RETURN_IF_ERROR(storage.Write(folder + "/" + name, pieces));
  protocol::CheckpointFile file{name, 0, ComputeDigest(pieces)};
  for (const Bytes& piece : pieces) file.bytes += piece.size();
  return file;
}

Status CheckComplete(const Manifest& manifest) {
  std::set<std::string> names;
  for (const protocol::CheckpointFile& file : manifest.files) names.insert(file.name);
  if (names.size() != manifest.files.size()) return InvalidArgument("a file is there twice");
  for (std::uint64_t stage = 0; stage < manifest.stage_count; ++stage) {
    for (std::size_t kind = 0; kind < (manifest.previous ? 3 : 1); kind += 2) {
      const std::string name = FileName(kKinds[kind], stage, manifest.stage_count);
      if (!names.contains(name)) return FailedPrecondition("no worker has written " + name);
    }
  }
  return {};
}

// The header of a file; does not read the rest of the file.
Result<SafetensorsHeader> ReadHeader(storage::Storage& storage, const std::string& name,
                                     std::uint64_t expected_bytes) {
  ASSIGN_OR_RETURN(const std::uint64_t bytes, storage.Size(name));
  if (bytes != expected_bytes || bytes < 8) {
    return DataLoss(storage.Describe(name) + " has " + std::to_string(bytes) + " bytes, not " +
                    std::to_string(expected_bytes));
  }
  ASSIGN_OR_RETURN(const Bytes prefix, storage.ReadRange(name, 0, 8));
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, prefix.data(), 8);
  if (header_bytes > std::min(kSafetensorsHeaderMax, bytes - 8)) {
    return DataLoss(storage.Describe(name) + " has a damaged header");
  }
  ASSIGN_OR_RETURN(const Bytes json, storage.ReadRange(name, 8, header_bytes));
  auto header = ParseSafetensorsHeader(json.text(), bytes - 8 - header_bytes);
  if (!header.ok()) return header.status().WithContext(storage.Describe(name));
  return header;
}

Result<bool> HasFile(storage::Storage& storage, const std::string& name) {
  const auto size = storage.Size(name);
  if (size.ok()) return true;
  if (size.status().code() == StatusCode::kNotFound) return false;
  return size.status();
}

Result<bool> Exists(storage::Storage& storage, const CheckpointId& id) {
  ASSIGN_OR_RETURN(const bool published, HasFile(storage, ManifestName(id)));
  if (!published) return false;
  ASSIGN_OR_RETURN(const bool aside, IsSetAside(storage, id));
  return !aside;
}

Result<std::vector<CheckpointId>> ListFolders(storage::Storage& storage) {
  ASSIGN_OR_RETURN(const std::vector<std::string> folders, storage.ListFolders());
  std::vector<CheckpointId> ids;
  for (const std::string& folder : folders) {
    if (const auto id = CheckpointId::Parse(folder)) ids.push_back(*id);
  }
  std::sort(ids.rbegin(), ids.rend());
  return ids;
}

Result<Manifest> ReadManifestFile(storage::Storage& storage, const std::string& name) {
  ASSIGN_OR_RETURN(const Bytes text, storage.Read(name));
  auto manifest = DecodeManifest(text);
  if (!manifest.ok()) return manifest.status().WithContext(storage.Describe(name));
  return manifest;
}

/// Why nothing could be read in any of several places.
class Refusals {
 public:
  void Add(const Status& why) {
    if (why.code() == StatusCode::kUnavailable) unavailable_ = true;
    if (!text_.empty()) text_ += "; ";
    text_ += why.message();
    last_ = why;
    ++count_;
  }
  Status ToStatus() const {
    if (count_ < 2) return last_;
    return unavailable_ ? Unavailable(text_) : DataLoss(text_);
  }

 private:
  std::string text_;
  Status last_;
  std::size_t count_ = 0;
  bool unavailable_ = false;
};

Result<SafetensorsFile> OpenFileIn(storage::Storage& folder,
                                   const protocol::CheckpointFile& expected) {
  const std::string path = folder.Describe(expected.name);
  const auto content = folder.Map(expected.name);
  if (!content.ok()) {
    if (content.status().code() != StatusCode::kNotFound) return content.status();
    return DataLoss("a file of the checkpoint is missing: " + content.status().message());
  }
  if (content->size() != expected.bytes) {
    return DataLoss(path + " has " + std::to_string(content->size()) + " bytes, " +
                    std::to_string(expected.bytes) + " were written");
  }
  if (ComputeDigest(content->span()) != expected.digest) {
    return DataLoss(path + " is damaged: its digest is not that of what was written");
  }
  auto file = ReadSafetensors(*content);
  if (!file.ok()) return file.status().WithContext(path);
  return file;
}

bool ReadNumber(std::string_view& text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error == std::errc();
}

}  // namespace

std::string CheckpointId::Folder() const {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "step-%08llu-g%llu",
                static_cast<unsigned long long>(version.value),
                static_cast<unsigned long long>(generation.value));
  return text.data();
}

std::optional<CheckpointId> CheckpointId::Parse(const std::string& folder) {
  CheckpointId id;
  std::string_view rest = folder;
  if (!rest.starts_with("step-")) return std::nullopt;
  rest.remove_prefix(5);
  if (!ReadNumber(rest, id.version.value) || !rest.starts_with("-g")) return std::nullopt;
  rest.remove_prefix(2);
  if (!ReadNumber(rest, id.generation.value) || id.Folder() != folder) return std::nullopt;
  return id;
}

Result<std::vector<protocol::CheckpointFile>> WriteStageFiles(
    storage::Storage& storage, const std::string& folder, std::uint64_t stage,
    std::uint64_t stage_count, std::span<const NamedTensor> tensors, const std::string& apart) {
  std::array<std::vector<NamedTensor>, kKinds.size()> by_kind;
  for (const NamedTensor& tensor : tensors) by_kind[KindOf(tensor.name)].push_back(tensor);
  std::vector<protocol::CheckpointFile> files;
  for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
    if (by_kind[kind].empty()) continue;
    // A file's at a time, so that a whole state need not fit beside itself.
    for (NamedTensor& tensor : by_kind[kind]) {
      if (tensor.elsewhere == nullptr) continue;
      ASSIGN_OR_RETURN(tensor, Keep(tensor));
    }
    const std::string name = FileName(kKinds[kind], stage, stage_count, apart);
    ASSIGN_OR_RETURN(auto file, WriteFile(storage, folder, name, by_kind[kind]));
    by_kind[kind].clear();
    files.push_back(std::move(file));
  }
  return files;
}

Status PublishManifest(storage::Storage& storage, Manifest manifest) {
  const std::string folder = IdOf(manifest).Folder();
  if (const Status status = CheckComplete(manifest); !status.ok()) {
    return status.WithContext("checkpoint " + storage.Describe(folder));
  }
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  manifest.tensors.clear();
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    const protocol::CheckpointFile& file = manifest.files[i];
    const auto header = ReadHeader(storage, folder + "/" + file.name, file.bytes);
    if (!header.ok()) {
      const StatusCode code = header.status().code();
      if (code != StatusCode::kNotFound && code != StatusCode::kDataLoss) return header.status();
      return FailedPrecondition(
          "a file differs here from what the worker wrote: " + header.status().message() +
          "; do workers and trainer see the same storage?");
    }
    for (const auto& [name, entry] : header->tensors) manifest.tensors.emplace(name, i);
  }
  ASSIGN_OR_RETURN(const Bytes text, EncodeManifest(manifest));
  return storage.WriteIfAbsent(ManifestName(IdOf(manifest)), text);
}

Result<std::vector<CheckpointId>> ListCheckpoints(storage::Storage& storage) {
  ASSIGN_OR_RETURN(const std::vector<CheckpointId> folders, ListFolders(storage));
  std::vector<CheckpointId> existing;
  for (const CheckpointId& id : folders) {
    ASSIGN_OR_RETURN(const bool exists, Exists(storage, id));
    if (exists) existing.push_back(id);
  }
  return existing;
}

Result<Manifest> ReadManifest(storage::Storage& storage, const CheckpointId& id) {
  ASSIGN_OR_RETURN(Manifest manifest, ReadManifestFile(storage, ManifestName(id)));
  if (IdOf(manifest) != id) {
    return DataLoss(storage.Describe(ManifestName(id)) + " belongs to " + IdOf(manifest).Folder());
  }
  return manifest;
}

Result<Manifest> FindLatest(storage::Storage& storage) {
  ASSIGN_OR_RETURN(const std::vector<CheckpointId> folders, ListFolders(storage));
  for (const CheckpointId& id : folders) {
    auto manifest = ReadManifest(storage, id);
    if (manifest.ok()) return manifest;
    if (manifest.status().code() == StatusCode::kNotFound) continue;  // begun, never finished
    if (manifest.status().code() != StatusCode::kDataLoss) return manifest.status();
    return DataLoss(manifest.status().message() + "; remove " + storage.Describe(id.Folder()) +
                    " to resume from an earlier checkpoint");
  }
  return NotFound("no checkpoint in " + storage.Describe(""));
}

Status SetAside(storage::Storage& storage, const CheckpointId& id, const std::string& reason) {
  const std::string text = nlohmann::json{{"reason", reason}}.dump(2) + "\n";
  return storage.Write(id.Folder() + "/" + kDamagedName, Bytes::Copy(text));
}

Result<bool> IsSetAside(storage::Storage& storage, const CheckpointId& id) {
  return HasFile(storage, id.Folder() + "/" + kDamagedName);
}

Result<std::vector<CheckpointId>> RemoveOld(storage::Storage& storage, std::uint64_t keep,
                                            std::span<const CheckpointId> referenced) {
  ASSIGN_OR_RETURN(const std::vector<CheckpointId> folders, ListFolders(storage));
  std::uint64_t kept = 0;
  std::vector<CheckpointId> removed;
  for (const CheckpointId& id : folders) {
    ASSIGN_OR_RETURN(const bool aside, IsSetAside(storage, id));
    if (aside) continue;
    ASSIGN_OR_RETURN(const bool exists, HasFile(storage, ManifestName(id)));
    const bool in_work = !exists && kept == 0;  // newer than the newest that exists
    const bool wanted = exists && kept < std::max<std::uint64_t>(keep, 1);
    kept += exists ? 1 : 0;
    if (in_work || wanted ||
        std::find(referenced.begin(), referenced.end(), id) != referenced.end()) {
      continue;
    }
    RETURN_IF_ERROR(storage.Remove(ManifestName(id)));
    RETURN_IF_ERROR(storage.RemoveFolder(id.Folder()));
    removed.push_back(id);
  }
  return removed;
}

CheckpointReader::CheckpointReader(Folders folders, std::size_t nearest, Manifest manifest)
    : folders_(std::move(folders)),
      nearest_(nearest),
      manifest_(std::move(manifest)),
      files_(manifest_.files.size()) {}

CheckpointReader::CheckpointReader(std::unique_ptr<storage::Storage> folder, Manifest manifest)
    : CheckpointReader(
          [&] {
            Folders folders;
            folders.push_back(std::move(folder));
            return folders;
          }(),
          0, std::move(manifest)) {}

Result<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(const std::string& uri,
                                                                 const api::Storage& options) {
  const storage::Place place{.home = true, .uri = uri, .options = options};
  return OpenNearest(std::span(&place, 1), "");
}

Result<std::unique_ptr<CheckpointReader>> CheckpointReader::OpenNearest(
    std::span<const storage::Place> places, const std::string& folder, const Digest& expected) {
  Folders folders;
  std::optional<Manifest> found;
  std::size_t nearest = 0;
  Refusals refusals;
  for (const storage::Place& place : places) {
    auto opened = storage::OpenPlace(place, folder);
    if (!opened.ok()) {
      refusals.Add(opened.status());
      continue;
    }
    folders.push_back(*std::move(opened));
    if (found) continue;
    auto manifest = ReadManifestFile(*folders.back(), kManifestName);
    if (manifest.ok() && expected != Digest{} && manifest->digest != expected) {
      manifest = DataLoss(folders.back()->Describe(kManifestName) + " is of another checkpoint");
    }
    if (manifest.ok()) {
      found = *std::move(manifest);
      nearest = folders.size() - 1;
      if (places.size() > 1) LOG_INFO("reading {}", folders.back()->Describe(""));
    } else {
      refusals.Add(manifest.status());
      if (places.size() > 1) LOG_WARN("no whole copy there: {}", manifest.status().message());
    }
  }
  if (!found) return refusals.ToStatus();
  return std::unique_ptr<CheckpointReader>(
      new CheckpointReader(std::move(folders), nearest, *std::move(found)));
}

Result<NamedTensor> CheckpointReader::Lookup(const std::string& name) {
  const auto at = manifest_.tensors.find(name);
  if (at == manifest_.tensors.end()) {
    return NotFound("no tensor " + name + " in checkpoint " + folders_[nearest_]->Describe(""));
  }
  ASSIGN_OR_RETURN(const SafetensorsFile* file, OpenFile(at->second));
  auto tensor = file->Lookup(name);
  if (tensor.ok()) return tensor;
  return DataLoss(folders_[nearest_]->Describe(manifest_.files[at->second].name) + ": " +
                  tensor.status().message());
}

Status CheckpointReader::CheckFiles() {
  for (std::uint64_t i = 0; i < files_.size(); ++i) {
    const bool was_open = files_[i].has_value();
    RETURN_IF_ERROR(OpenFile(i).status());
    if (!was_open) files_[i].reset();  // one file in memory at a time
  }
  return Status();
}

Result<const SafetensorsFile*> CheckpointReader::OpenFile(std::uint64_t index) {
  if (files_[index]) return &*files_[index];
  Refusals refusals;
  const std::size_t first = nearest_;
  for (std::size_t i = 0; i < folders_.size(); ++i) {
    const std::size_t at = (first + i) % folders_.size();
    auto file = OpenFileIn(*folders_[at], manifest_.files[index]);
    if (file.ok()) {
      if (i > 0) LOG_WARN("going on with the copy in {}", folders_[at]->Describe(""));
      nearest_ = at;
      files_[index] = *std::move(file);
      return &*files_[index];
    }
    refusals.Add(file.status());
    if (folders_.size() > 1) LOG_WARN("a copy is of no use: {}", file.status().message());
  }
  return refusals.ToStatus();
}

}  // namespace swarm::checkpoint

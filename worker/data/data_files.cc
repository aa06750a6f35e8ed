#include "worker/data/data_files.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>

#include "worker/data/megatron/index.h"

namespace swarm::data {
namespace {

constexpr std::string_view kWildcards = "*?[";

// Where a folder ends and a pattern of names in it begins; none for a uri without wildcards, and
// for a file whose name has them.
std::optional<storage::SplitUri> SplitPattern(const std::string& uri, const std::string& path) {
  const std::size_t wildcard = uri.find_first_of(kWildcards);
  std::error_code ignored;
  if (wildcard == uri.npos) return std::nullopt;
  if (!path.empty() && std::filesystem::exists(path, ignored)) return std::nullopt;
  const std::size_t slash = uri.rfind('/', wildcard);
  if (slash == uri.npos) return storage::SplitUri{".", uri};
  return storage::SplitUri{slash == 0 ? "/" : uri.substr(0, slash), uri.substr(slash + 1)};
}

}  // namespace

std::optional<FileFormat> FormatOf(std::string_view name) {
  if (name.ends_with(".bin")) return FileFormat{FileKind::kShard};
  if (name.ends_with(".parquet")) return FileFormat{FileKind::kParquet};
  const Compression compression = CompressionOf(name);
  if (compression != Compression::kNone) name = name.substr(0, name.rfind('.'));
  if (name.ends_with(".txt")) return FileFormat{FileKind::kText, compression};
  for (const char* end : {".jsonl", ".ndjson", ".json"}) {
    if (name.ends_with(end)) return FileFormat{FileKind::kJsonLines, compression};
  }
  return std::nullopt;
}

Result<DataFiles> FindDataFiles(const std::string& uri, const api::Storage& options,
                                const OpenStorage& open) {
  const std::string path = storage::LocalPath(uri);
  std::error_code ignored;
  const auto pattern = SplitPattern(uri, path);
  DataFiles found;
  const bool folder =
      path.empty() ? !FormatOf(uri).has_value() : std::filesystem::is_directory(path, ignored);
  if (!pattern && !folder) {
    const storage::SplitUri split = storage::SplitLastName(uri);
    ASSIGN_OR_RETURN(found.storage, open(split.folder, options));
    const FileFormat text{FileKind::kText, CompressionOf(split.name)};
    ASSIGN_OR_RETURN(const std::uint64_t size, found.storage->Size(split.name));
    FileFormat format = FormatOf(split.name).value_or(text);
    // Whoever may read this file alone learns nothing of the one beside it.
    if (format.kind == FileKind::kShard && found.storage->Size(MegatronIndexOf(split.name)).ok()) {
      format.kind = FileKind::kMegatron;
    }
    found.files.push_back({split.name, format, size});
    return found;
  }
  ASSIGN_OR_RETURN(found.storage, open(pattern ? pattern->folder : uri, options));
  ASSIGN_OR_RETURN(const auto there, found.storage->ListFiles(""));
  const auto is_there = [&](const std::string& name) {
    return std::ranges::binary_search(there, name, {}, &storage::StoredFile::name);
  };
  for (const auto& [name, size] : there) {
    if (pattern && fnmatch(pattern->name.c_str(), name.c_str(), FNM_PATHNAME | FNM_PERIOD) != 0) {
      continue;
    }
    if (!pattern && name.ends_with(".json")) continue;
    auto format = FormatOf(name);
    if (!format) continue;
    if (format->kind == FileKind::kShard && is_there(MegatronIndexOf(name))) {
      format->kind = FileKind::kMegatron;
    }
    found.files.push_back({name, *format, size});
  }
  if (!found.files.empty()) return found;
  return InvalidArgument(uri + (pattern ? " matches" : " holds") +
                         " no files of text (.txt), JSON lines (.jsonl, .ndjson; also .gz and"
                         " .zst), Parquet (.parquet) or token ids (.bin)");
}

}  // namespace swarm::data

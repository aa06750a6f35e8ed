// Which files the data of a job are, and what each holds.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/data/documents/decompress.h"
#include "worker/storage/storage.h"

namespace swarm::data {

/// As storage::Storage::Open. Tests give one that fails.
using OpenStorage = std::function<Result<std::unique_ptr<storage::Storage>>(
    const std::string& uri, const api::Storage& options)>;

enum class FileKind { kText, kJsonLines, kParquet, kShard, kMegatron };

/// Whether files of this kind are documents with numbers: JSON lines or Parquet.
inline bool HasDocuments(FileKind kind) {
  return kind == FileKind::kJsonLines || kind == FileKind::kParquet;
}

struct FileFormat {
  FileKind kind = FileKind::kText;
  Compression compression = Compression::kNone;  ///< of text and JSON lines
};

/// By the end of the name: .txt; .jsonl, .ndjson or .json; each also with .gz or .zst behind it;
/// .parquet; .bin, a shard (a file of Megatron's has the same name). None for another name.
std::optional<FileFormat> FormatOf(std::string_view name);

struct DataFile {
  std::string name;  ///< in the storage
  FileFormat format;
  std::uint64_t size = 0;  ///< bytes
};

struct DataFiles {
  std::shared_ptr<storage::Storage> storage;
  std::vector<DataFile> files;  ///< in the order of their names; at least one
};

/// The file, the files of the folder (at any depth) or those that match the pattern `uri`, where
/// *, ? and [ ] stand for characters of one part of a path. Files of unknown names are left out of
/// folders and patterns; a file that is named itself is text then. Folders also leave out .json,
/// which is what settings beside the data are called. A .bin with an .idx of the same name beside it
/// is Megatron's. Errors: kInvalidArgument (no
/// such files), those of Storage.
Result<DataFiles> FindDataFiles(const std::string& uri, const api::Storage& options,
                                const OpenStorage& open = storage::Storage::Open);

}  // namespace swarm::data

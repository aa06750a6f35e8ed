// Which files the data of a job are, and what each holds.
#pragma once

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

enum class FileKind { kText, kJsonLines, kShard };

struct FileFormat {
  FileKind kind = FileKind::kText;
  Compression compression = Compression::kNone;  ///< of a shard: none
};

/// By the end of the name: .txt; .jsonl, .ndjson or .json; each also with .gz or .zst behind it;
/// .bin. None for another name.
std::optional<FileFormat> FormatOf(std::string_view name);

struct DataFile {
  std::string name;  ///< in the storage
  FileFormat format;
};

struct DataFiles {
  std::unique_ptr<storage::Storage> storage;
  std::vector<DataFile> files;  ///< in the order of their names; at least one
};

/// The file, the files of the folder (at any depth) or those that match the pattern `uri`, where
/// *, ? and [ ] stand for characters of one part of a path. Files of unknown names are left out of
/// folders and patterns; a file that is named itself is text then. Folders also leave out .json,
/// which is what settings beside the data are called. Errors: kInvalidArgument (no
/// such files), those of Storage.
Result<DataFiles> FindDataFiles(const std::string& uri, const api::Storage& options);

}  // namespace swarm::data

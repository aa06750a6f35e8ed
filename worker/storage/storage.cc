#include "worker/storage/storage.h"

#include "worker/storage/arrow/arrow_module.h"
#include "worker/storage/file/file_storage.h"
#include "worker/storage/s3/s3_storage.h"

namespace swarm::storage {

std::string LocalPath(const std::string& uri) {
  constexpr std::string_view kFile = "file://";
  if (uri.starts_with(kFile)) {
    const std::string path = uri.substr(kFile.size());
    return path.starts_with('/') ? path : "";
  }
  return uri.find("://") == std::string::npos ? uri : "";
}

SplitUri SplitLastName(const std::string& uri) {
  const std::size_t slash = uri.rfind('/');
  if (slash == std::string::npos) return {".", uri};
  return {slash == 0 ? "/" : uri.substr(0, slash), uri.substr(slash + 1)};
}

Status CheckName(const std::string& name) {
  const std::string bracketed = "/" + name + "/";
  if (name.empty() || name.find('\0') != std::string::npos ||
      bracketed.find("//") != std::string::npos || bracketed.find("/../") != std::string::npos ||
      bracketed.find("/./") != std::string::npos) {
    return InvalidArgument("\"" + name + "\" is not a name of a file inside the folder");
  }
  return {};
}

Result<std::unique_ptr<Storage>> Storage::Open(const std::string& uri,
                                               const api::Storage& options) {
  if (uri.empty()) return InvalidArgument("a storage uri is empty");
  if (uri.starts_with("s3://")) {
    ASSIGN_OR_RETURN(s3::S3Options s3_options, s3::MakeS3Options(uri, options));
    return s3::OpenS3Storage(std::move(s3_options));
  }
  if (IsArrowUri(uri)) return OpenArrowStorage(uri);
  const std::string path = LocalPath(uri);
  if (!path.empty()) return OpenFileStorage(path);
  return InvalidArgument("storage uri \"" + uri +
                         "\": expected s3://bucket/prefix, file:///absolute/path or a path; of data"
                         " also gs://bucket/prefix or"
                         " abfs://container@account.dfs.core.windows.net/prefix");
}

Result<std::vector<std::string>> Storage::List(const std::string& prefix) {
  ASSIGN_OR_RETURN(std::vector<StoredFile> files, ListFiles(prefix));
  std::vector<std::string> names;
  for (StoredFile& file : files) names.push_back(std::move(file.name));
  return names;
}

}  // namespace swarm::storage

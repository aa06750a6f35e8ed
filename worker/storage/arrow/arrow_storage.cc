// The module libswarm_buckets.so: the only code that includes Apache Arrow's file systems.
#include <arrow/buffer.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/io_util.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "worker/storage/arrow/arrow_module.h"

namespace swarm::storage {
namespace {

// Google's library tries for a quarter of an hour; who calls has a patience of its own.
constexpr const char* kGoogleRetries = "?retry_limit_seconds=30";
// An open file may hold a connection.
constexpr std::size_t kOpenFilesMax = 128;

// Arrow's wheel looks for authorities of certificates where its builders' system has them.
void NameAuthorities() {
  const char* named = std::getenv("SSL_CERT_FILE");
  for (const char* path : {named, "/etc/ssl/certs/ca-certificates.crt"}) {
    std::error_code ignored;
    if (path == nullptr || !std::filesystem::exists(path, ignored)) continue;
    arrow::fs::FileSystemGlobalOptions options;
    options.tls_ca_file_path = path;
    // Fails where another part of the program has said it; then it is said.
    (void)arrow::fs::Initialize(options);
    return;
  }
}

Status ToStatus(const arrow::Status& status, const std::string& uri) {
  const std::string text = uri + ": " + status.message();
  const int number = arrow::internal::ErrnoFromStatus(status);
  // Azure's answers have no number, and their code in the text.
  const bool azure = text.find("Azure Error: [") != text.npos;
  if (number == ENOENT) return NotFound(text);
  if (number == EACCES || number == EPERM) return PermissionDenied(text);
  if (azure && (text.find("] 401") != text.npos || text.find("] 403") != text.npos)) {
    return PermissionDenied(text);
  }
  if (status.IsInvalid() || status.IsNotImplemented()) return InvalidArgument(text);
  return Unavailable(text);
}

/// The result of `call`, which uses Arrow. Errors as those of Storage.
template <typename Call>
auto Guard(const std::string& uri, Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception& error) {
    // What escapes Arrow is of Azure's library, whose headers are not there: a connection that
    // failed, or credentials that it cannot find.
    const std::string_view type = typeid(error).name();
    const std::string text = uri + ": " + error.what();
    return type.find("Authentication") != type.npos ? PermissionDenied(text) : Unavailable(text);
  }
}

template <typename T>
Result<T> Take(arrow::Result<T> result, const std::string& uri) {
  if (!result.ok()) return ToStatus(result.status(), uri);
  return std::move(result).ValueUnsafe();
}

class ArrowStorage final : public Storage {
 public:
  /// `folder` in `files`; `uri` for messages.
  ArrowStorage(std::shared_ptr<arrow::fs::FileSystem> files, std::string folder, std::string uri)
      : files_(std::move(files)), folder_(std::move(folder)), uri_(std::move(uri)) {}

  Result<Bytes> Read(const std::string& name) override {
    ASSIGN_OR_RETURN(const std::uint64_t size, Size(name));
    return ReadRange(name, 0, size);
  }

  Result<Bytes> ReadRange(const std::string& name, std::uint64_t offset,
                          std::uint64_t size) override {
    return Guard(Describe(name), [&]() -> Result<Bytes> {
      ASSIGN_OR_RETURN(const auto file, Open(name));
      ASSIGN_OR_RETURN(const auto buffer, Take(file->ReadAt(static_cast<std::int64_t>(offset),
                                                            static_cast<std::int64_t>(size)),
                                               Describe(name)));
      if (static_cast<std::uint64_t>(buffer->size()) != size) {
        return Status(StatusCode::kOutOfRange,
                      Describe(name) + " ends before byte " + std::to_string(offset + size));
      }
      return Bytes::Wrap(buffer->data(), size, buffer);
    });
  }

  Result<std::uint64_t> Size(const std::string& name) override {
    return Guard(Describe(name), [&]() -> Result<std::uint64_t> {
      ASSIGN_OR_RETURN(const auto file, Open(name));
      ASSIGN_OR_RETURN(const std::int64_t size, Take(file->GetSize(), Describe(name)));
      return static_cast<std::uint64_t>(size);
    });
  }

  Result<std::vector<StoredFile>> ListFiles(const std::string& prefix) override {
    return Guard(uri_, [&]() -> Result<std::vector<StoredFile>> {
      ASSIGN_OR_RETURN(const auto there, List(/*recursive=*/true));
      std::vector<StoredFile> found;
      for (const arrow::fs::FileInfo& info : there) {
        const std::string name = NameOf(info);
        if (!info.IsFile() || !name.starts_with(prefix)) continue;
        found.push_back({name, static_cast<std::uint64_t>(info.size())});
      }
      std::ranges::sort(found, {}, &StoredFile::name);
      return found;
    });
  }

  Result<std::vector<std::string>> ListFolders() override {
    return Guard(uri_, [&]() -> Result<std::vector<std::string>> {
      ASSIGN_OR_RETURN(const auto there, List(/*recursive=*/false));
      std::vector<std::string> found;
      for (const arrow::fs::FileInfo& info : there) {
        if (info.IsDirectory()) found.push_back(NameOf(info));
      }
      std::ranges::sort(found);
      return found;
    });
  }

  Status Write(const std::string& name, std::span<const Bytes>) override { return OnlyRead(name); }
  Status WriteIfAbsent(const std::string& name, std::span<const Bytes>) override {
    return OnlyRead(name);
  }
  Status Remove(const std::string& name) override { return OnlyRead(name); }
  Status RemoveFolder(const std::string& name) override { return OnlyRead(name); }

  std::string Describe(const std::string& name) const override { return uri_ + "/" + name; }

 private:
  using File = std::shared_ptr<arrow::io::RandomAccessFile>;

  Status OnlyRead(const std::string& name) const {
    return Unimplemented(Describe(name) +
                         " cannot be written: data alone are read from such buckets; write to"
                         " s3://BUCKET/PREFIX or to a path");
  }

  // Kept open, for each opening asks the server what the file is.
  Result<File> Open(const std::string& name) {
    {
      const std::lock_guard lock(mutex_);
      const auto at = open_.find(name);
      if (at != open_.end()) return at->second;
    }
    ASSIGN_OR_RETURN(File file, Take(files_->OpenInputFile(folder_ + "/" + name), Describe(name)));
    const std::lock_guard lock(mutex_);
    if (open_.size() >= kOpenFilesMax) open_.clear();
    open_[name] = file;
    return file;
  }

  Result<std::vector<arrow::fs::FileInfo>> List(bool recursive) {
    arrow::fs::FileSelector selector;
    selector.base_dir = folder_;
    selector.recursive = recursive;
    selector.allow_not_found = true;
    return Take(files_->GetFileInfo(selector), uri_);
  }

  std::string NameOf(const arrow::fs::FileInfo& info) const {
    return info.path().substr(folder_.size() + 1);
  }

  const std::shared_ptr<arrow::fs::FileSystem> files_;
  const std::string folder_;  // bucket/prefix
  const std::string uri_;
  std::mutex mutex_;
  std::map<std::string, File> open_;  // by name; guarded by mutex_
};

Result<std::unique_ptr<Storage>> Open(std::string uri) {
  static const bool named = (NameAuthorities(), true);
  (void)named;
  while (uri.ends_with('/')) uri.pop_back();
  const std::string plain = uri.substr(0, uri.find('?'));  // a query may have secrets
  if (uri.starts_with("gs://") && plain == uri) uri += kGoogleRetries;
  return Guard(plain, [&]() -> Result<std::unique_ptr<Storage>> {
    std::string folder;
    ASSIGN_OR_RETURN(auto files, Take(arrow::fs::FileSystemFromUri(uri, &folder), plain));
    if (folder.empty()) return InvalidArgument(plain + " names no bucket");
    return std::unique_ptr<Storage>(
        std::make_unique<ArrowStorage>(std::move(files), std::move(folder), plain));
  });
}

}  // namespace
}  // namespace swarm::storage

void SwarmOpenArrowStorage(const std::string& uri,
                           swarm::Result<std::unique_ptr<swarm::storage::Storage>>* result) {
  *result = swarm::storage::Open(uri);
}

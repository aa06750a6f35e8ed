// Storage for checkpoints, models and data: one interface to a folder of this machine or to a
// bucket with the S3 protocol; data are also read from Google's and Azure's buckets. A name is
// relative to the opened uri and uses '/' on all of them.
//
// Promises of all implementations: a write is complete or invisible, whenever the process dies; a
// Write that has returned ok is durable; every call ends (network calls have a deadline). Calls may
// come from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/swarmjob.h"
#include "base/bytes.h"
#include "base/status.h"

namespace swarm::storage {

/// Gives `size` bytes of a content from `offset`.
using ReadPart = std::function<Result<Bytes>(std::uint64_t offset, std::uint64_t size)>;

struct StoredFile {
  std::string name;
  std::uint64_t size = 0;  ///< bytes
};

class Storage {
 public:
  /// Opens `uri`: s3://bucket/prefix, file:///absolute/path, a path, or to read alone
  /// gs://bucket/prefix or abfs:// (arrow/arrow_module.h). Creates nothing and contacts no server.
  /// Credentials for S3 come from the environment (s3/credentials.h); `options` without endpoint or
  /// region takes those of AWS_ENDPOINT_URL and AWS_REGION. Errors: kInvalidArgument (an unknown
  /// scheme, no bucket).
  static Result<std::unique_ptr<Storage>> Open(const std::string& uri,
                                               const api::Storage& options = {});
  virtual ~Storage() = default;

  /// The whole content. Errors of all calls below: kNotFound, kPermissionDenied, kUnavailable (the
  /// network, after retries), kInvalidArgument (a name that leaves the folder); they name the uri.
  virtual Result<Bytes> Read(const std::string& name) = 0;
  /// As Read, but a local file is mapped, not copied. Only for files that are never changed in
  /// place.
  virtual Result<Bytes> Map(const std::string& name) { return Read(name); }
  /// `size` bytes from `offset`. Errors also: kOutOfRange (the content ends before).
  virtual Result<Bytes> ReadRange(const std::string& name, std::uint64_t offset,
                                  std::uint64_t size) = 0;
  /// Bytes of the content.
  virtual Result<std::uint64_t> Size(const std::string& name) = 0;

  /// Writes the pieces one after the other, in place of earlier content. Errors also:
  /// kResourceExhausted (the disk is full, or a quota); the earlier content is then still there.
  virtual Status Write(const std::string& name, std::span<const Bytes> pieces) = 0;
  /// As Write, if there is nothing of that name: of several writers one wins. Errors also:
  /// kAlreadyExists.
  virtual Status WriteIfAbsent(const std::string& name, std::span<const Bytes> pieces) = 0;
  /// As Write, of `size` bytes that `read` gives in parts, from the first to the last. About
  /// 64 MiB are in memory at a time, a ten-thousandth of the content if that is more. Errors also:
  /// those of `read`; nothing is written then.
  virtual Status WriteParts(const std::string& name, std::uint64_t size, const ReadPart& read);
  Status Write(const std::string& name, const Bytes& content) {
    return Write(name, std::span<const Bytes>(&content, 1));
  }
  Status WriteIfAbsent(const std::string& name, const Bytes& content) {
    return WriteIfAbsent(name, std::span<const Bytes>(&content, 1));
  }

  /// All files whose names begin with `prefix`, at any depth, sorted by name; empty when there are
  /// none. In a bucket this is one request for a thousand files, and not one for each.
  virtual Result<std::vector<StoredFile>> ListFiles(const std::string& prefix) = 0;
  /// Their names.
  Result<std::vector<std::string>> List(const std::string& prefix);
  /// The folders right below the opened uri, sorted; also those where a writer died.
  virtual Result<std::vector<std::string>> ListFolders() = 0;
  /// Ok also if it does not exist.
  virtual Status Remove(const std::string& name) = 0;
  /// Removes the folder and all below it, including files that dead writers left. Ok also if it
  /// does not exist.
  virtual Status RemoveFolder(const std::string& name) = 0;

  /// The uri of `name`, for messages.
  virtual std::string Describe(const std::string& name) const = 0;
};

/// A uri cut into the folder and the last part of its path; "a/b.txt" gives {"a", "b.txt"}.
struct SplitUri {
  std::string folder;
  std::string name;
};
SplitUri SplitLastName(const std::string& uri);

/// The path that a file uri or a plain path names; empty for another scheme.
std::string LocalPath(const std::string& uri);

/// Whether it names a bucket.
inline bool IsBucket(const std::string& uri) { return !uri.empty() && LocalPath(uri).empty(); }

/// Refuses names that are empty, absolute, or leave the folder by "..".
Status CheckName(const std::string& name);

}  // namespace swarm::storage

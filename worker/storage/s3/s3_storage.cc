#include "worker/storage/s3/s3_storage.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>

#include "base/hash.h"
#include "worker/storage/s3/requester.h"
#include "worker/storage/s3/xml.h"

namespace swarm::storage::s3 {
namespace {

constexpr std::uint64_t kPartsMax = 10'000;

std::uint64_t SizeOf(std::span<const Bytes> pieces) {
  std::uint64_t size = 0;
  for (const Bytes& piece : pieces) size += piece.size();
  return size;
}

// The bytes [offset, offset + size) of the pieces together; shares their memory.
std::vector<Bytes> Cut(std::span<const Bytes> pieces, std::uint64_t offset, std::uint64_t size) {
  std::vector<Bytes> cut;
  for (const Bytes& piece : pieces) {
    if (offset >= piece.size()) {
      offset -= piece.size();
      continue;
    }
    const std::uint64_t part = std::min<std::uint64_t>(size, piece.size() - offset);
    if (part > 0) cut.push_back(piece.Slice(offset, part));
    offset = 0;
    size -= part;
    if (size == 0) break;
  }
  return cut;
}

// The bytes [offset, offset + size) of a content that is uploaded in parts.
using CutPart = std::function<Result<std::vector<Bytes>>(std::uint64_t offset, std::uint64_t size)>;

std::optional<std::uint64_t> ToSize(const std::string& text) {
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc()) return std::nullopt;
  return size;
}

class S3Storage final : public Storage {
 public:
  explicit S3Storage(S3Options options) : requester_(std::move(options)) {}

  Result<Bytes> Read(const std::string& name) override {
    RETURN_IF_ERROR(CheckName(name));
    ASSIGN_OR_RETURN(const Answer answer, requester_.Perform({.key = Key(name), .transfer = true}));
    return answer.response.body;
  }

  Result<Bytes> ReadRange(const std::string& name, std::uint64_t offset,
                          std::uint64_t size) override;
  Result<std::uint64_t> Size(const std::string& name) override;

  using Storage::Write;
  using Storage::WriteIfAbsent;
  Status Write(const std::string& name, std::span<const Bytes> pieces) override {
    return Put(name, pieces, false);
  }
  Status WriteIfAbsent(const std::string& name, std::span<const Bytes> pieces) override {
    return Put(name, pieces, true);
  }
  Status WriteParts(const std::string& name, std::uint64_t size, const ReadPart& read) override;

  Result<std::vector<StoredFile>> ListFiles(const std::string& prefix) override {
    return ListBelow(prefix, "Contents", "Key", {});
  }
  Result<std::vector<std::string>> ListFolders() override;
  Status Remove(const std::string& name) override;
  Status RemoveFolder(const std::string& name) override;

  std::string Describe(const std::string& name) const override {
    return requester_.Describe(Key(name));
  }

 private:
  using Query = std::vector<std::pair<std::string, std::string>>;

  std::string Key(const std::string& name) const { return requester_.options().prefix + name; }

  Status Put(const std::string& name, std::span<const Bytes> pieces, bool if_absent);
  Status PutAtOnce(Operation operation, bool if_absent);
  Status PutInParts(const std::string& key, const CutPart& cut, std::uint64_t size, bool if_absent);
  Status CompleteUpload(const std::string& key, const std::string& upload, const std::string& parts,
                        std::uint64_t size, bool if_absent);
  Result<std::uint64_t> SizeOfKey(const std::string& key);
  Result<std::string> PutParts(const std::string& key, const std::string& upload,
                               const CutPart& cut, std::uint64_t size);
  Result<std::vector<StoredFile>> ListBelow(const std::string& prefix, std::string_view element,
                                            std::string_view field, const Query& more);
  Status AbortUploads(const std::string& folder);

  Requester requester_;
};

Result<Bytes> S3Storage::ReadRange(const std::string& name, std::uint64_t offset,
                                   std::uint64_t size) {
  RETURN_IF_ERROR(CheckName(name));
  if (size == 0) return Bytes();  // HTTP has no range of nothing
  const std::string range =
      "bytes=" + std::to_string(offset) + "-" + std::to_string(offset + size - 1);
  ASSIGN_OR_RETURN(
      const Answer answer,
      requester_.Perform({.key = Key(name), .headers = {{"range", range}}, .transfer = true}));
  if (answer.response.status == 206 && answer.response.body.size() == size) {
    return answer.response.body;
  }
  return Status(StatusCode::kOutOfRange, Describe(name) + " ends before the " +
                                             std::to_string(size) + " bytes from " +
                                             std::to_string(offset));
}

Result<std::uint64_t> S3Storage::Size(const std::string& name) {
  RETURN_IF_ERROR(CheckName(name));
  return SizeOfKey(Key(name));
}

Result<std::uint64_t> S3Storage::SizeOfKey(const std::string& key) {
  ASSIGN_OR_RETURN(const Answer answer, requester_.Perform({.method = "HEAD", .key = key}));
  const auto size = ToSize(answer.response.GetHeader("content-length"));
  if (!size) return Unavailable(requester_.Describe(key) + ": the server tells no size");
  return *size;
}

Status S3Storage::Put(const std::string& name, std::span<const Bytes> pieces, bool if_absent) {
  RETURN_IF_ERROR(CheckName(name));
  const std::uint64_t size = SizeOf(pieces);
  if (size > requester_.options().part_bytes) {
    const CutPart cut = [pieces](std::uint64_t offset, std::uint64_t part) {
      return Cut(pieces, offset, part);
    };
    return PutInParts(Key(name), cut, size, if_absent);
  }
  return PutAtOnce(
      {.method = "PUT", .key = Key(name), .body = {pieces.begin(), pieces.end()}, .transfer = true},
      if_absent);
}

Status S3Storage::WriteParts(const std::string& name, std::uint64_t size, const ReadPart& read) {
  if (size <= requester_.options().part_bytes) return Storage::WriteParts(name, size, read);
  RETURN_IF_ERROR(CheckName(name));
  const CutPart cut = [&read](std::uint64_t offset,
                              std::uint64_t part) -> Result<std::vector<Bytes>> {
    ASSIGN_OR_RETURN(Bytes bytes, read(offset, part));
    return std::vector<Bytes>{std::move(bytes)};
  };
  return PutInParts(Key(name), cut, size, false);
}

Status S3Storage::PutAtOnce(Operation operation, bool if_absent) {
  if (if_absent) operation.headers.emplace_back("if-none-match", "*");
  int attempts = 0;
  const Status status = requester_.Perform(operation, &attempts).status();
  if (status.code() != StatusCode::kAlreadyExists || attempts == 1) return status;
  // The answer to an earlier try may have got lost: then the existing content is ours.
  const auto there = requester_.Perform({.key = operation.key, .transfer = true});
  if (!there.ok()) return there.status();
  const bool ours = ComputeDigest(there->response.body.span()) == ComputeDigest(operation.body);
  return ours ? Status() : status;
}

Status S3Storage::PutInParts(const std::string& key, const CutPart& cut, std::uint64_t size,
                             bool if_absent) {
  ASSIGN_OR_RETURN(const Answer begun,
                   requester_.Perform({.method = "POST", .key = key, .query = {{"uploads", ""}}}));
  const std::string upload = FindText(begun.response.body.text(), "UploadId");
  if (upload.empty())
    return Unavailable(requester_.Describe(key) + ": the server begins no upload");
  const auto parts = PutParts(key, upload, cut, size);
  Status status = parts.status();
  if (parts.ok()) {
    status = CompleteUpload(key, upload, *parts, size, if_absent);
  }
  if (!status.ok()) {
    // An unfinished upload costs money until it is dropped. The first error is the one to return.
    (void)requester_.Perform({.method = "DELETE", .key = key, .query = {{"uploadId", upload}}})
        .ok();
  }
  return status;
}

Status S3Storage::CompleteUpload(const std::string& key, const std::string& upload,
                                 const std::string& parts, std::uint64_t size, bool if_absent) {
  Operation complete{.method = "POST",
                     .key = key,
                     .query = {{"uploadId", upload}},
                     .body = {Bytes::Copy(parts)},
                     .transfer = true,  // the server joins the parts before it answers
                     .patience = std::chrono::minutes(10)};
  if (if_absent) complete.headers.emplace_back("if-none-match", "*");
  int attempts = 0;
  const Status status = requester_.Perform(complete, &attempts).status();
  if (status.code() != StatusCode::kNotFound || attempts == 1) return status;
  // The upload is gone: an earlier try completed it, and the answer got lost.
  ASSIGN_OR_RETURN(const std::uint64_t there, SizeOfKey(key));
  return there == size ? Status() : status;
}

Result<std::string> S3Storage::PutParts(const std::string& key, const std::string& upload,
                                        const CutPart& cut, std::uint64_t size) {
  const std::uint64_t part_bytes =
      std::max(requester_.options().part_bytes, (size + kPartsMax - 1) / kPartsMax);
  std::string xml = "<CompleteMultipartUpload>";
  for (std::uint64_t number = 1, at = 0; at < size; ++number, at += part_bytes) {
    const std::string number_text = std::to_string(number);
    ASSIGN_OR_RETURN(std::vector<Bytes> body, cut(at, std::min(part_bytes, size - at)));
    ASSIGN_OR_RETURN(
        const Answer answer,
        requester_.Perform({.method = "PUT",
                            .key = key,
                            .query = {{"partNumber", number_text}, {"uploadId", upload}},
                            .body = std::move(body),
                            .transfer = true}));
    xml += "<Part><PartNumber>" + number_text + "</PartNumber><ETag>" +
           EscapeXml(answer.response.GetHeader("etag")) + "</ETag></Part>";
  }
  return xml + "</CompleteMultipartUpload>";
}

Result<std::vector<StoredFile>> S3Storage::ListBelow(const std::string& prefix,
                                                     std::string_view element,
                                                     std::string_view field, const Query& more) {
  const std::string& root = requester_.options().prefix;
  std::vector<StoredFile> files;
  std::string next;
  do {
    Operation operation{.query = more};
    operation.query.emplace_back("list-type", "2");
    operation.query.emplace_back("prefix", root + prefix);
    if (!next.empty()) operation.query.emplace_back("continuation-token", next);
    ASSIGN_OR_RETURN(const Answer answer, requester_.Perform(operation));
    const std::string_view xml = answer.response.body.text();
    for (const std::string_view item : FindElements(xml, element)) {
      const std::string key = FindText(item, field);
      if (!key.starts_with(root) || key.size() == root.size()) continue;
      files.push_back({key.substr(root.size()), ToSize(FindText(item, "Size")).value_or(0)});
    }
    const bool truncated = FindText(xml, "IsTruncated") == "true";
    next = truncated ? FindText(xml, "NextContinuationToken") : "";
  } while (!next.empty());
  std::ranges::sort(files, {}, &StoredFile::name);
  return files;
}

Result<std::vector<std::string>> S3Storage::ListFolders() {
  ASSIGN_OR_RETURN(const std::vector<StoredFile> found,
                   ListBelow("", "CommonPrefixes", "Prefix", {{"delimiter", "/"}}));
  std::vector<std::string> folders;
  for (const StoredFile& folder : found) {
    folders.push_back(folder.name.substr(0, folder.name.size() - 1));  // without the slash
  }
  return folders;
}

Status S3Storage::Remove(const std::string& name) {
  RETURN_IF_ERROR(CheckName(name));
  const Status status = requester_.Perform({.method = "DELETE", .key = Key(name)}).status();
  return status.code() == StatusCode::kNotFound ? Status() : status;
}

Status S3Storage::RemoveFolder(const std::string& name) {
  RETURN_IF_ERROR(CheckName(name));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, List(name + "/"));
  for (const std::string& file : names) RETURN_IF_ERROR(Remove(file));
  return AbortUploads(name + "/");
}

// Drops uploads that a dead writer began: they are not objects, but take space.
Status S3Storage::AbortUploads(const std::string& folder) {
  ASSIGN_OR_RETURN(const Answer answer,
                   requester_.Perform({.query = {{"uploads", ""}, {"prefix", Key(folder)}}}));
  for (const std::string_view upload : FindElements(answer.response.body.text(), "Upload")) {
    const Status status = requester_
                              .Perform({.method = "DELETE",
                                        .key = FindText(upload, "Key"),
                                        .query = {{"uploadId", FindText(upload, "UploadId")}}})
                              .status();
    if (!status.ok() && status.code() != StatusCode::kNotFound) return status;
  }
  return {};
}

std::string FirstSet(const std::string& given, const Environment& environment,
                     std::initializer_list<const char*> names) {
  if (!given.empty()) return given;
  for (const char* name : names) {
    if (const std::string value = environment(name); !value.empty()) return value;
  }
  return "";
}

}  // namespace

Result<S3Options> MakeS3Options(const std::string& uri, const api::Storage& storage,
                                const Environment& environment) {
  constexpr std::string_view kScheme = "s3://";
  if (!uri.starts_with(kScheme)) return InvalidArgument(uri + " is no s3:// uri");
  const std::string rest = uri.substr(kScheme.size());
  S3Options options;
  options.bucket = rest.substr(0, rest.find('/'));
  if (options.bucket.empty()) return InvalidArgument(uri + " names no bucket");
  if (rest.size() > options.bucket.size()) options.prefix = rest.substr(options.bucket.size() + 1);
  while (options.prefix.ends_with('/')) options.prefix.pop_back();
  if (!options.prefix.empty()) {
    const Status status = CheckName(options.prefix);
    if (!status.ok()) return status.WithContext(uri);
    options.prefix += '/';
  }
  options.endpoint =
      FirstSet(storage.endpoint, environment, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  if (!options.endpoint.empty() && !options.endpoint.starts_with("https://") &&
      !options.endpoint.starts_with("http://")) {
    return InvalidArgument("the S3 endpoint " + options.endpoint +
                           " begins with no http:// or https://");
  }
  const std::string region =
      FirstSet(storage.region, environment, {"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (!region.empty()) options.region = region;
  options.environment = environment;
  return options;
}

std::unique_ptr<Storage> OpenS3Storage(S3Options options) {
  return std::make_unique<S3Storage>(std::move(options));
}

}  // namespace swarm::storage::s3

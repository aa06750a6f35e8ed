#include "ctl/inputs/tokenize_command.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

#include "api/format/enum_names.h"
#include "api/parse.h"
#include "base/hash.h"
#include "base/processors.h"
#include "worker/data/data_files.h"
#include "worker/data/tokenizer.h"
#include "worker/storage/storage.h"

namespace swarm::ctl {
namespace {

// What the shards were made with.
constexpr const char* kRecord = "tokenize.json";

// One command. Threads: each encodes files, one after the other; `mutex_` guards what they share.
class Tokenization {
 public:
  Tokenization(const TokenizeOptions& options, std::FILE* err) : options_(options), err_(err) {}

  Status Run() {
    RETURN_IF_ERROR(Prepare());
    std::vector<std::jthread> threads;
    const std::size_t count = std::min<std::size_t>(UsableProcessors(), waiting_.size());
    for (std::size_t i = 0; i < count; ++i) {
      threads.emplace_back([this] { Work(); });
    }
    threads.clear();  // joins
    return status_;
  }

  void Print(std::FILE* out) const {
    const char* type = width() == 2 ? "UInt16" : "UInt32";
    std::fprintf(out, "%s has %zu shards; %llu tokens were made now%s\n", options_.out.c_str(),
                 data_.files.size(), static_cast<unsigned long long>(tokens_),
                 counts_.TextOfSkipped().c_str());
    std::fprintf(out,
                 "In a manifest: data: {uri: \"%s\", tokenType: %s}, and in model: tokenizer: {uri:"
                 " \"%s\"}\n",
                 options_.out.c_str(), type, TokenizerUri().c_str());
  }

 private:
  std::size_t width() const { return tokenizer_->vocab_size() <= 65536 ? 2 : 4; }

  std::string TokenizerUri() const {
    const bool model = files_.kind == api::TokenizerKind::kSentencePiece;
    return model ? options_.out + "/tokenizer.model" : options_.out;
  }

  Status Prepare() {
    const api::Tokenizer named = api::TokenizerAt(options_.tokenizer);
    ASSIGN_OR_RETURN(files_, data::ReadTokenizerFiles(named, {}));
    auto tokenizer = data::MakeTokenizer(files_);
    if (!tokenizer.ok()) return tokenizer.status().WithContext(options_.tokenizer);
    tokenizer_ = *std::move(tokenizer);
    ASSIGN_OR_RETURN(data_, data::FindDataFiles(options_.data, {}));
    for (const data::DataFile& file : data_.files) {
      if (file.format.kind != data::FileKind::kShard &&
          file.format.kind != data::FileKind::kMegatron) {
        continue;
      }
      return InvalidArgument("--data: " + data_.storage->Describe(file.name) +
                             " has token ids already");
    }
    ASSIGN_OR_RETURN(folder_, storage::Storage::Open(options_.out));
    RETURN_IF_ERROR(TakeFolder());
    ASSIGN_OR_RETURN(const std::vector<std::string> names, folder_->List(""));
    const std::set<std::string> there(names.begin(), names.end());
    for (const data::DataFile& file : data_.files) {
      if (!there.contains(ShardOf(file))) waiting_.push_back(&file);
    }
    return data::WriteTokenizerFiles(files_, *folder_, "");
  }

  // Marks the folder as that of this command, or finds that it is.
  Status TakeFolder() {
    std::vector<Bytes> contents;
    for (const auto& [name, content] : files_.files) contents.push_back(content);
    const nlohmann::json record = {{"data", options_.data},
                                   {"tokenizer", ComputeDigest(contents).Hex()},
                                   {"textField", options_.documents.text_field},
                                   {"onBadDocument", NameOf(options_.documents.on_bad_document)}};
    const Bytes text =
        Bytes::Copy(record.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    const Result<Bytes> earlier = folder_->Read(kRecord);
    if (earlier.ok() && earlier->text() == text.text()) return Status();
    if (earlier.ok()) {
      return AlreadyExists("--out: " + folder_->Describe(kRecord) +
                           " is of another command; repeat that one, or give a new folder");
    }
    if (earlier.status().code() != StatusCode::kNotFound) return earlier.status();
    ASSIGN_OR_RETURN(const std::vector<std::string> names, folder_->List(""));
    if (!names.empty()) {
      return AlreadyExists("--out: " + options_.out + " is not empty (" + names.front() +
                           " is there); give a new folder");
    }
    return folder_->Write(kRecord, text);
  }

  static std::string ShardOf(const data::DataFile& file) { return file.name + ".bin"; }

  void Work() {
    while (true) {
      const std::size_t at = next_++;
      if (at >= waiting_.size()) return;
      const Status status = Encode(*waiting_[at]);
      if (status.ok()) continue;
      next_ = waiting_.size();  // the others end with the files that they are at
      const std::lock_guard lock(mutex_);
      if (status_.ok()) status_ = status;
      return;
    }
  }

  Status Encode(const data::DataFile& file) {
    const std::string path = data_.storage->Describe(file.name);
    ASSIGN_OR_RETURN(const Bytes content, data_.storage->Map(file.name));
    ASSIGN_OR_RETURN(const data::EncodedFile encoded,
                     data::EncodeFile(path, file.format, content, *tokenizer_, options_.documents));
    if (encoded.ids.empty()) {
      return InvalidArgument(path + " has no text" + encoded.documents.TextOfSkipped());
    }
    RETURN_IF_ERROR(folder_->Write(ShardOf(file), encoded.ids));
    const std::lock_guard lock(mutex_);
    counts_.Add(encoded.documents);
    tokens_ += encoded.ids.size() / width();
    ++done_;
    std::fprintf(err_, "%zu of %zu files: %s\n", data_.files.size() - waiting_.size() + done_,
                 data_.files.size(), path.c_str());
    return Status();
  }

  const TokenizeOptions& options_;
  std::FILE* const err_;
  data::TokenizerFiles files_;
  std::unique_ptr<data::Tokenizer> tokenizer_;
  data::DataFiles data_;
  std::unique_ptr<storage::Storage> folder_;
  std::vector<const data::DataFile*> waiting_;  // files without a shard
  std::atomic<std::size_t> next_ = 0;           // of waiting_
  std::mutex mutex_;
  Status status_;  // the first error
  data::DocumentCounts counts_;
  std::uint64_t tokens_ = 0;
  std::size_t done_ = 0;
};

}  // namespace

ExitCode TokenizeData(const TokenizeOptions& options, std::FILE* out, std::FILE* err) {
  Tokenization tokenization(options, err);
  const Status status = tokenization.Run();
  if (!status.ok()) {
    std::fprintf(err, "%s\n", status.message().c_str());
    return ExitCodeOf(status);
  }
  tokenization.Print(out);
  return ExitCode::kOk;
}

}  // namespace swarm::ctl

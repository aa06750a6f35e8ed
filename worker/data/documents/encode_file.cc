#include "worker/data/documents/encode_file.h"

#include <algorithm>
#include <optional>

#include "worker/data/documents/document_encoder.h"
#include "worker/data/documents/json_lines.h"
#include "worker/data/parquet/parquet_module.h"
#include "worker/data/supervised/example.h"
#include "worker/data/supervised/example_encoder.h"
#include "worker/data/utf8.h"

namespace swarm::data {
namespace {

Status CheckText(const std::string& path, std::string_view text) {
  const auto invalid = FindInvalidUtf8(text);
  if (!invalid) return {};
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<long>(*invalid), '\n');
  return InvalidArgument(path + " is not UTF-8: byte " + std::to_string(*invalid) + ", line " +
                         std::to_string(line) + "; convert it, with iconv for example");
}

Result<EncodedFile> EncodeText(const std::string& path, const Bytes& text,
                               const Tokenizer& tokenizer) {
  RETURN_IF_ERROR(CheckText(path, text.text()));
  if (tokenizer.is_bytes()) return EncodedFile{text, 1, {.read = 1}};
  DocumentEncoder encoder(tokenizer, nullptr);
  RETURN_IF_ERROR(encoder.AddLong(text.text()).WithContext(path));
  return EncodedFile{encoder.Take(), encoder.width(), {.read = 1}};
}

std::string PlaceOf(const FileFormat& format, std::uint64_t number) {
  return (format.kind == FileKind::kParquet ? "row " : "line ") + std::to_string(number) + ": ";
}

Status ReadDocuments(const FileFormat& format, const Bytes& content, const std::string& field,
                     const DocumentHandlers& handlers) {
  if (format.kind == FileKind::kParquet) return ReadParquet(content, field, handlers);
  return ReadJsonLines(format.compression, content.text(), field, handlers);
}

/// The examples of all lines or rows, as objects of JSON.
Status ReadObjects(const FileFormat& format, const Bytes& content, api::DataFormat examples,
                   const DocumentHandlers& handlers) {
  if (format.kind == FileKind::kParquet) {
    return ReadParquetObjects(content, FieldsOf(examples), handlers);
  }
  return ReadLines(format.compression, content.text(),
                   [&](std::string_view line, std::uint64_t number) {
                     return handlers.document(std::string(line), number);
                   });
}

Status CheckEos(const std::string& path, const Tokenizer& tokenizer) {
  if (tokenizer.is_bytes() || tokenizer.special().eos) return Status();
  return InvalidArgument(path +
                         " has documents, and the tokenizer names no EOS to end them;"
                         " put a tokenizer_config.json with an eos_token beside"
                         " tokenizer.json");
}

/// What is done with a bad document; it counts those that it skips.
std::function<Status(const Status& reason, std::uint64_t number)> OnBad(
    const std::string& path, const FileFormat& format, const EncodeOptions& options,
    DocumentCounts* counts) {
  return [=](const Status& reason, std::uint64_t number) {
    const std::string text = PlaceOf(format, number) + reason.message();
    if (options.on_bad_document == api::OnBadDocument::kFail) return InvalidArgument(text);
    if (counts->skipped++ == 0) counts->first_skipped = path + ": " + text;
    return Status();
  };
}

Result<EncodedFile> EncodeExamples(const std::string& path, const FileFormat& format,
                                   const Bytes& content, const Tokenizer& tokenizer,
                                   const EncodeOptions& options) {
  std::optional<ChatTemplate> chat;
  if (options.format == api::DataFormat::kChat) {
    auto compiled = ChatTemplate::Compile(options.tokenizer_files);
    if (!compiled.ok()) return compiled.status().WithContext(path);
    chat = *std::move(compiled);
  } else {
    RETURN_IF_ERROR(CheckEos(path, tokenizer));
  }
  DocumentCounts counts;
  const auto on_bad = OnBad(path, format, options, &counts);
  ExampleEncoder encoder(tokenizer, {options.format, options.view, options.tokens_per_sequence},
                         on_bad);
  const auto on_object = [&](const std::string& object, std::uint64_t number) {
    auto example = ReadExample(chat, object);
    return example.ok() ? encoder.Add(*std::move(example), number)
                        : on_bad(example.status(), number);
  };
  Status status =
      ReadObjects(format, content, options.format, {.document = on_object, .bad = on_bad});
  if (status.ok()) status = encoder.Flush();
  if (!status.ok()) return status.WithContext(path);
  counts.read = encoder.count();
  return EncodedFile{encoder.Take(), sizeof(std::int32_t), std::move(counts)};
}

Result<EncodedFile> EncodeDocuments(const std::string& path, const FileFormat& format,
                                    const Bytes& content, const Tokenizer& tokenizer,
                                    const EncodeOptions& options) {
  RETURN_IF_ERROR(CheckEos(path, tokenizer));
  DocumentCounts counts;
  const auto on_bad = OnBad(path, format, options, &counts);
  DocumentEncoder encoder(tokenizer, on_bad);
  const auto on_document = [&](std::string text, std::uint64_t number) {
    return encoder.Add(std::move(text), number);
  };
  Status status =
      ReadDocuments(format, content, options.text_field, {.document = on_document, .bad = on_bad});
  if (status.ok()) status = encoder.Flush();
  if (!status.ok()) return status.WithContext(path);
  counts.read = encoder.count();
  return EncodedFile{encoder.Take(), encoder.width(), std::move(counts)};
}

}  // namespace

void DocumentCounts::Add(const DocumentCounts& later) {
  if (skipped == 0) first_skipped = later.first_skipped;
  read += later.read;
  skipped += later.skipped;
}

std::string DocumentCounts::TextOfSkipped() const {
  if (skipped == 0) return "";
  return "; " + std::to_string(skipped) + " of " + std::to_string(read + skipped) +
         " documents were skipped, the first is " + first_skipped;
}

Result<EncodedFile> EncodeFile(const std::string& path, const FileFormat& format,
                               const Bytes& content, const Tokenizer& tokenizer,
                               const EncodeOptions& options) {
  if (HasExamples(format, options)) {
    return EncodeExamples(path, format, content, tokenizer, options);
  }
  if (HasDocuments(format.kind)) {
    return EncodeDocuments(path, format, content, tokenizer, options);
  }
  if (format.compression == Compression::kNone) return EncodeText(path, content, tokenizer);
  std::string text;
  const Status status = Decompress(format.compression, content.text(), [&](std::string_view piece) {
    text += piece;
    return Status();
  });
  if (!status.ok()) return status.WithContext(path);
  return EncodeText(path, Bytes::Copy(text), tokenizer);
}

Status CheckFirstDocument(const std::string& path, const FileFormat& format, const Bytes& content,
                          const EncodeOptions& options) {
  const Status seen = Cancelled("the first document is good");
  const auto on_bad = [&](const Status& reason, std::uint64_t number) {
    if (options.on_bad_document == api::OnBadDocument::kSkip) return Status();
    return InvalidArgument(PlaceOf(format, number) + reason.message());
  };
  const auto on_document = [&](const std::string&, std::uint64_t) { return seen; };
  const auto on_object = [&](const std::string& object, std::uint64_t number) {
    const Status example = options.format == api::DataFormat::kChat
                               ? ReadMessages(object).status()
                               : ReadPromptCompletion(object).status();
    return example.ok() ? seen : on_bad(example, number);
  };
  const Status status =
      HasExamples(format, options)
          ? ReadObjects(format, content, options.format, {.document = on_object, .bad = on_bad})
          : ReadDocuments(format, content, options.text_field,
                          {.document = on_document, .bad = on_bad});
  return status.code() == seen.code() ? Status() : status.WithContext(path);
}

}  // namespace swarm::data

#include "worker/data/documents/json_lines.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "worker/data/utf8.h"

namespace swarm::data {
namespace {

using nlohmann::json;

constexpr std::string_view kWhiteSpace = " \t\r\n";
constexpr std::size_t kNamesMax = 8;  // of fields, in a message

// Takes one field of the outermost object, without building a tree of the others.
class FieldReader final : public nlohmann::json_sax<json> {
 public:
  explicit FieldReader(std::string_view field) : field_(field) {}

  bool null() override { return Other("null"); }
  bool boolean(bool) override { return Other("a boolean"); }
  bool number_integer(number_integer_t) override { return Other("a number"); }
  bool number_unsigned(number_unsigned_t) override { return Other("a number"); }
  bool number_float(number_float_t, const string_t&) override { return Other("a number"); }
  bool binary(binary_t&) override { return Other("binary"); }
  bool string(string_t& value) override {
    if (wanted()) {
      text_ = std::move(value);
      kind_ = nullptr;
      next_ = false;
      return true;
    }
    return Other("a text");
  }
  bool start_object(std::size_t) override {
    if (depth_ > 0) Other("an object");
    ++depth_;
    return true;
  }
  bool end_object() override { return --depth_, true; }
  bool start_array(std::size_t) override {
    Other("a list");
    ++depth_;
    return true;
  }
  bool end_array() override { return --depth_, true; }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    next_ = name == field_;
    if (names_.size() < kNamesMax) names_.push_back(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_position_ = position;
    return false;
  }

  std::size_t error_position() const { return error_position_; }

  // Once the line is read.
  Result<std::string> Take() {
    if (kind_ != nullptr && names_.empty()) {
      return InvalidArgument(std::string("is ") + kind_ + ", no JSON object");
    }
    if (kind_ != nullptr) {
      return InvalidArgument("the field " + std::string(field_) + " is " + kind_ + ", no text");
    }
    if (text_) return *std::move(text_);
    std::string has;
    for (const std::string& name : names_) has += (has.empty() ? "" : ", ") + name.substr(0, 64);
    return InvalidArgument("has no field " + std::string(field_) + "; it has " +
                           (has.empty() ? "none" : has) + "; data.textField names another");
  }

 private:
  bool wanted() const { return depth_ == 1 && next_; }
  bool Other(const char* kind) {
    if (wanted() || depth_ == 0) kind_ = kind;
    if (depth_ == 1) next_ = false;
    return true;
  }

  const std::string_view field_;
  std::size_t depth_ = 0;
  bool next_ = false;  // the value of the field comes next
  std::optional<std::string> text_;
  const char* kind_ = nullptr;  // of what stands where the text, or the object, should
  std::vector<std::string> names_;
  std::size_t error_position_ = 0;
};

Status NoJson(std::string_view line, std::size_t position) {
  if (const auto invalid = FindInvalidUtf8(line)) {
    return InvalidArgument("is not UTF-8, at byte " + std::to_string(*invalid));
  }
  if (position > line.size()) {
    return InvalidArgument("ends in the middle of its JSON object; is the file cut off?");
  }
  return InvalidArgument("is no JSON, at byte " + std::to_string(position - 1));
}

// Cuts pieces of a file into lines.
class LineSplitter {
 public:
  using Take = std::function<Status(std::string_view line, std::uint64_t number)>;

  explicit LineSplitter(const Take& take) : take_(take) {}

  Status Add(std::string_view piece) {
    while (!piece.empty()) {
      const std::size_t end = piece.find('\n');
      const std::string_view part = piece.substr(0, end);
      if (begun_.size() + part.size() > kLineBytesMax) {
        return InvalidArgument("line " + std::to_string(number_ + 1) + " has more than " +
                               std::to_string(kLineBytesMax >> 20) +
                               " MiB; is this a file of JSON lines?");
      }
      if (end == piece.npos) {
        begun_ += part;
        return Status();
      }
      piece.remove_prefix(end + 1);
      if (begun_.empty()) {
        RETURN_IF_ERROR(OnLine(part));
      } else {
        begun_ += part;
        RETURN_IF_ERROR(OnLine(begun_));
        begun_.clear();
      }
    }
    return Status();
  }

  Status End() { return begun_.empty() ? Status() : OnLine(begun_); }

 private:
  Status OnLine(std::string_view line) {
    ++number_;
    if (line.find_first_not_of(kWhiteSpace) == line.npos) return Status();
    return take_(line, number_);
  }

  const Take& take_;
  std::string begun_;  // the part of a line that earlier pieces held
  std::uint64_t number_ = 0;
};

}  // namespace

Result<std::string> ReadTextField(std::string_view line, std::string_view field) {
  FieldReader reader(field);
  if (!json::sax_parse(line, &reader)) return NoJson(line, reader.error_position());
  return reader.Take();
}

Status ReadLines(Compression compression, std::string_view content,
                 const std::function<Status(std::string_view line, std::uint64_t number)>& take) {
  LineSplitter splitter(take);
  RETURN_IF_ERROR(Decompress(compression, content,
                             [&](std::string_view piece) { return splitter.Add(piece); }));
  return splitter.End();
}

Status ReadJsonLines(Compression compression, std::string_view content, const std::string& field,
                     const DocumentHandlers& handlers) {
  return ReadLines(compression, content, [&](std::string_view line, std::uint64_t number) {
    Result<std::string> text = ReadTextField(line, field);
    return text.ok() ? handlers.document(*std::move(text), number)
                     : handlers.bad(text.status(), number);
  });
}

}  // namespace swarm::data

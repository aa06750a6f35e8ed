#include "api/format/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace swarm::api {
namespace {

using nlohmann::json;

constexpr std::size_t kTextBytesMax = std::size_t{1} << 20;
constexpr std::size_t kDepthMax = 64;
constexpr std::size_t kValuesMax = 100'000;
constexpr std::string_view kCoreTag = "tag:yaml.org,2002:";

std::string At(const YAML::Mark& mark) {
  return "line " + std::to_string(mark.line + 1) + ", column " + std::to_string(mark.column + 1);
}

// Stops the reading. It is thrown through yaml-cpp's parser, and caught in this file.
struct Refused {
  FieldError error;
};

[[noreturn]] void Refuse(const YAML::Mark& mark, std::string problem, std::string remedy) {
  throw Refused{{At(mark), std::move(problem), std::move(remedy)}};
}

// The code points of RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
bool IsUtf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if ((first >= 0x80 && first < 0xc2) || first > 0xf4 || i + length > text.size()) return false;
    std::uint32_t point = length == 1 ? first : first & (0x7fu >> length);
    for (std::size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xc0) != 0x80) return false;
      point = point << 6 | (next & 0x3f);
    }
    const bool overlong = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
    if (overlong || (point >= 0xd800 && point < 0xe000) || point > 0x10ffff) return false;
    i += length;
  }
  return true;
}

bool AllOf(std::string_view text, std::string_view alphabet) {
  return !text.empty() && text.find_first_not_of(alphabet) == std::string_view::npos;
}

std::string_view WithoutSign(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return text;
}

// An integer that fits into 64 bits.
std::optional<json> ParseInteger(std::string_view digits, int base, bool negative) {
  std::uint64_t magnitude = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  if (!negative) return json(magnitude);
  constexpr std::uint64_t kLowest = std::uint64_t{1} << 63;
  if (magnitude > kLowest) return std::nullopt;
  return json(static_cast<std::int64_t>(0 - magnitude));
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
bool IsDecimal(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  text = WithoutSign(text);
  if (const std::size_t e = text.find_first_of("eE"); e != std::string_view::npos) {
    if (!AllOf(WithoutSign(text.substr(e + 1)), kDigits)) return false;
    text = text.substr(0, e);
  }
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos) return AllOf(text, kDigits);
  const std::string_view whole = text.substr(0, dot), fraction = text.substr(dot + 1);
  return (whole.empty() || AllOf(whole, kDigits)) &&
         (fraction.empty() || AllOf(fraction, kDigits)) && !(whole.empty() && fraction.empty());
}

double ParseDecimal(std::string_view text) {
  if (text[0] == '+') text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) {
    // Beyond double: the sign of the exponent tells overflow from underflow.
    const bool tiny = text.find("e-") != text.npos || text.find("E-") != text.npos;
    value = tiny ? 0.0 : std::numeric_limits<double>::infinity();
  }
  return value;
}

// The core schema of YAML 1.2 (section 10.3.2).
json ResolvePlain(const std::string& text) {
  static const std::map<std::string, json, std::less<>> kWords = {
      {"", nullptr},     {"~", nullptr},   {"null", nullptr}, {"Null", nullptr},
      {"NULL", nullptr}, {"true", true},   {"True", true},    {"TRUE", true},
      {"false", false},  {"False", false}, {"FALSE", false},
  };
  if (const auto word = kWords.find(text); word != kWords.end()) return word->second;
  if (text.starts_with("0x") && text.size() > 2) {
    if (auto value = ParseInteger(std::string_view(text).substr(2), 16, false)) return *value;
  }
  if (text.starts_with("0o") && text.size() > 2) {
    if (auto value = ParseInteger(std::string_view(text).substr(2), 8, false)) return *value;
  }
  const std::string_view magnitude = WithoutSign(text);
  if (AllOf(magnitude, "0123456789")) {
    if (auto value = ParseInteger(magnitude, 10, text[0] == '-')) return *value;
  }
  if (magnitude == ".inf" || magnitude == ".Inf" || magnitude == ".INF") {
    const double infinity = std::numeric_limits<double>::infinity();
    return text[0] == '-' ? -infinity : infinity;
  }
  if (text == ".nan" || text == ".NaN" || text == ".NAN") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (IsDecimal(text)) return ParseDecimal(text);
  return text;
}

json ResolveScalar(const YAML::Mark& mark, const std::string& tag, const std::string& text) {
  if (tag.empty() || tag == "?") return ResolvePlain(text);
  if (tag == "!" || tag == std::string(kCoreTag) + "str") return text;
  const json value = ResolvePlain(text);
  if ((tag == std::string(kCoreTag) + "int" && value.is_number_integer()) ||
      (tag == std::string(kCoreTag) + "float" && value.is_number()) ||
      (tag == std::string(kCoreTag) + "bool" && value.is_boolean()) ||
      (tag == std::string(kCoreTag) + "null" && value.is_null())) {
    return value;
  }
  Refuse(mark, "\"" + text + "\" with the tag " + tag, "leave the tag out");
}

std::size_t CountValues(const json& value) {
  std::size_t count = 1;
  if (value.is_structured()) {
    for (const json& child : value) count += CountValues(child);
  }
  return count;
}

// Builds the JSON value from the parser's events.
class JsonBuilder : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Add(mark, anchor, nullptr, 1);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    if (ExpectsKey()) return TakeKey(mark, text);
    Add(mark, anchor, ResolveScalar(mark, tag, text), 1);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) {
      Refuse(mark, "an alias inside its own anchor", "write the value out");
    }
    // Counts before it copies, so that nested aliases cannot exhaust the memory first.
    Add(mark, 0, known->second.value, known->second.count);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, "seq", anchor, json::array());
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, "map", anchor, json::object());
  }
  void OnMapEnd() override { Close(); }

  json Take() { return std::move(root_); }

 private:
  struct Level {
    json value;
    YAML::Mark mark;
    YAML::anchor_t anchor;
    std::optional<std::string> key;  // of the value that comes next, in a mapping
  };
  struct Anchored {
    json value;
    std::size_t count;
  };

  bool ExpectsKey() const {
    return !levels_.empty() && levels_.back().value.is_object() && !levels_.back().key;
  }

  void TakeKey(const YAML::Mark& mark, const std::string& key) {
    if (levels_.back().value.contains(key)) {
      Refuse(mark, "\"" + key + "\" occurs twice in one mapping", "keep one of them");
    }
    levels_.back().key = key;
  }

  void Add(const YAML::Mark& mark, YAML::anchor_t anchor, const json& value, std::size_t count) {
    if (ExpectsKey()) Refuse(mark, "a key that is not a string", "use a plain string as key");
    values_ += count;
    if (values_ > kValuesMax) {
      Refuse(mark, "more than " + std::to_string(kValuesMax) + " values, aliases expanded",
             "a manifest has fewer");
    }
    if (anchor != 0) anchors_[anchor] = {value, count};
    Place(value);
  }

  void Place(json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
    } else if (Level& level = levels_.back(); level.key) {
      level.value[*level.key] = std::move(value);
      level.key.reset();
    } else {
      level.value.push_back(std::move(value));
    }
  }

  void Open(const YAML::Mark& mark, const std::string& tag, std::string_view kind,
            YAML::anchor_t anchor, json empty) {
    if (ExpectsKey()) Refuse(mark, "a key that is not a string", "use a plain string as key");
    if (!tag.empty() && tag != "?" && tag != "!" &&
        tag != std::string(kCoreTag) + std::string(kind)) {
      Refuse(mark, "the tag " + tag, "leave the tag out");
    }
    if (levels_.size() >= kDepthMax) {
      Refuse(mark, "nested deeper than " + std::to_string(kDepthMax), "a manifest is flatter");
    }
    levels_.push_back({std::move(empty), mark, anchor, std::nullopt});
  }

  void Close() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    // Its children are counted already; only the container is new.
    if (level.anchor != 0) anchors_[level.anchor] = {level.value, CountValues(level.value)};
    ++values_;
    Place(std::move(level.value));
  }

  json root_;
  std::vector<Level> levels_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  std::size_t values_ = 0;
};

}  // namespace

Checked<json> YamlToJson(std::string_view text) {
  if (text.size() > kTextBytesMax) {
    return FieldError{"", "the text has " + std::to_string(text.size()) + " bytes",
                      "a manifest has at most " + std::to_string(kTextBytesMax)};
  }
  // yaml-cpp accepts any byte, but JSON cannot contain it, and a worker gets the manifest as JSON.
  if (!IsUtf8(text)) return FieldError{"", "the text is not UTF-8", "save it as UTF-8"};
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    JsonBuilder builder;
    if (!parser.HandleNextDocument(builder)) return json(nullptr);
    json value = builder.Take();
    JsonBuilder rest;
    if (parser.HandleNextDocument(rest) && !rest.Take().is_null()) {
      return FieldError{"", "several documents in one file", "write one SwarmJob per file"};
    }
    return value;
  } catch (const Refused& refused) {
    return refused.error;
  } catch (const YAML::Exception& error) {
    return FieldError{At(error.mark), error.msg, "correct the YAML there"};
  }
}

}  // namespace swarm::api

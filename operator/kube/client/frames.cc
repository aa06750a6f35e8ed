#include "operator/kube/client/frames.h"

#include <nlohmann/json.hpp>

namespace swarm::kube {
namespace {

using nlohmann::json;

Object Share(json&& object) { return std::make_shared<const json>(std::move(object)); }

std::optional<WatchEvent::Type> ParseType(const std::string& text) {
  if (text == "ADDED") return WatchEvent::Type::kAdded;
  if (text == "MODIFIED") return WatchEvent::Type::kModified;
  if (text == "DELETED") return WatchEvent::Type::kDeleted;
  if (text == "BOOKMARK") return WatchEvent::Type::kBookmark;
  return std::nullopt;
}

WatchFrame Malformed(const std::string& what) {
  WatchFrame frame;
  frame.problem = DataLoss("a frame of the watch " + what);
  return frame;
}

WatchFrame ParseError(const json& object) {
  WatchFrame frame;
  frame.error = ErrorIn(object);
  if (!frame.error) frame.error = ApiError{.message = "an ERROR frame without a Status"};
  return frame;
}

// Takes each item of a list out of the document as soon as it is complete. So a list of ten
// thousand pods is never in memory as one untrimmed tree.
class ItemCollector {
 public:
  explicit ItemCollector(const TrimObject& trim) : trim_(trim) {}

  // Returns whether the parser keeps the value.
  bool operator()(int depth, json::parse_event_t event, json& value) {
    if (depth == 1 && event == json::parse_event_t::key) {
      in_items_ = value == "items";
    } else if (depth == 2 && event == json::parse_event_t::object_end && in_items_) {
      items_.push_back(std::move(value));
      if (trim_) trim_(items_.back());
      return false;
    }
    return true;
  }

  std::vector<json>& items() { return items_; }

 private:
  const TrimObject& trim_;
  bool in_items_ = false;
  std::vector<json> items_;
};

}  // namespace

Status JsonFramer::Begin(char c) {
  if (c == ' ' || c == '\n' || c == '\r' || c == '\t') return Status();
  if (c != '{') return DataLoss("the watch sent something that is not a JSON object");
  depth_ = 1;
  frame_ = c;
  return Status();
}

bool JsonFramer::Advance(char c) {
  frame_ += c;
  if (in_string_) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
    }
    return false;
  }
  if (c == '"') in_string_ = true;
  if (c == '{' || c == '[') ++depth_;
  if (c == '}' || c == ']') --depth_;
  return depth_ == 0;
}

Status JsonFramer::Feed(std::string_view bytes, std::vector<std::string>& frames) {
  for (const char c : bytes) {
    if (depth_ == 0) {
      RETURN_IF_ERROR(Begin(c));
    } else if (Advance(c)) {
      frames.push_back(std::move(frame_));
      frame_.clear();
    }
    if (frame_.size() > frame_bytes_max_) {
      return ResourceExhausted("a frame of the watch is larger than " +
                               std::to_string(frame_bytes_max_) + " bytes");
    }
  }
  return Status();
}

WatchFrame ParseWatchFrame(std::string_view text, const TrimObject& trim) {
  json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return Malformed("is not JSON");
  if (auto error = ErrorIn(parsed)) return {std::nullopt, std::move(error), Status()};
  const auto type = parsed.find("type");
  const auto object = parsed.find("object");
  if (type == parsed.end() || !type->is_string() || object == parsed.end() ||
      !object->is_object()) {
    return Malformed("has no type or no object");
  }
  if (*type == "ERROR") return ParseError(*object);
  const auto known = ParseType(type->get<std::string>());
  if (!known) return Malformed("has the type " + type->get<std::string>().substr(0, 32));
  WatchEvent event{*known, nullptr, ResourceVersionOf(*object)};
  const bool has_name = *known == WatchEvent::Type::kBookmark || !NameOf(*object).name.empty();
  if (event.resource_version.empty() || !has_name) return Malformed("has no name or no version");
  if (trim) trim(*object);
  event.object = Share(std::move(*object));
  return {std::move(event), std::nullopt, Status()};
}

Result<ListPage> ParseListPage(std::string_view body, const TrimObject& trim) {
  ItemCollector collector(trim);
  // The parser copies its callback, so the callback has a reference to the collector.
  const auto collect = [&collector](int depth, json::parse_event_t event, json& value) {
    return collector(depth, event, value);
  };
  const json list = json::parse(body, collect, /*allow_exceptions=*/false);
  if (!list.is_object()) return DataLoss("the answer is not JSON, or was cut short");
  const std::string kind = TextAt(list, "/kind");
  if (!kind.ends_with("List") || !list.contains("items")) {
    return DataLoss("the answer to a list request is of kind '" + kind + "'");
  }
  ListPage page{{}, TextAt(list, "/metadata/resourceVersion"), TextAt(list, "/metadata/continue")};
  if (page.resource_version.empty()) return DataLoss("the list has no resource version");
  for (json& item : collector.items()) {
    if (NameOf(item).name.empty()) return DataLoss("an item of the list has no name");
    item["apiVersion"] = TextAt(list, "/apiVersion");
    item["kind"] = kind.substr(0, kind.size() - 4);
    page.items.emplace_back(item);
  }
  return page;
}

}  // namespace swarm::kube

#include "ctl/simulate/trace.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

namespace swarm::ctl {
namespace {

/// One line, of either format.
struct Record {
  double milliseconds = 0;
  double duration = 0;
  bool add = false;
  std::vector<std::string> nodes;
};

std::optional<double> ToNumber(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole =
      error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  return whole ? std::optional(value) : std::nullopt;
}

Result<Record> ParseCsv(std::string_view line) {
  const Status problem =
      InvalidArgument("expected MILLISECONDS,add|remove,NODE, got '" + std::string(line) + "'");
  const std::size_t first = line.find(',');
  const std::size_t second = first == line.npos ? line.npos : line.find(',', first + 1);
  if (second == line.npos) return problem;
  const std::optional<double> time = ToNumber(line.substr(0, first));
  const std::string_view action = line.substr(first + 1, second - first - 1);
  const std::string_view node = line.substr(second + 1);
  if (!time || (action != "add" && action != "remove")) return problem;
  if (node.empty() || node.find(',') != node.npos) return problem;
  return Record{*time, 0, action == "add", {std::string(node)}};
}

Result<Record> ParseJson(std::string_view line) {
  const Status problem = InvalidArgument(
      "expected [MILLISECONDS, \"add\"|\"remove\"|\"no-op\", {\"nodes\": [NAME, ...], \"duration\":"
      " MILLISECONDS}], got '" +
      std::string(line.substr(0, 80)) + "'");
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array() || json.size() != 3 || !json[0].is_number() || !json[1].is_string() ||
      !json[2].is_object()) {
    return problem;
  }
  const std::string action = json[1];
  const auto nodes = json[2].find("nodes");
  const auto duration = json[2].find("duration");
  if (action != "add" && action != "remove" && action != "no-op") return problem;
  if (nodes == json[2].end() || !nodes->is_array()) return problem;
  if (duration == json[2].end() || !duration->is_number() || *duration < 0) return problem;
  Record record{json[0], *duration, action == "add", {}};
  for (const auto& node : *nodes) {
    if (!node.is_string()) return problem;
    if (action != "no-op") record.nodes.push_back(node);
  }
  return record;
}

/// Puts records together by time.
class Builder {
 public:
  Status Add(const Record& record) {
    if (!start_) start_ = record.milliseconds;
    const double seconds = (record.milliseconds - *start_) / 1000;
    if (seconds < last_) return InvalidArgument("time runs backwards; sort the lines by time");
    last_ = seconds;
    trace_.seconds = seconds + record.duration / 1000;
    if (record.nodes.empty()) return {};
    if (trace_.events.empty() || trace_.events.back().seconds < seconds) {
      trace_.events.push_back({seconds, {}, {}});
    }
    for (const std::string& node : record.nodes) {
      RETURN_IF_ERROR(record.add ? Join(node) : Leave(node));
    }
    return {};
  }

  Trace Build() && { return std::move(trace_); }

 private:
  Status Join(const std::string& node) {
    if (!present_.insert(node).second) return InvalidArgument("'" + node + "' is there already");
    trace_.events.back().joins.push_back(node);
    return {};
  }
  Status Leave(const std::string& node) {
    if (present_.erase(node) == 0) return InvalidArgument("there is no '" + node + "' to remove");
    // A node that came at this very moment was never of use.
    if (std::erase(trace_.events.back().joins, node) == 0) {
      trace_.events.back().departures.push_back(node);
    }
    return {};
  }

  Trace trace_;
  std::set<std::string> present_;
  std::optional<double> start_;
  double last_ = 0;
};

}  // namespace

Result<Trace> ParseTrace(std::string_view text) {
  Builder builder;
  bool any = false;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::string context = "line " + std::to_string(number);
    const Result<Record> record = line.front() == '[' ? ParseJson(line) : ParseCsv(line);
    if (!record.ok()) return record.status().WithContext(context);
    if (const Status status = builder.Add(*record); !status.ok()) {
      return status.WithContext(context);
    }
    any = true;
  }
  Trace trace = std::move(builder).Build();
  if (!any || trace.events.empty()) return InvalidArgument("the trace names no node");
  return trace;
}

}  // namespace swarm::ctl

#include "ctl/profile/read_spans.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/files.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;

Timepoint TimeAt(const json& line, const char* key) {
  return Timepoint(std::chrono::nanoseconds(line.at(key).get<std::int64_t>()));
}

Span ReadSpan(const json& line) {
  const auto kind = FindEnum<SpanKind>(line.at("kind").get<std::string>());
  if (!kind) throw json::other_error::create(500, "no kind of a span", &line);
  return {.kind = *kind,
          .stage = line.at("stage").get<std::uint64_t>(),
          .step = line.at("step").get<std::uint64_t>(),
          .microbatch = line.value("microbatch", Span::kNone),
          .layer = line.value("layer", Span::kNone),
          .bytes = line.value("bytes", Span::kNone),
          .begin = TimeAt(line, "begin"),
          .end = TimeAt(line, "end")};
}

Result<WorkerSpans> ReadFileOf(const std::filesystem::path& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  WorkerSpans worker{.worker = file.filename().string(), .spans = {}};
  std::istringstream lines(text);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    try {
      const json parsed = json::parse(line);
      if (parsed.contains("dropped")) {
        worker.dropped = parsed.at("dropped").get<std::uint64_t>();
      } else {
        worker.spans.push_back(ReadSpan(parsed));
      }
    } catch (const json::exception& error) {
      return DataLoss(file.string() + ":" + std::to_string(number) + ": " + error.what());
    }
  }
  return worker;
}

}  // namespace

Result<std::vector<WorkerSpans>> ReadSpans(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<WorkerSpans> workers;
  for (const std::filesystem::path& file : files) {
    ASSIGN_OR_RETURN(WorkerSpans worker, ReadFileOf(file));
    if (!worker.spans.empty()) workers.push_back(std::move(worker));
  }
  if (workers.empty()) return NotFound("no worker has recorded anything in " + folder.string());
  return workers;
}

}  // namespace swarm::ctl

#include "worker/trainer/run_log.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/log.h"

namespace swarm::trainer {
namespace {

using Json = nlohmann::ordered_json;

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The lines of `path` whose step is below `first_step`, as they stand there. A line that was cut
/// off by a crash ends the reading.
std::string LinesBefore(const std::string& path, std::uint64_t first_step) {
  std::ifstream in(path);
  std::string kept, line;
  while (first_step > 0 && std::getline(in, line)) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_unsigned()) break;
    if (json["step"].get<std::uint64_t>() < first_step) kept += line + "\n";
  }
  return kept;
}

}  // namespace

Result<std::unique_ptr<RunLog>> RunLog::Open(const std::string& folder, std::uint64_t first_step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Unavailable(folder + ": " + error.message());
  const std::string path = folder + "/steps.jsonl", next = path + ".next";
  const std::string kept = LinesBefore(path, first_step);
  {
    std::ofstream out(next, std::ios::binary | std::ios::trunc);
    out << kept;
    out.close();
    if (!out) return Unavailable(next + ": cannot be written: " + std::strerror(errno));
  }
  std::filesystem::rename(next, path, error);
  if (error) return Unavailable(path + ": " + error.message());
  File steps(std::fopen(path.c_str(), "ae"));
  if (!steps) return Unavailable(path + ": " + std::strerror(errno));
  const std::string events_path = folder + "/events.jsonl";
  File events(std::fopen(events_path.c_str(), first_step > 0 ? "ae" : "we"));
  if (!events) return Unavailable(events_path + ": " + std::strerror(errno));
  return std::unique_ptr<RunLog>(new RunLog(std::move(steps), std::move(events)));
}

void RunLog::Write(std::FILE* file, const std::string& line) {
  const std::string text = line + "\n";
  const bool written =
      std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
  if (!written && !failing_) LOG_WARN("the run's log cannot be written: {}", std::strerror(errno));
  if (!written) std::clearerr(file);
  failing_ = !written;
}

void RunLog::Step(const StepLine& line) {
  Json json;
  json["step"] = line.record.step.value;
  json["loss"] = line.record.loss;
  json["grad_norm"] = line.record.grad_norm;
  json["lr"] = line.record.learning_rate;
  json["tokens"] = line.tokens;
  json["seconds"] = line.seconds;
  json["tokens_per_second"] =
      line.seconds > 0 ? static_cast<double>(line.tokens) / line.seconds : 0.0;
  json["boundary_bytes"] = line.boundary_bytes;
  Write(steps_.get(), json.dump());
}

void RunLog::Event(const std::string& kind, const std::string& text) {
  Write(events_.get(), Json{{"time", UnixSeconds()}, {"kind", kind}, {"text", text}}.dump());
}

void RunLog::Validation(protocol::Version version, double loss) {
  Write(events_.get(), Json{{"time", UnixSeconds()},
                            {"kind", "Validation"},
                            {"text", "version " + std::to_string(version.value)},
                            {"step", version.value},
                            {"loss", loss}}
                           .dump());
}

}  // namespace swarm::trainer

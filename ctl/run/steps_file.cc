#include "ctl/run/steps_file.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

namespace swarm::ctl {
namespace {

using nlohmann::json;

constexpr std::size_t kBytesAtOnce = std::size_t{1} << 20;

double NumberAt(const json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number() ? found->get<double>() : 0.0;
}

std::optional<protocol::JobStatus> ParseLine(const std::string& text, std::uint64_t max_steps) {
  const json line = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!line.is_object() || !line.contains("step") || !line["step"].is_number_unsigned()) {
    return std::nullopt;
  }
  protocol::JobStatus status;
  status.step = protocol::Step(line["step"].get<std::uint64_t>() + 1);
  status.max_steps = max_steps;
  status.state = status.step.value >= max_steps ? protocol::JobState::kFinishing
                                                : protocol::JobState::kTraining;
  status.loss = NumberAt(line, "loss");
  status.validation_loss = NumberAt(line, "validation_loss");
  status.tokens_per_second = NumberAt(line, "tokens_per_second");
  status.seconds_left = NumberAt(line, "seconds_left");
  return status;
}

}  // namespace

std::optional<protocol::JobStatus> StepsFile::Poll() {
  if (ready_.empty()) ReadOn();
  if (ready_.empty()) return std::nullopt;
  protocol::JobStatus status = std::move(ready_.front());
  ready_.pop_front();
  return status;
}

void StepsFile::ReadOn() {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path_, error);
  if (error) return;
  if (size < offset_) offset_ = 0, next_line_ = 0, partial_.clear();
  if (size == offset_) return;
  std::ifstream file(path_, std::ios::binary);
  if (!file.seekg(static_cast<std::streamoff>(offset_))) return;
  std::string text(std::min<std::uintmax_t>(size - offset_, kBytesAtOnce), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  offset_ += text.size();
  partial_ += text;
  std::size_t begin = 0;
  for (std::size_t end; (end = partial_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    TakeLine(partial_.substr(begin, end - begin));
  }
  partial_.erase(0, begin);
  // No line of a step is that long: this is not the trainer's file.
  if (partial_.size() > kBytesAtOnce) partial_.clear();
}

void StepsFile::TakeLine(const std::string& line) {
  const std::size_t hash = std::hash<std::string>()(line);
  const std::size_t index = next_line_++;
  if (index < seen_.size() && seen_[index] == hash) return;
  seen_.resize(index);
  seen_.push_back(hash);
  if (auto status = ParseLine(line, max_steps_)) ready_.push_back(std::move(*status));
}

}  // namespace swarm::ctl

// The status of a job from the steps.jsonl that its trainer writes: one JSON object for each
// committed step.
#pragma once

#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "ctl/run/status_source.h"

namespace swarm::ctl {

/// Follows the file, which need not exist yet. Reads the fields step (of the commit, counted from
/// 0), loss, validation_loss, tokens_per_second and seconds_left of each line; stages stay empty.
/// If the file becomes shorter (the job was rolled back), the lines are reported again from the
/// first one that has changed. Ignores lines that are not JSON objects.
class StepsFile : public StatusSource {
 public:
  StepsFile(std::filesystem::path path, std::uint64_t max_steps)
      : path_(std::move(path)), max_steps_(max_steps) {}

  std::optional<protocol::JobStatus> Poll() override;

 private:
  void ReadOn();
  void TakeLine(const std::string& line);

  const std::filesystem::path path_;
  const std::uint64_t max_steps_;
  std::uint64_t offset_ = 0;  // of the first byte that was not read yet
  std::string partial_;       // a line whose end has not been written yet
  std::deque<protocol::JobStatus> ready_;
  std::vector<std::size_t> seen_;  // hashes of the lines of the file, as they were reported
  std::size_t next_line_ = 0;      // below seen_.size(): reading anew what was reported
};

}  // namespace swarm::ctl

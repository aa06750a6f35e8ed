// The status of a job from the steps.jsonl that its trainer writes: one JSON object a committed
// step.
#pragma once

#include <deque>
#include <filesystem>
#include <string>

#include "ctl/status_source.h"

namespace swarm::ctl {

/// Follows the file, which need not be there yet. Reads from each line what is there of step (of
/// the commit, counted from 0), loss, validation_loss, tokens_per_second, seconds_left; stages stay
/// empty. A file that has become shorter (the job was rolled back) is read anew from its beginning;
/// a line that is no JSON object is passed over.
class StepsFile : public StatusSource {
 public:
  StepsFile(std::filesystem::path path, std::uint64_t max_steps)
      : path_(std::move(path)), max_steps_(max_steps) {}

  std::optional<protocol::JobStatus> Poll() override;

 private:
  void ReadOn();

  const std::filesystem::path path_;
  const std::uint64_t max_steps_;
  std::uint64_t offset_ = 0;  // of what was not read yet
  std::string partial_;       // a line whose end has not been written yet
  std::deque<protocol::JobStatus> ready_;
};

}  // namespace swarm::ctl

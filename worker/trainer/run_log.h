// The files a run leaves below its --out folder: steps.jsonl, one object a committed step, and
// events.jsonl. The same for a swarm and for the single-process reference.
//
// A disk that is full costs lines of a log, never the training: writing goes on when there is room.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "base/status.h"
#include "worker/protocol/messages.h"

namespace swarm::trainer {

/// One line of steps.jsonl.
struct StepLine {
  protocol::CommitRecord record;
  std::uint64_t tokens = 0;
  double seconds = 0;
  std::uint64_t boundary_bytes = 0;
};

class RunLog {
 public:
  /// Opens the files in `folder`, which is made if need be. steps.jsonl is cut to the steps before
  /// `first_step`, so that a resumed run goes on without a gap or a doubled line. Errors:
  /// kUnavailable, naming the file.
  static Result<std::unique_ptr<RunLog>> Open(const std::string& folder, std::uint64_t first_step);

  void Step(const StepLine& line);
  /// `kind` is a CamelCase word.
  void Event(const std::string& kind, const std::string& text);
  void Validation(protocol::Version version, double loss);

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Closer>;
  RunLog(File steps, File events) : steps_(std::move(steps)), events_(std::move(events)) {}
  void Write(std::FILE* file, const std::string& line);

  File steps_;
  File events_;
  bool failing_ = false;  // said once, until it works again
};

}  // namespace swarm::trainer

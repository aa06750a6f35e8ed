// What a satellite removes by itself: the outposts of jobs that are gone. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/time.h"

namespace swarm::satellite {

struct SweepOptions {
  /// Home must have said so for this long that a job is not there: a list of jobs may be older than
  /// an outpost.
  Duration settle = std::chrono::seconds(30);
  /// A home that says nothing for this long is gone for good, with all its jobs.
  Duration orphaned = std::chrono::hours(24);
};

class Sweep {
 public:
  /// `now`: when the satellite begins to listen.
  Sweep(const SweepOptions& options, Timepoint now) : options_(options), heard_(now) {}

  /// Home says which jobs exist.
  void Hear(const std::set<std::string>& job_uids, Timepoint now);

  /// Of the jobs that have outposts here, those whose outposts are to be deleted.
  std::set<std::string> Gone(const std::set<std::string>& outposts, Timepoint now);

 private:
  const SweepOptions options_;
  Timepoint heard_;
  std::optional<std::set<std::string>> jobs_;  // none: home has said nothing yet
  std::map<std::string, Timepoint> absent_;    // jobs with outposts, since when home lacks them
};

}  // namespace swarm::satellite

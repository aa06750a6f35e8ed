// What the files of validate.h share, and with them who reads a part of a manifest alone. Internal
// to api/.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "api/field_error.h"
#include "api/swarmjob.h"

namespace swarm::api {

inline constexpr std::uint64_t kReplicasMax = 100'000;

/// A number as it may stand in a message.
inline std::string Text(std::uint64_t number) { return std::to_string(number); }
inline std::string Text(std::int64_t number) { return std::to_string(number); }
inline std::string Text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

/// Collects what is wrong.
class Judge {
 public:
  void Report(std::string path, std::string problem, std::string remedy) {
    errors_.push_back({std::move(path), std::move(problem), std::move(remedy)});
  }
  /// Reports the condition that does not hold; returns whether it holds.
  bool Expect(bool holds, const std::string& path, std::string problem, std::string remedy) {
    if (!holds) Report(path, std::move(problem), std::move(remedy));
    return holds;
  }
  template <typename T>
  bool Range(const std::string& path, T value, T lowest, T highest) {
    return Expect(value >= lowest && value <= highest, path, "is " + Text(value),
                  "from " + Text(lowest) + " to " + Text(highest));
  }
  /// More than zero; at most `highest`.
  bool Positive(const std::string& path, double value, double highest) {
    return Expect(value > 0 && value <= highest, path, "is " + Text(value),
                  "more than 0, at most " + Text(highest));
  }
  void Append(std::vector<FieldError> errors) {
    errors_.insert(errors_.end(), errors.begin(), errors.end());
  }
  std::vector<FieldError> Take() { return std::move(errors_); }

 private:
  std::vector<FieldError> errors_;
};

/// metadata.name: the objects of a job, and so host names and labels, begin with it.
void JudgeName(Judge& judge, const std::string& name);

/// What the fields of a boundary must satisfy, whatever the job. `path` begins the paths of the
/// errors.
void JudgeBoundaryFields(Judge& judge, const Boundary& boundary, const std::string& path);

/// What only a cluster has: pools, pod templates, policies.
void JudgeCluster(Judge& judge, const Spec& spec);

}  // namespace swarm::api

// What the parts of validate.h share with each other and with parse.cc. Internal to api/.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/format/field_error.h"
#include "api/swarmjob.h"

namespace swarm::api {

/// As many workers as jobs were tested with (docs/operator.md, "With many jobs"), far below what
/// messages take.
inline constexpr std::uint64_t kReplicasMax = 4096;

/// A number as text, for a message.
inline std::string Text(std::uint64_t number) { return std::to_string(number); }
inline std::string Text(std::int64_t number) { return std::to_string(number); }
inline std::string Text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

/// Collects errors.
class Judge {
 public:
  void Report(std::string path, std::string problem, std::string remedy) {
    errors_.push_back({std::move(path), std::move(problem), std::move(remedy)});
  }
  /// Reports an error unless `holds`. Returns `holds`.
  bool Expect(bool holds, const std::string& path, std::string problem, std::string remedy) {
    if (!holds) Report(path, std::move(problem), std::move(remedy));
    return holds;
  }
  template <typename T>
  bool Range(const std::string& path, T value, T lowest, T highest) {
    return Expect(value >= lowest && value <= highest, path, "is " + Text(value),
                  "from " + Text(lowest) + " to " + Text(highest));
  }
  /// Expects more than zero, and at most `highest`.
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

/// Data are read, and may lie where nothing else of a job can.
enum class UriOf { kAnything, kData };

/// A uri, or none.
void JudgeUri(Judge& judge, const std::string& path, const std::string& uri,
              UriOf what = UriOf::kAnything);

/// Whether it may be the name of a Secret: labels with dots between them.
bool IsSubdomain(std::string_view name);

/// spec.storage.regions.
void JudgeRegions(Judge& judge, const Spec& spec);

/// metadata.name. The names of a job's objects, and so host names and labels, begin with it.
void JudgeName(Judge& judge, const std::string& name);

/// The rules for the fields of a boundary, in any job. The paths of the errors begin with `path`.
void JudgeLoraFields(Judge& judge, const Lora& lora, const std::string& path);
void JudgeBoundaryFields(Judge& judge, const Boundary& boundary, const std::string& path);

/// The rules for the fields that only a cluster uses: pools, pod templates, policies.
void JudgeCluster(Judge& judge, const Spec& spec);

}  // namespace swarm::api

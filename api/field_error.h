// What is wrong with a manifest: all of it at once, each at its place.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace swarm::api {

/// One thing that is wrong with a manifest.
struct FieldError {
  std::string path;  ///< spec.training.microbatchSize; of a text that is no YAML: line 3, column 7
  std::string problem;  ///< what is wrong
  std::string remedy;   ///< what would be right
  bool operator==(const FieldError&) const = default;
};

/// "spec.training.microbatchsize: unknown field; did you mean microbatchSize?"
std::string ToString(const FieldError& error);

/// One error a line, without a newline at the end.
std::string ToString(const std::vector<FieldError>& errors);

/// kInvalidArgument with all errors; OK if there are none.
Status ToStatus(const std::vector<FieldError>& errors);

/// The entry of `known` that `word` is most likely a misspelling of, or "" if none is near.
std::string_view Nearest(std::string_view word, const std::vector<std::string_view>& known);

/// A value, or everything that is wrong with what should have become it (then at least one error).
template <typename T>
class Checked {
 public:
  Checked(T value) : value_(std::move(value)) {}                           // NOLINT: implicit
  Checked(std::vector<FieldError> errors) : errors_(std::move(errors)) {}  // NOLINT
  Checked(FieldError error) : errors_{std::move(error)} {}                 // NOLINT

  bool ok() const { return value_.has_value(); }
  const std::vector<FieldError>& errors() const { return errors_; }
  Status status() const { return ToStatus(errors_); }
  const T& operator*() const& { return *value_; }
  T& operator*() & { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  std::vector<FieldError> errors_;
};

}  // namespace swarm::api

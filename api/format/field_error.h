// The errors of a manifest: all of them at once, each with its place.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace swarm::api {

/// One error of a manifest.
struct FieldError {
  std::string path;     ///< spec.training.microbatchSize; of malformed YAML: line 3, column 7
  std::string problem;  ///< what is wrong
  std::string remedy;   ///< what would be right
  bool operator==(const FieldError&) const = default;
};

/// "spec.training.microbatchsize: unknown field; did you mean microbatchSize?"
std::string ToString(const FieldError& error);

/// One error per line, without a newline at the end.
std::string ToString(const std::vector<FieldError>& errors);

/// kInvalidArgument with all errors. OK: there are none.
Status ToStatus(const std::vector<FieldError>& errors);

/// The entry of `known` of which `word` is most likely a misspelling; "": none is similar.
std::string_view Nearest(std::string_view word, const std::vector<std::string_view>& known);

/// A value, or the errors (at least one) of the input that should have given it.
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

// Questions with several answers, of which the model finds one the most likely. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace swarm::ctl {

/// A line of JSON: {"context": TEXT, "choices": [TEXT, ...], "answer": INDEX}. What the model reads
/// is the context, a space, and a choice.
struct Question {
  std::string context;
  std::vector<std::string> choices;
  std::size_t answer = 0;  ///< of the choices, from 0
};

/// The questions of JSON lines; empty lines are none. Errors: kInvalidArgument, naming the line.
Result<std::vector<Question>> ReadQuestions(std::string_view lines);

/// How often the answer was the most likely choice, as lm-evaluation-harness counts: the first of
/// several that are equal is the model's choice.
class ChoiceScore {
 public:
  /// `log_likelihoods` of the choices, in nats, in their order.
  void Add(const Question& question, const std::vector<double>& log_likelihoods);

  std::uint64_t questions() const { return questions_; }
  /// acc: by the sums of the log likelihoods.
  double accuracy() const { return Fraction(right_); }
  /// acc_norm: by the sums divided by the characters of the choices.
  double normalized_accuracy() const { return Fraction(right_normalized_); }
  /// The standard error of such a fraction.
  double ErrorOf(double accuracy) const;

 private:
  double Fraction(std::uint64_t count) const {
    return questions_ == 0 ? 0.0 : static_cast<double>(count) / static_cast<double>(questions_);
  }

  std::uint64_t questions_ = 0, right_ = 0, right_normalized_ = 0;
};

}  // namespace swarm::ctl

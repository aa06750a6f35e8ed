#include "ctl/model/choices.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace swarm::ctl {
namespace {

constexpr const char* kForm =
    R"(write {"context": "TEXT", "choices": ["TEXT", "TEXT"], "answer": 0})";

Result<Question> ReadQuestion(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return InvalidArgument(std::string("is no JSON object; ") + kForm);
  Question question;
  const auto text = [](const nlohmann::json& value) { return value.is_string(); };
  if (!json.contains("context") || !text(json["context"])) {
    return InvalidArgument(std::string("has no text in the field context; ") + kForm);
  }
  question.context = json["context"];
  if (!json.contains("choices") || !json["choices"].is_array() || json["choices"].size() < 2 ||
      !std::ranges::all_of(json["choices"], text)) {
    return InvalidArgument(std::string("has no list of texts in the field choices; ") + kForm);
  }
  question.choices = json["choices"].get<std::vector<std::string>>();
  if (std::ranges::find(question.choices, "") != question.choices.end()) {
    return InvalidArgument("has an empty choice");
  }
  if (!json.contains("answer") || !json["answer"].is_number_unsigned() ||
      json["answer"].get<std::uint64_t>() >= question.choices.size()) {
    return InvalidArgument("has no index of a choice, from 0, in the field answer");
  }
  question.answer = json["answer"];
  return question;
}

std::size_t Characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & '\xc0') != '\x80'; }));
}

std::size_t Best(const std::vector<double>& scores) {
  return static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
}

}  // namespace

Result<std::vector<Question>> ReadQuestions(std::string_view lines) {
  std::vector<Question> questions;
  for (std::uint64_t number = 1; !lines.empty(); ++number) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    Result<Question> question = ReadQuestion(line);
    if (!question.ok()) {
      return InvalidArgument("line " + std::to_string(number) + ": " +
                             question.status().message());
    }
    questions.push_back(*std::move(question));
  }
  if (questions.empty()) return InvalidArgument(std::string("has no questions; ") + kForm);
  return questions;
}

void ChoiceScore::Add(const Question& question, const std::vector<double>& log_likelihoods) {
  std::vector<double> normalized;
  for (std::size_t i = 0; i < log_likelihoods.size(); ++i) {
    normalized.push_back(log_likelihoods[i] / static_cast<double>(Characters(question.choices[i])));
  }
  ++questions_;
  right_ += Best(log_likelihoods) == question.answer;
  right_normalized_ += Best(normalized) == question.answer;
}

double ChoiceScore::ErrorOf(double accuracy) const {
  if (questions_ < 2) return 0;
  return std::sqrt(accuracy * (1 - accuracy) / static_cast<double>(questions_ - 1));
}

}  // namespace swarm::ctl

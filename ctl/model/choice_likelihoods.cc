#include "ctl/model/choice_likelihoods.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace swarm::ctl {
namespace {

// What the model reads and predicts.
struct Continuation {
  std::vector<std::int32_t> ids;  // with the token before the first predicted one
  std::size_t predicted = 0;      // of its last ids
};

Result<Continuation> Tokenize(const Question& question, const std::string& choice,
                              const data::Tokenizer& tokenizer, std::uint64_t window) {
  const std::size_t end = question.context.find_last_not_of(" \t\r\n") + 1;
  const std::string context = question.context.substr(0, end);
  ASSIGN_OR_RETURN(const auto before, tokenizer.Encode(context));
  Continuation continuation;
  ASSIGN_OR_RETURN(continuation.ids, tokenizer.Encode(question.context + " " + choice));
  const std::size_t given = std::min(before.size(), continuation.ids.size());
  continuation.predicted = continuation.ids.size() - given;
  const data::SpecialTokens special = tokenizer.special();
  const auto first = special.bos ? special.bos : given == 0 ? special.eos : std::nullopt;
  if (first) continuation.ids.insert(continuation.ids.begin(), *first);
  if (continuation.predicted == 0 || continuation.predicted == continuation.ids.size()) {
    return InvalidArgument("the choice \"" + choice + "\" or what stands before it has no tokens");
  }
  const std::size_t kept = std::min<std::size_t>(continuation.ids.size(), window + 1);
  continuation.ids.erase(continuation.ids.begin(),
                         continuation.ids.end() - static_cast<std::ptrdiff_t>(kept));
  continuation.predicted = std::min(continuation.predicted, kept - 1);
  return continuation;
}

double LogLikelihood(const float* logits, std::size_t vocab, std::int32_t id) {
  const double highest = *std::max_element(logits, logits + vocab);
  double sum = 0;
  for (std::size_t i = 0; i < vocab; ++i) sum += std::exp(logits[i] - highest);
  return logits[id] - highest - std::log(sum);
}

}  // namespace

Result<std::vector<double>> ChoiceLikelihoods(const Question& question,
                                              const data::Tokenizer& tokenizer,
                                              model::Stage& stage, std::uint64_t window,
                                              std::int64_t vocab_size) {
  const auto vocab = static_cast<std::size_t>(vocab_size);
  std::vector<double> likelihoods;
  for (const std::string& choice : question.choices) {
    ASSIGN_OR_RETURN(const Continuation text, Tokenize(question, choice, tokenizer, window));
    const std::size_t read = text.ids.size() - 1;
    ASSIGN_OR_RETURN(const Bytes logits,
                     stage.Logits(stage.version(), {1, static_cast<std::uint32_t>(read),
                                                    std::span(text.ids).first(read)}));
    double sum = 0;
    std::vector<float> row(vocab);
    for (std::size_t at = read - text.predicted; at < read; ++at) {
      const std::int32_t id = text.ids[at + 1];
      if (id < 0 || id >= vocab_size) {
        return InvalidArgument("the tokenizer gives id " + std::to_string(id) +
                               ", the model's vocab_size is " + std::to_string(vocab_size));
      }
      std::memcpy(row.data(), logits.data() + at * vocab * sizeof(float), vocab * sizeof(float));
      sum += LogLikelihood(row.data(), vocab, id);
    }
    likelihoods.push_back(sum);
  }
  return likelihoods;
}

}  // namespace swarm::ctl

// How likely a model finds the choices of a question.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "ctl/model/choices.h"
#include "worker/data/tokenizer.h"
#include "worker/model/stage.h"

namespace swarm::ctl {

/// The sums over the tokens of each choice of their log likelihoods, in nats, after the context. As
/// lm-evaluation-harness cuts it: the tokens of a choice are those of "CONTEXT CHOICE" behind as
/// many as the context has, white space at the end of the context counting to the choice. BOS
/// stands in front where the tokenizer has one. Of a text with more than `window` tokens to read,
/// the last ones count. Errors: kInvalidArgument (a context without tokens, an id that the model
/// does not have), those of the tokenizer and of Stage::Logits.
Result<std::vector<double>> ChoiceLikelihoods(const Question& question,
                                              const data::Tokenizer& tokenizer,
                                              model::Stage& stage, std::uint64_t window,
                                              std::int64_t vocab_size);

}  // namespace swarm::ctl

#include "worker/data/supervised/example_encoder.h"

#include <string_view>

#include "worker/token.h"

namespace swarm::data {
namespace {

// Enough work for all cores, and little memory beside the tokens.
constexpr std::size_t kBatchBytes = std::size_t{4} << 20;
constexpr std::size_t kBatchExamples = 4096;

}  // namespace

Status ExampleEncoder::Add(Example example, std::uint64_t number) {
  for (const ExamplePart& part : example) waiting_bytes_ += part.text.size();
  waiting_.push_back(std::move(example));
  numbers_.push_back(number);
  if (waiting_bytes_ < kBatchBytes && waiting_.size() < kBatchExamples) return Status();
  return Flush();
}

Status ExampleEncoder::Flush() {
  std::vector<std::string_view> views;
  for (const Example& example : waiting_) {
    for (const ExamplePart& part : example) views.push_back(part.text);
  }
  const auto encoded = tokenizer_.EncodeAll(views);
  Status status;
  if (!encoded.ok()) {
    status = EncodeEach();
  } else {
    std::size_t first = 0;
    for (std::size_t i = 0; i < waiting_.size() && status.ok(); ++i) {
      status = Pack(waiting_[i], *encoded, first, numbers_[i]);
      first += waiting_[i].size();
    }
  }
  waiting_.clear();
  numbers_.clear();
  waiting_bytes_ = 0;
  return status;
}

// Finds the examples of a batch that cannot be encoded.
Status ExampleEncoder::EncodeEach() {
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    std::vector<std::string_view> views;
    for (const ExamplePart& part : waiting_[i]) views.push_back(part.text);
    const auto ids = tokenizer_.EncodeAll(views);
    RETURN_IF_ERROR(ids.ok() ? Pack(waiting_[i], *ids, 0, numbers_[i])
                             : on_bad_(ids.status(), numbers_[i]));
  }
  return Status();
}

Status ExampleEncoder::Pack(const Example& example, const Parts& ids, std::size_t first,
                            std::uint64_t number) {
  std::vector<std::int32_t> tokens;
  bool learns = false;
  const auto add = [&](std::int32_t id, bool learned) {
    Token token{.id = id, .learned = learned && !tokens.empty()};
    if (tokens.empty()) token.begins = options_.documents == api::DocumentView::kSeparate;
    learns |= token.learned;
    tokens.push_back(token.Write());
  };
  const bool marked = options_.format == api::DataFormat::kChat;
  const SpecialTokens special = tokenizer_.special();
  if (!marked && special.bos) add(*special.bos, false);
  for (std::size_t i = 0; i < example.size(); ++i) {
    for (const std::int32_t id : ids[first + i]) add(id, example[i].learned);
  }
  if (!learns) return on_bad_(InvalidArgument("has nothing to learn"), number);
  if (!marked && special.eos) add(*special.eos, true);
  if (!marked && tokenizer_.is_bytes()) add('\n', true);
  if (tokens.size() > options_.tokens_per_sequence) {
    return on_bad_(InvalidArgument("has " + std::to_string(tokens.size()) +
                                   " tokens, and training.sequenceLength is " +
                                   std::to_string(options_.tokens_per_sequence)),
                   number);
  }
  packer_.Add(tokens);
  ++count_;
  return Status();
}

}  // namespace swarm::data

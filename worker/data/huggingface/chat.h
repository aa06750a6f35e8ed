// Conversations as the text that a model was trained to read them in.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "worker/data/tokenizer_files.h"

struct SwarmHuggingFaceTemplate;

namespace swarm::data {

struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant"
  std::string content;
};

/// Whether the text of a conversation ends where the model's answer begins.
enum class ChatEnd { kWithMessages, kWhereAnswerBegins };

/// The Jinja template of chat_template.jinja or of tokenizer_config.json (its chat_template; of
/// several, the one named "default"), compiled. Immutable; safe to use from any thread.
class ChatTemplate {
 public:
  /// Errors: kNotFound (no template), kInvalidArgument (it does what we do not know), kDataLoss.
  static Result<ChatTemplate> Compile(const TokenizerFiles& files);

  /// The text of the messages. It has the names of special tokens, BOS included, which encoding
  /// turns into their ids. Errors: kInvalidArgument (the template refuses the messages, or does
  /// what we do not know).
  Result<std::string> Render(std::span<const ChatMessage> messages, ChatEnd end) const;

 private:
  ChatTemplate(std::shared_ptr<const SwarmHuggingFaceTemplate> compiled, std::string variables)
      : compiled_(std::move(compiled)), variables_(std::move(variables)) {}

  std::shared_ptr<const SwarmHuggingFaceTemplate> compiled_;
  std::string variables_;  // an object of JSON: those that all conversations share
};

}  // namespace swarm::data

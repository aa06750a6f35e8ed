// Conversations as the text that a model was trained to read them in.
#pragma once

#include <span>
#include <string>

#include "base/status.h"
#include "worker/data/tokenizer_files.h"

namespace swarm::data {

struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant"
  std::string content;
};

/// Whether the text of a conversation ends where the model's answer begins.
enum class ChatEnd { kWithMessages, kWhereAnswerBegins };

/// The text of the messages by the Jinja template of chat_template.jinja or of
/// tokenizer_config.json (its chat_template; of several, the one named "default"). It has the names
/// of special tokens, BOS included, which encoding turns into their ids. Errors: kNotFound (no
/// template), kInvalidArgument (the template refuses the messages, or does what we do not know),
/// kDataLoss.
Result<std::string> RenderChat(const TokenizerFiles& files, std::span<const ChatMessage> messages,
                               ChatEnd end = ChatEnd::kWhereAnswerBegins);

}  // namespace swarm::data

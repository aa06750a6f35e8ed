// Examples for supervised fine-tuning, from lines of JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/data/huggingface/chat.h"
#include "worker/data/tokenizer_files.h"

namespace swarm::data {

/// A part of an example: what the model reads, or also learns to write.
struct ExamplePart {
  std::string text;
  bool learned = false;
  bool operator==(const ExamplePart&) const = default;
};
using Example = std::vector<ExamplePart>;

/// The prompt, then the completion, of {"prompt": TEXT, "completion": TEXT}. Errors, as those of
/// all functions here: kInvalidArgument, in one sentence that does not name the line.
Result<Example> ReadPromptCompletion(std::string_view line);

/// The messages of {"messages": [{"role": TEXT, "content": TEXT}, ...]}, at least one of which is
/// of the assistant, and not the first. A message with other keys is refused, since they would be
/// lost.
Result<std::vector<ChatMessage>> ReadMessages(std::string_view line);

/// The conversation as the tokenizer's chat template writes it, up to the end of the last answer.
/// Learned is what the assistant writes: from where its answer begins to the mark behind it.
Result<Example> RenderExample(const TokenizerFiles& files, std::span<const ChatMessage> messages);

/// The example in a line; `format` is not Text.
Result<Example> ReadExample(api::DataFormat format, const TokenizerFiles& files,
                            std::string_view line);

}  // namespace swarm::data

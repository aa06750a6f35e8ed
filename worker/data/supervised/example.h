// Examples for supervised fine-tuning, from objects of JSON: lines, or rows of Parquet.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/data/huggingface/chat.h"

namespace swarm::data {

/// A part of an example: what the model reads, or also learns to write.
struct ExamplePart {
  std::string text;
  bool learned = false;
  bool operator==(const ExamplePart&) const = default;
};
using Example = std::vector<ExamplePart>;

/// The fields of an example in this format, which is not Text.
std::vector<std::string> FieldsOf(api::DataFormat format);

/// The prompt, then the completion, of {"prompt": TEXT, "completion": TEXT}. Errors, as those of
/// all functions here: kInvalidArgument, in one sentence that does not name the line.
Result<Example> ReadPromptCompletion(std::string_view line);

/// The messages of {"messages": [{"role": TEXT, "content": TEXT}, ...]}, at least one of which is
/// of the assistant, and not the first. A message with other keys is refused, since they would be
/// lost.
Result<std::vector<ChatMessage>> ReadMessages(std::string_view line);

/// The conversation as the template writes it, up to the end of the last answer.
/// Learned is what the assistant writes: from where its answer begins to the mark behind it.
Result<Example> RenderExample(const ChatTemplate& chat, std::span<const ChatMessage> messages);

/// The example in a line; without a template, of a prompt and a completion.
Result<Example> ReadExample(const std::optional<ChatTemplate>& chat, std::string_view line);

}  // namespace swarm::data

#include "worker/data/supervised/example.h"

#include <nlohmann/json.hpp>

#include "worker/data/documents/json_lines.h"

namespace swarm::data {
namespace {

using nlohmann::json;

constexpr std::string_view kAssistant = "assistant";
constexpr std::string_view kWhiteSpace = " \t\r\n";

Result<json> ReadObject(std::string_view line) {
  json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  // Whoever looks for a text knows to say what is wrong with the line.
  if (!object.is_object()) return ReadTextField(line, "").status();
  return object;
}

Result<std::string> TakeText(json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_string()) {
    return std::move(found->get_ref<std::string&>());
  }
  return InvalidArgument(found == object.end()
                             ? "has no " + key
                             : "has as " + key + " a " + found->type_name() + ", no text");
}

std::string_view Trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) + 1 - begin);
}

Status WritesOtherwise(std::size_t index) {
  return InvalidArgument("the tokenizer's chat template writes message " +
                         std::to_string(index + 1) +
                         " otherwise than its content, so what is to be learned is not known");
}

/// Where in `whole` the answer ends that begins at `begin`. `until` is the conversation up to it:
/// behind the answer, it shows the mark that ends one.
Result<std::size_t> FindEnd(std::string_view whole, std::string_view until, std::size_t begin,
                            std::string_view answer, std::size_t index) {
  until = until.substr(0, until.find_last_not_of(kWhiteSpace) + 1);
  if (whole.starts_with(until) && until.size() > begin) return until.size();
  // Some templates write an answer in another way once the conversation goes on.
  const std::size_t shown = until.rfind(answer);
  if (answer.empty() || shown == until.npos) return WritesOtherwise(index);
  const std::string_view tail = until.substr(shown);
  const std::size_t found = whole.find(tail, begin);
  if (found == whole.npos) return WritesOtherwise(index);
  return found + tail.size();
}

}  // namespace

std::vector<std::string> FieldsOf(api::DataFormat format) {
  if (format == api::DataFormat::kChat) return {"messages"};
  return {"prompt", "completion"};
}

Result<Example> ReadPromptCompletion(std::string_view line) {
  ASSIGN_OR_RETURN(json object, ReadObject(line));
  ASSIGN_OR_RETURN(std::string prompt, TakeText(object, "prompt"));
  ASSIGN_OR_RETURN(std::string completion, TakeText(object, "completion"));
  return Example{{std::move(prompt), false}, {std::move(completion), true}};
}

Result<std::vector<ChatMessage>> ReadMessages(std::string_view line) {
  ASSIGN_OR_RETURN(json object, ReadObject(line));
  const auto list = object.find("messages");
  if (list == object.end() || !list->is_array()) return InvalidArgument("has no list messages");
  std::vector<ChatMessage> messages;
  bool answered = false;
  for (json& one : *list) {
    const std::string at = "message " + std::to_string(messages.size() + 1);
    if (!one.is_object()) return InvalidArgument(at + " is no object");
    auto role = TakeText(one, "role");
    if (!role.ok()) return InvalidArgument(at + " " + role.status().message());
    auto content = TakeText(one, "content");
    if (!content.ok()) return InvalidArgument(at + " " + content.status().message());
    for (const auto& [key, value] : one.items()) {
      if (key == "role" || key == "content") continue;
      return InvalidArgument(at + " has " + key + ", which is not supported");
    }
    if (*role == kAssistant && messages.empty()) {
      return InvalidArgument("begins with a message of the assistant");
    }
    answered |= *role == kAssistant;
    messages.push_back({*std::move(role), *std::move(content)});
  }
  if (!answered) return InvalidArgument("has no message of the assistant");
  return messages;
}

Result<Example> RenderExample(const ChatTemplate& chat, std::span<const ChatMessage> messages) {
  ASSIGN_OR_RETURN(const std::string whole, chat.Render(messages, ChatEnd::kWithMessages));
  Example example;
  std::size_t done = 0;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != kAssistant) continue;
    ASSIGN_OR_RETURN(const std::string before,
                     chat.Render(messages.first(i), ChatEnd::kWhereAnswerBegins));
    ASSIGN_OR_RETURN(const std::string until,
                     chat.Render(messages.first(i + 1), ChatEnd::kWithMessages));
    if (before.size() < done || !whole.starts_with(before)) return WritesOtherwise(i);
    ASSIGN_OR_RETURN(const std::size_t end,
                     FindEnd(whole, until, before.size(), Trim(messages[i].content), i));
    example.push_back({whole.substr(done, before.size() - done), false});
    example.push_back({whole.substr(before.size(), end - before.size()), true});
    done = end;
  }
  return example;
}

Result<Example> ReadExample(const std::optional<ChatTemplate>& chat, std::string_view line) {
  if (!chat) return ReadPromptCompletion(line);
  ASSIGN_OR_RETURN(const std::vector<ChatMessage> messages, ReadMessages(line));
  return RenderExample(*chat, messages);
}

}  // namespace swarm::data

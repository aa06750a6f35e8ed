#include "worker/data/huggingface/chat.h"

#include <nlohmann/json.hpp>

#include "worker/data/huggingface/file_names.h"
#include "worker/data/huggingface/library.h"

namespace swarm::data {
namespace {

using nlohmann::json;

constexpr const char* kWhat = "the tokenizer's chat template";

std::string Write(const json& variables) {
  return variables.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<json> ReadConfig(const TokenizerFiles& files) {
  const Bytes* content = files.Find(kTokenizerConfig);
  if (content == nullptr) return json::object();
  json config = json::parse(content->text(), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return DataLoss(std::string(kTokenizerConfig) + " is no JSON object");
  return config;
}

Result<std::string> FindTemplate(const TokenizerFiles& files, const json& config) {
  if (const Bytes* file = files.Find(kChatTemplate)) return std::string(file->text());
  if (config.contains("chat_template")) {
    const json& found = config["chat_template"];
    if (found.is_string()) return found.get<std::string>();
    for (const json& one : found.is_array() ? found : json::array()) {
      if (one.is_object() && one.value("name", "") == "default" && one.contains("template") &&
          one["template"].is_string()) {
        return one["template"].get<std::string>();
      }
    }
  }
  return NotFound(std::string("the tokenizer has no chat template: no ") + kChatTemplate +
                  ", and no chat_template in " + kTokenizerConfig);
}

}  // namespace

Result<ChatTemplate> ChatTemplate::Compile(const TokenizerFiles& files) {
  ASSIGN_OR_RETURN(const json config, ReadConfig(files));
  ASSIGN_OR_RETURN(const std::string source, FindTemplate(files, config));
  // What transformers' apply_chat_template gives a template.
  json variables{{"tools", nullptr}, {"documents", nullptr}};
  for (const char* name : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
    if (!config.contains(name)) continue;
    const json& token = config[name];
    if (token.is_string()) variables[name] = token;
    if (token.is_object() && token.contains("content")) variables[name] = token["content"];
  }
  ASSIGN_OR_RETURN(const HuggingFaceLibrary* library, HuggingFaceLibrary::Open());
  const SwarmHuggingFaceTemplate* compiled = nullptr;
  SwarmHuggingFaceText error{};
  const auto code = library->compile(HuggingFaceLibrary::View(source), &compiled, &error);
  if (code != kSwarmHuggingFaceOk) return library->ToStatus(code, error).WithContext(kWhat);
  return ChatTemplate({compiled, library->close_template}, Write(variables));
}

Result<std::string> ChatTemplate::Render(std::span<const ChatMessage> messages, ChatEnd end) const {
  json variables = json::parse(variables_);
  variables["add_generation_prompt"] = end == ChatEnd::kWhereAnswerBegins;
  variables["messages"] = json::array();
  for (const ChatMessage& message : messages) {
    variables["messages"].push_back({{"role", message.role}, {"content", message.content}});
  }
  const std::string text = Write(variables);
  ASSIGN_OR_RETURN(const HuggingFaceLibrary* library, HuggingFaceLibrary::Open());
  SwarmHuggingFaceText rendered{}, error{};
  const auto code =
      library->render(compiled_.get(), HuggingFaceLibrary::View(text), &rendered, &error);
  if (code == kSwarmHuggingFaceOk) return library->Take(rendered);
  return library->ToStatus(code, error).WithContext(kWhat);
}

}  // namespace swarm::data

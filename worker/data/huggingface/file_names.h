// What Hugging Face calls the files of a tokenizer in a model's folder.
#pragma once

namespace swarm::data {

inline constexpr const char* kTokenizerJson = "tokenizer.json";
inline constexpr const char* kTokenizerConfig = "tokenizer_config.json";
inline constexpr const char* kSpecialTokensMap = "special_tokens_map.json";
inline constexpr const char* kGenerationConfig = "generation_config.json";
/// For programs that chat with the model.
inline constexpr const char* kChatTemplate = "chat_template.jinja";
/// A SentencePiece model; beside a tokenizer.json it is the same tokenizer, for programs that read
/// this one.
inline constexpr const char* kTokenizerModel = "tokenizer.model";

/// Each may be absent.
inline constexpr const char* kBesideTokenizerJson[] = {
    kTokenizerConfig, kSpecialTokensMap, kGenerationConfig, kChatTemplate, kTokenizerModel};

}  // namespace swarm::data

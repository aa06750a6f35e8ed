// What Hugging Face calls the files of a tokenizer in a model's folder.
#pragma once

namespace swarm::data {

inline constexpr const char* kTokenizerJson = "tokenizer.json";
inline constexpr const char* kTokenizerConfig = "tokenizer_config.json";
inline constexpr const char* kSpecialTokensMap = "special_tokens_map.json";
inline constexpr const char* kGenerationConfig = "generation_config.json";
/// A SentencePiece model.
inline constexpr const char* kTokenizerModel = "tokenizer.model";

/// Each may be absent. The last is for programs that chat with the model.
inline constexpr const char* kBesideTokenizerJson[] = {kTokenizerConfig, kSpecialTokensMap,
                                                       kGenerationConfig, "chat_template.jinja"};

}  // namespace swarm::data

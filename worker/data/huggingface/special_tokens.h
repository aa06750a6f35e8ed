// BOS and EOS, as the files beside a tokenizer.json name them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "worker/data/tokenizer.h"
#include "worker/data/tokenizer_files.h"

namespace swarm::data {

/// Reads tokenizer_config.json, then special_tokens_map.json, then generation_config.json: the
/// first that has the key decides, also with null. BOS is left out where the tokenizer does not
/// want it (add_bos_token: false) or where it is EOS, which then ends one document and begins the
/// next. All ids of a list in generation_config.json end a text. `id_of` gives the id of a token.
/// Errors: kDataLoss (no JSON object, a token that the tokenizer does not have), naming the file.
Result<SpecialTokens> ReadSpecialTokens(
    const TokenizerFiles& files,
    const std::function<std::optional<std::int32_t>(std::string_view)>& id_of);

/// A special_tokens_map.json of the tokens that a tokenizer_config.json names.
std::string SpecialTokensMap(std::string_view tokenizer_config);

}  // namespace swarm::data

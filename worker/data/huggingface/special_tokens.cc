#include "worker/data/huggingface/special_tokens.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "worker/data/huggingface/file_names.h"

namespace swarm::data {
namespace {

using nlohmann::json;
using IdOf = std::function<std::optional<std::int32_t>(std::string_view)>;
using Id = std::optional<std::int32_t>;

// An absent file is an empty object.
Result<json> ReadObject(const TokenizerFiles& files, const char* name) {
  const Bytes* content = files.Find(name);
  if (content == nullptr) return json::object();
  json object = json::parse(content->text(), nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return DataLoss(std::string(name) + " is no JSON object");
  return object;
}

// A token is a text, or an object with its content; null stands for none.
Result<Id> ReadToken(const char* file, const char* key, const json& value, const IdOf& id_of) {
  if (value.is_null()) return Id();
  const json& text = value.is_object() && value.contains("content") ? value["content"] : value;
  if (!text.is_string()) return DataLoss(std::string(file) + ": " + key + " is no token");
  const auto& token = text.get_ref<const std::string&>();
  if (const Id id = id_of(token)) return id;
  return DataLoss(std::string(file) + ": " + key + " is " + token + ", which " + kTokenizerJson +
                  " does not have");
}

// An id, or a list of ids.
Result<std::vector<std::int32_t>> ReadIds(const char* file, const std::string& key,
                                          const json& object) {
  std::vector<std::int32_t> ids;
  if (!object.contains(key) || object[key].is_null()) return ids;
  const json list = object[key].is_array() ? object[key] : json::array({object[key]});
  if (list.empty()) return DataLoss(std::string(file) + ": " + key + " is no id");
  for (const json& value : list) {
    if (!value.is_number_unsigned() ||
        value.get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max()) {
      return DataLoss(std::string(file) + ": " + key + " is no id");
    }
    ids.push_back(value.get<std::int32_t>());
  }
  return ids;
}

}  // namespace

Result<SpecialTokens> ReadSpecialTokens(const TokenizerFiles& files, const IdOf& id_of) {
  ASSIGN_OR_RETURN(const json config, ReadObject(files, kTokenizerConfig));
  ASSIGN_OR_RETURN(const json map, ReadObject(files, kSpecialTokensMap));
  ASSIGN_OR_RETURN(const json generation, ReadObject(files, kGenerationConfig));
  const auto find = [&](const char* key) -> Result<Id> {
    if (config.contains(key)) return ReadToken(kTokenizerConfig, key, config[key], id_of);
    if (map.contains(key)) return ReadToken(kSpecialTokensMap, key, map[key], id_of);
    ASSIGN_OR_RETURN(const auto ids,
                     ReadIds(kGenerationConfig, std::string(key) + "_id", generation));
    return ids.empty() ? Id() : Id(ids.front());
  };
  SpecialTokens special;
  ASSIGN_OR_RETURN(special.bos, find("bos_token"));
  ASSIGN_OR_RETURN(special.eos, find("eos_token"));
  ASSIGN_OR_RETURN(special.other_ends, ReadIds(kGenerationConfig, "eos_token_id", generation));
  std::erase_if(special.other_ends, [&](std::int32_t id) { return id == special.eos; });
  const bool unwanted = config.contains("add_bos_token") && config["add_bos_token"] == false;
  if (unwanted || special.bos == special.eos) special.bos.reset();
  return special;
}

std::string SpecialTokensMap(std::string_view tokenizer_config) {
  const json config = json::parse(tokenizer_config, nullptr, /*allow_exceptions=*/false);
  json map = json::object();
  for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
    if (config.is_object() && config.contains(key) && !config[key].is_null())
      map[key] = config[key];
  }
  return map.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace swarm::data

#include "api/region_storage.h"

#include <cctype>

namespace swarm::api {

std::string CredentialsPrefix(const std::string& region) {
  std::string prefix = "SWARM_STORAGE_";
  for (const char c : region) {
    const auto letter = static_cast<unsigned char>(c);
    prefix += std::isalnum(letter) != 0 ? static_cast<char>(std::toupper(letter)) : '_';
  }
  return prefix + "_";
}

bool IsSameFolder(std::string uri, std::string other) {
  for (std::string* text : {&uri, &other}) {
    while (text->size() > 1 && text->ends_with('/')) text->pop_back();
  }
  return uri == other;
}

}  // namespace swarm::api

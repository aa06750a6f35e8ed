#include "operator/kube/config/files.h"

#include <fstream>

namespace swarm::kube {
namespace {
constexpr std::size_t kBytesMax = std::size_t{1} << 20;
}  // namespace

Result<std::string> ReadSmallFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return NotFound("there is no file " + path.string());
    return Unavailable("cannot open " + path.string());
  }
  std::string text(kBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad()) return Unavailable("cannot read " + path.string());
  if (text.size() > kBytesMax) return ResourceExhausted(path.string() + " is larger than 1 MiB");
  return text;
}

Result<std::string> ReadTrimmed(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path));
  constexpr const char* kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string::npos) return std::string();
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace swarm::kube

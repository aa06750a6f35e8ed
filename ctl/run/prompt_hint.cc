#include "ctl/run/prompt_hint.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "ctl/local_path.h"

namespace swarm::ctl {
namespace {

constexpr const char* kAnyPrompt = "The";
constexpr const char* kAnyId = "1";  // for a model that was trained on ids
constexpr std::size_t kBytesRead = 256;
constexpr std::size_t kWordsMax = 3;
constexpr std::size_t kPromptSizeMax = 40;

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view(".,;:'-").find(c) != std::string_view::npos;
}

/// The file that a run reads first: `path`, or the first text of the folder `path`.
std::filesystem::path FirstText(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return path;
  std::vector<std::filesystem::path> texts;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (entry.path().extension() == ".txt") texts.push_back(entry.path());
  }
  const auto first = std::min_element(texts.begin(), texts.end());
  return first == texts.end() ? std::filesystem::path() : *first;
}

std::string Beginning(const std::filesystem::path& file) {
  std::string text(kBytesRead, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  // The last word may continue beyond the bytes read.
  return text.size() < kBytesRead ? text : text.substr(0, text.find_last_of(" \n") + 1);
}

}  // namespace

std::string SuggestPrompt(const api::Spec& spec) {
  const std::string uri = spec.data.AllSources().front().uri;
  const bool ids = uri.ends_with(".bin");
  const bool no_tokenizer =
      spec.model.tokenizer.kind == api::TokenizerKind::kAuto && spec.model.uri.empty();
  if (ids && no_tokenizer) return kAnyId;
  const auto path = LocalPath(uri);
  if (!path) return kAnyPrompt;
  const std::filesystem::path file = FirstText(*path);
  if (file.empty() || file.extension() == ".bin") return kAnyPrompt;
  std::istringstream words(Beginning(file));
  std::string prompt, word;
  for (std::size_t count = 0; count < kWordsMax && words >> word; ++count) {
    if (!std::all_of(word.begin(), word.end(), IsPlain)) break;
    if (prompt.size() + word.size() >= kPromptSizeMax) break;
    prompt += (prompt.empty() ? "" : " ") + word;
  }
  return prompt.empty() ? kAnyPrompt : prompt;
}

}  // namespace swarm::ctl

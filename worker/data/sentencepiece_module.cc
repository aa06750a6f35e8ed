#include "worker/data/sentencepiece_module.h"

#include <dlfcn.h>

#include <filesystem>

namespace swarm::data {
namespace {

// The sanitizers do not work with RTLD_DEEPBIND; their builds open the module without it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kFlags = RTLD_NOW | RTLD_LOCAL;
#else
constexpr int kFlags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif

/// Opened once and never closed: tokenizers hold code of the module.
Result<decltype(&SwarmMakeSentencePieceTokenizer)> OpenModule() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path =
      (program.parent_path().parent_path() / "lib" / "libswarm_sentencepiece.so").string();
  void* module = dlopen(path.c_str(), kFlags);
  if (module == nullptr) return NotFound(std::string("no SentencePiece: ") + dlerror());
  void* symbol = dlsym(module, "SwarmMakeSentencePieceTokenizer");
  if (symbol == nullptr) return Internal(path + " lacks its entry");
  return reinterpret_cast<decltype(&SwarmMakeSentencePieceTokenizer)>(symbol);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> MakeSentencePieceTokenizer(const Bytes& model) {
  static const auto make = OpenModule();
  if (!make.ok()) return make.status();
  Result<std::unique_ptr<Tokenizer>> result = Internal("not made");
  (*make)(model, &result);
  return result;
}

}  // namespace swarm::data

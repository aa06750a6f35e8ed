#include "base/module.h"

#include <dlfcn.h>

#include <filesystem>

namespace swarm {
namespace {

// The sanitizers do not work with RTLD_DEEPBIND; their builds open the module without it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kFlags = RTLD_NOW | RTLD_LOCAL;
#else
constexpr int kFlags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif

}  // namespace

Result<void*> FindInModule(const std::string& file, const char* entry) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path = (program.parent_path().parent_path() / "lib" / file).string();
  void* module = dlopen(path.c_str(), kFlags);
  if (module == nullptr)
    return NotFound(std::string("a part of SwarmJob is missing: ") + dlerror());
  void* symbol = dlsym(module, entry);
  if (symbol == nullptr) return Internal(path + " lacks its entry " + entry);
  return symbol;
}

}  // namespace swarm

#include "worker/storage/arrow/arrow_module.h"

#include "base/module.h"

namespace swarm::storage {

bool IsArrowUri(const std::string& uri) {
  return uri.starts_with("gs://") || uri.starts_with("abfs://") || uri.starts_with("abfss://");
}

Result<std::unique_ptr<Storage>> OpenArrowStorage(const std::string& uri) {
  static const auto entry = FindInModule("libswarm_buckets.so", "SwarmOpenArrowStorage");
  if (!entry.ok()) return entry.status();
  Result<std::unique_ptr<Storage>> result = Internal("the module has set no result");
  reinterpret_cast<decltype(&SwarmOpenArrowStorage)>(*entry)(uri, &result);
  return result;
}

}  // namespace swarm::storage

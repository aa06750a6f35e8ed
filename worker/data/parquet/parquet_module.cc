#include "worker/data/parquet/parquet_module.h"

#include "worker/data/module.h"

namespace swarm::data {

Status ReadParquet(const Bytes& content, const std::string& column,
                   const DocumentHandlers& handlers) {
  static const auto entry = FindInModule("libswarm_parquet.so", "SwarmReadParquet");
  if (!entry.ok()) return entry.status();
  Status status;
  reinterpret_cast<decltype(&SwarmReadParquet)>(*entry)(content, column, handlers, &status);
  return status;
}

}  // namespace swarm::data

#include "worker/data/parquet/parquet_module.h"

#include "base/module.h"

namespace swarm::data {
namespace {

Status Read(const Bytes& content, const std::vector<std::string>& columns, bool objects,
            const DocumentHandlers& handlers) {
  static const auto entry = FindInModule("libswarm_parquet.so", "SwarmReadParquet");
  if (!entry.ok()) return entry.status();
  Status status;
  reinterpret_cast<decltype(&SwarmReadParquet)>(*entry)(content, columns, objects, handlers,
                                                        &status);
  return status;
}

}  // namespace

Status ReadParquet(const Bytes& content, const std::string& column,
                   const DocumentHandlers& handlers) {
  return Read(content, {column}, /*objects=*/false, handlers);
}

Status ReadParquetObjects(const Bytes& content, const std::vector<std::string>& columns,
                          const DocumentHandlers& handlers) {
  return Read(content, columns, /*objects=*/true, handlers);
}

}  // namespace swarm::data

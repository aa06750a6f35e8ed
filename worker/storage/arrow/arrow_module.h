// Buckets of Google Cloud Storage and Azure, by Apache Arrow's file systems, to read data from. The
// module libswarm_buckets.so, which alone contains them, is opened when a job first names such a
// bucket; this is its export.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "worker/storage/storage.h"

namespace swarm::storage {

/// Whether the uri begins with gs://, abfs:// or abfss://.
bool IsArrowUri(const std::string& uri);

/// Opens gs://BUCKET/PREFIX; or abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX, and what else
/// arrow::fs::AzureOptions::FromUri takes. Credentials are those of Google's and Azure's own
/// libraries. Calls that write give kUnimplemented. Errors: kInvalidArgument (no such uri),
/// kNotFound (the module is missing).
Result<std::unique_ptr<Storage>> OpenArrowStorage(const std::string& uri);

}  // namespace swarm::storage

extern "C" {
/// Sets *result to that of OpenArrowStorage.
void SwarmOpenArrowStorage(const std::string& uri,
                           swarm::Result<std::unique_ptr<swarm::storage::Storage>>* result);
}

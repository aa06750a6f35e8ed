// The export of the module libswarm_parquet.so, which contains Apache Arrow. It is opened
// when a job first reads a Parquet file, so all others need no Arrow.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "worker/data/documents/document_handlers.h"

namespace swarm::data {

/// Reads the texts in `column` of a Parquet file, row group by row group, a thousand rows at once.
/// A row is bad if it has no text, or one that is not UTF-8. Errors: those of the handlers;
/// kInvalidArgument (no such column, with the names of those that are there, or one without texts),
/// kDataLoss (no Parquet file, damaged or cut off; with the row behind which it is), kNotFound (the
/// module is missing).
Status ReadParquet(const Bytes& content, const std::string& column,
                   const DocumentHandlers& handlers);

/// The same for rows of several columns: gives each as the JSON object that a line of JSON would
/// have. Columns are of texts, or of lists and objects of such; what is null is left out.
Status ReadParquetObjects(const Bytes& content, const std::vector<std::string>& columns,
                          const DocumentHandlers& handlers);

}  // namespace swarm::data

extern "C" {
/// Sets *status to the result of ReadParquet of the one column, or of ReadParquetObjects.
void SwarmReadParquet(const swarm::Bytes& content, const std::vector<std::string>& columns,
                      bool objects, const swarm::data::DocumentHandlers& handlers,
                      swarm::Status* status);
}

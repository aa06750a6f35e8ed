// The module libswarm_parquet.so: the only code that includes Apache Arrow.
#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "worker/data/parquet/parquet_module.h"
#include "worker/data/utf8.h"

namespace swarm::data {
namespace {

constexpr std::int64_t kRowsAtOnce = 1024;
constexpr int kNamesMax = 8;  // of columns, in a message

Status Damaged(const std::string& what) {
  return DataLoss("no Parquet file, or one that is damaged or cut off: " + what);
}

Status CheckColumn(const arrow::Schema& schema, const std::string& column) {
  const int index = schema.GetFieldIndex(column);
  if (index < 0) {
    std::string has;
    for (int i = 0; i < schema.num_fields() && i < kNamesMax; ++i) {
      has += (has.empty() ? "" : ", ") + schema.field(i)->name();
    }
    return InvalidArgument("has no column " + column + "; it has " + (has.empty() ? "none" : has) +
                           "; data.textField names another");
  }
  const arrow::DataType& type = *schema.field(index)->type();
  if (arrow::is_base_binary_like(type.id())) return Status();
  return InvalidArgument("the column " + column + " has values of the type " + type.ToString() +
                         ", no text; data.textField names another");
}

// Gives the texts of an array to the handlers, and counts on.
template <typename Array>
Status ReadTexts(const Array& texts, const DocumentHandlers& handlers, std::uint64_t* row) {
  for (std::int64_t i = 0; i < texts.length(); ++i) {
    ++*row;
    if (texts.IsNull(i)) {
      RETURN_IF_ERROR(handlers.bad(InvalidArgument("has no text"), *row));
      continue;
    }
    const std::string_view text = texts.GetView(i);
    if (const auto invalid = FindInvalidUtf8(text)) {
      const std::string reason = "is not UTF-8, at byte " + std::to_string(*invalid);
      RETURN_IF_ERROR(handlers.bad(InvalidArgument(reason), *row));
      continue;
    }
    RETURN_IF_ERROR(handlers.document(std::string(text), *row));
  }
  return Status();
}

Status ReadArray(const arrow::Array& array, const DocumentHandlers& handlers, std::uint64_t* row) {
  const bool large = arrow::is_large_binary_like(array.type_id());
  return large ? ReadTexts(static_cast<const arrow::LargeBinaryArray&>(array), handlers, row)
               : ReadTexts(static_cast<const arrow::BinaryArray&>(array), handlers, row);
}

Status Read(const Bytes& content, const std::string& column, const DocumentHandlers& handlers) {
  auto file = std::make_shared<arrow::io::BufferReader>(
      std::make_shared<arrow::Buffer>(reinterpret_cast<const std::uint8_t*>(content.data()),
                                      static_cast<std::int64_t>(content.size())));
  auto opened = parquet::arrow::OpenFile(file, arrow::system_memory_pool());
  if (!opened.ok()) return Damaged(opened.status().message());
  const std::unique_ptr<parquet::arrow::FileReader> reader = std::move(opened).ValueUnsafe();
  reader->set_use_threads(false);
  reader->set_batch_size(kRowsAtOnce);
  std::shared_ptr<arrow::Schema> schema;
  if (const auto status = reader->GetSchema(&schema); !status.ok()) {
    return Damaged(status.message());
  }
  RETURN_IF_ERROR(CheckColumn(*schema, column));
  // Columns are leaves of the schema, and fields may have several; that of a text is its own.
  const int leaf = reader->parquet_reader()->metadata()->schema()->ColumnIndex(column);
  if (leaf < 0) return Damaged("the column " + column + " has no values");
  std::uint64_t row = 0;
  for (int group = 0; group < reader->num_row_groups(); ++group) {
    const auto damaged = [&](const arrow::Status& status) {
      return Damaged("behind row " + std::to_string(row) + ": " + status.message());
    };
    auto batches = reader->GetRecordBatchReader({group}, {leaf});
    if (!batches.ok()) return damaged(batches.status());
    while (true) {
      auto batch = (*batches)->Next();
      if (!batch.ok()) return damaged(batch.status());
      if (*batch == nullptr) break;
      RETURN_IF_ERROR(ReadArray(*(*batch)->column(0), handlers, &row));
    }
  }
  return Status();
}

}  // namespace
}  // namespace swarm::data

void SwarmReadParquet(const swarm::Bytes& content, const std::string& column,
                      const swarm::data::DocumentHandlers& handlers, swarm::Status* status) {
  try {
    *status = swarm::data::Read(content, column, handlers);
  } catch (const std::exception& error) {
    *status = swarm::data::Damaged(error.what());
  }
}

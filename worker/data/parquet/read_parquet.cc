// The module libswarm_parquet.so: the only code that includes Apache Parquet.
#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/data/parquet/parquet_module.h"
#include "worker/data/utf8.h"

namespace swarm::data {
namespace {

using nlohmann::json;

constexpr std::int64_t kRowsAtOnce = 1024;
constexpr int kNamesMax = 8;  // of columns, in a message

Status Damaged(const std::string& what) {
  return DataLoss("no Parquet file, or one that is damaged or cut off: " + what);
}

bool IsList(const arrow::DataType& type) {
  return type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST;
}

// Whether values of the type are texts, or with `objects` lists and objects of texts.
bool IsRead(const arrow::DataType& type, bool objects) {
  if (arrow::is_base_binary_like(type.id())) return true;
  if (!objects || (!IsList(type) && type.id() != arrow::Type::STRUCT)) return false;
  return std::ranges::all_of(type.fields(), [](const auto& field) {
    return IsRead(*field->type(), /*objects=*/true);
  });
}

Status CheckColumn(const arrow::Schema& schema, const std::string& column, bool objects) {
  const std::string remedy = objects ? "; data.format says which are read"
                                     : "; data.textField names another";
  const int index = schema.GetFieldIndex(column);
  if (index < 0) {
    std::string has;
    for (int i = 0; i < schema.num_fields() && i < kNamesMax; ++i) {
      has += (has.empty() ? "" : ", ") + schema.field(i)->name();
    }
    return InvalidArgument("has no column " + column + "; it has " + (has.empty() ? "none" : has) +
                           remedy);
  }
  const arrow::DataType& type = *schema.field(index)->type();
  if (IsRead(type, objects)) return Status();
  return InvalidArgument("the column " + column + " has values of the type " + type.ToString() +
                         ", no text" + remedy);
}

// Of an array of texts that has one at i.
Result<std::string_view> TextAt(const arrow::Array& array, std::int64_t i) {
  const std::string_view text =
      arrow::is_large_binary_like(array.type_id())
          ? static_cast<const arrow::LargeBinaryArray&>(array).GetView(i)
          : static_cast<const arrow::BinaryArray&>(array).GetView(i);
  const auto invalid = FindInvalidUtf8(text);
  if (!invalid) return text;
  return InvalidArgument("is not UTF-8, at byte " + std::to_string(*invalid));
}

Result<json> JsonAt(const arrow::Array& array, std::int64_t i);

template <typename Array>
Result<json> ListAt(const Array& lists, std::int64_t i) {
  json list = json::array();
  for (std::int64_t j = lists.value_offset(i); j < lists.value_offset(i + 1); ++j) {
    ASSIGN_OR_RETURN(json value, JsonAt(*lists.values(), j));
    list.push_back(std::move(value));
  }
  return list;
}

// The value of a type that IsRead.
Result<json> JsonAt(const arrow::Array& array, std::int64_t i) {
  if (array.IsNull(i)) return json();
  if (array.type_id() == arrow::Type::LIST) {
    return ListAt(static_cast<const arrow::ListArray&>(array), i);
  }
  if (array.type_id() == arrow::Type::LARGE_LIST) {
    return ListAt(static_cast<const arrow::LargeListArray&>(array), i);
  }
  if (array.type_id() != arrow::Type::STRUCT) {
    ASSIGN_OR_RETURN(const std::string_view text, TextAt(array, i));
    return json(text);
  }
  const auto& objects = static_cast<const arrow::StructArray&>(array);
  json object = json::object();
  for (int f = 0; f < objects.num_fields(); ++f) {
    const auto values = objects.field(f);
    if (values->IsNull(i)) continue;
    ASSIGN_OR_RETURN(object[objects.type()->field(f)->name()], JsonAt(*values, i));
  }
  return object;
}

Result<std::string> DocumentAt(const arrow::RecordBatch& batch, std::int64_t i, bool objects) {
  if (!objects) {
    const arrow::Array& texts = *batch.column(0);
    if (texts.IsNull(i)) return InvalidArgument("has no text");
    ASSIGN_OR_RETURN(const std::string_view text, TextAt(texts, i));
    return std::string(text);
  }
  json object = json::object();
  for (int c = 0; c < batch.num_columns(); ++c) {
    if (batch.column(c)->IsNull(i)) continue;
    auto value = JsonAt(*batch.column(c), i);
    if (!value.ok()) return value.status().WithContext(batch.column_name(c));
    object[batch.column_name(c)] = *std::move(value);
  }
  return object.dump();
}

// Gives the rows of a batch to the handlers, and counts on.
Status ReadBatch(const arrow::RecordBatch& batch, bool objects, const DocumentHandlers& handlers,
                 std::uint64_t* row) {
  for (std::int64_t i = 0; i < batch.num_rows(); ++i) {
    auto document = DocumentAt(batch, i, objects);
    ++*row;
    RETURN_IF_ERROR(document.ok() ? handlers.document(*std::move(document), *row)
                                  : handlers.bad(document.status(), *row));
  }
  return Status();
}

// Columns of a file are the leaves of its schema; those of the fields `columns`.
std::vector<int> LeavesOf(const parquet::SchemaDescriptor& schema,
                          const std::vector<std::string>& columns) {
  std::vector<int> leaves;
  for (int leaf = 0; leaf < schema.num_columns(); ++leaf) {
    if (std::ranges::count(columns, schema.GetColumnRoot(leaf)->name()) > 0) leaves.push_back(leaf);
  }
  return leaves;
}

Status Read(const Bytes& content, const std::vector<std::string>& columns, bool objects,
            const DocumentHandlers& handlers) {
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
  for (const std::string& column : columns) {
    RETURN_IF_ERROR(CheckColumn(*schema, column, objects));
  }
  const std::vector<int> leaves =
      LeavesOf(*reader->parquet_reader()->metadata()->schema(), columns);
  if (leaves.empty()) return Damaged("the column " + columns.front() + " has no values");
  std::uint64_t row = 0;
  for (int group = 0; group < reader->num_row_groups(); ++group) {
    const auto damaged = [&](const arrow::Status& status) {
      return Damaged("behind row " + std::to_string(row) + ": " + status.message());
    };
    auto batches = reader->GetRecordBatchReader({group}, leaves);
    if (!batches.ok()) return damaged(batches.status());
    while (true) {
      auto batch = (*batches)->Next();
      if (!batch.ok()) return damaged(batch.status());
      if (*batch == nullptr) break;
      RETURN_IF_ERROR(ReadBatch(**batch, objects, handlers, &row));
    }
  }
  return Status();
}

}  // namespace
}  // namespace swarm::data

void SwarmReadParquet(const swarm::Bytes& content, const std::vector<std::string>& columns,
                      bool objects, const swarm::data::DocumentHandlers& handlers,
                      swarm::Status* status) {
  try {
    *status = swarm::data::Read(content, columns, objects, handlers);
  } catch (const std::exception& error) {
    *status = swarm::data::Damaged(error.what());
  }
}

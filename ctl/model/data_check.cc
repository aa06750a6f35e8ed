#include "ctl/model/data_check.h"

#include <utility>

#include "ctl/local_path.h"
#include "worker/data/data_files.h"
#include "worker/data/documents/encode_file.h"

namespace swarm::ctl {
namespace {

Status LookAt(const std::string& uri, const api::Data& data) {
  ASSIGN_OR_RETURN(const data::DataFiles found, data::FindDataFiles(uri, {}));
  const data::EncodeOptions options{
      .format = data.format, .text_field = data.textField, .on_bad_document = data.onBadDocument};
  for (const data::DataFile& file : found.files) {
    if (!data::HasDocuments(file.format.kind)) continue;
    ASSIGN_OR_RETURN(const Bytes content, found.storage->Map(file.name));
    RETURN_IF_ERROR(data::CheckFirstDocument(found.storage->Describe(file.name), file.format,
                                             content, options));
  }
  return Status();
}

}  // namespace

std::vector<api::FieldError> FindBadData(const api::SwarmJob& job) {
  const api::Data& data = job.spec.data;
  std::vector<std::pair<const char*, std::string>> fields = {
      {"spec.data.validationUri", data.validationUri}};
  for (const api::DataSource& source : data.AllSources()) {
    fields.emplace_back(data.sources ? "spec.data.sources" : "spec.data.uri", source.uri);
  }
  std::vector<api::FieldError> errors;
  for (const auto& [field, uri] : fields) {
    if (!LocalPath(uri)) continue;
    const Status status = LookAt(uri, data);
    if (!status.ok()) errors.push_back({field, status.message(), "look into the file"});
  }
  return errors;
}

}  // namespace swarm::ctl

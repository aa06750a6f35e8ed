#include "ctl/validate_command.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "api/format/enum_names.h"
#include "api/model/decoder_config.h"
#include "api/model/layout.h"
#include "api/parse.h"
#include "api/validate.h"
#include "base/files.h"
#include "ctl/local_path.h"
#include "ctl/manifest_file.h"

namespace swarm::ctl {
namespace {

nlohmann::json ToJson(const std::vector<api::FieldError>& errors) {
  nlohmann::json list = nlohmann::json::array();
  for (const api::FieldError& error : errors) {
    list.push_back({{"path", error.path}, {"problem", error.problem}, {"remedy", error.remedy}});
  }
  return {{"errors", list}};
}

// The path, or the folder of a pattern of paths.
std::filesystem::path WithoutPattern(const std::filesystem::path& path) {
  const std::string text = path.string();
  const std::size_t wildcard = text.find_first_of("*?[");
  std::error_code error;
  if (wildcard == text.npos || std::filesystem::exists(path, error)) return path;
  const auto folder = std::filesystem::path(text.substr(0, wildcard)).parent_path();
  return folder.empty() ? "." : folder;
}

// The files of this machine that the job reads and that do not exist.
std::vector<api::FieldError> FindAbsentFiles(const api::Spec& spec) {
  std::vector<std::pair<const char*, std::string>> fields = {
      {"spec.model.uri", spec.model.uri},
      {"spec.model.tokenizer.uri", spec.model.tokenizer.uri},
      {"spec.data.validationUri", spec.data.validationUri}};
  for (const api::DataSource& source : spec.data.AllSources()) {
    fields.emplace_back(spec.data.sources ? "spec.data.sources" : "spec.data.uri", source.uri);
  }
  std::vector<api::FieldError> absent;
  for (const auto& [field, uri] : fields) {
    const auto path = LocalPath(uri);
    std::error_code error;
    if (!path || std::filesystem::exists(WithoutPattern(*path), error)) continue;
    absent.push_back(
        {field, "is " + uri + ", which does not exist here",
         "name an existing file or folder; a relative path begins in the current one"});
  }
  return absent;
}

// Takes the config of a model in a folder of this machine; one in a bucket is not looked at.
std::vector<api::FieldError> ReadLocalModel(api::SwarmJob* job) {
  const auto folder = LocalPath(job->spec.model.uri);
  if (job->spec.model.uri.empty() || !folder) return {};
  const std::string path = (std::filesystem::path(*folder) / "config.json").string();
  const Result<std::string> text = ReadFile(path);
  if (!text.ok()) {
    return {{"spec.model.uri", text.status().message(), "name a Hugging Face folder"}};
  }
  const auto config = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  std::vector<api::FieldError> errors;
  job->spec.model.config = api::ParseDecoderConfig(config, path, &errors);
  if (errors.empty()) errors = api::ValidateDecoderConfig(job->spec.model.config, path);
  if (errors.empty()) errors = api::ValidateFit(*job);
  return errors;
}

std::string ModelText(const api::DecoderConfig& config) {
  std::string count = std::to_string(api::ParameterCount(config));
  for (std::size_t at = count.size(); at > 3;) count.insert(at -= 3, ",");
  return "model: " + std::string(NameOf(config.family)) + ", " +
         std::to_string(config.num_hidden_layers) + " layers, " + count + " parameters";
}

}  // namespace

ExitCode RunValidate(const ValidateOptions& options, std::ostream& out, std::ostream& err) {
  api::Checked<api::SwarmJob> job = LoadManifest(options.manifest, options.overrides);
  std::optional<api::SwarmJob> resolved;  // with the config that model.uri names
  if (job.ok()) {
    resolved = *job;
    // In a cluster, paths are those of volumes in its pods.
    std::vector<api::FieldError> errors =
        options.cluster ? api::ValidateForCluster(*job) : FindAbsentFiles(job->spec);
    if (errors.empty() && !options.cluster) errors = ReadLocalModel(&*resolved);
    if (errors.empty() && !options.cluster && options.find_bad_data) {
      errors = options.find_bad_data(*resolved);
    }
    if (!errors.empty()) job = std::move(errors);
  }
  if (!job.ok()) {
    if (options.json) {
      using Handler = nlohmann::json::error_handler_t;
      out << ToJson(job.errors()).dump(2, ' ', false, Handler::replace) << "\n";
    } else {
      err << api::ToString(job.errors()) << "\n";
    }
    return ExitCode::kBadUsage;
  }
  if (options.json) {
    out << api::ToJsonText(*job);
    return ExitCode::kOk;
  }
  const auto layout = api::ComputeReplicas(*job, "");
  out << job->name << " is valid: " << job->spec.training.maxSteps << " steps of "
      << job->microbatches() << " microbatches, " << job->spec.pipeline.stages << " stages";
  if (layout.ok()) out << ", replicas " << api::LayoutText(*layout);
  out << "\n";
  const api::DecoderConfig& config = resolved->spec.model.config;
  if (config.hidden_size != 0) out << ModelText(config) << "\n";
  return ExitCode::kOk;
}

}  // namespace swarm::ctl

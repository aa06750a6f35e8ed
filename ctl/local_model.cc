#include "ctl/local_model.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "api/model/decoder_config.h"
#include "api/validate.h"
#include "base/files.h"
#include "ctl/local_path.h"

namespace swarm::ctl {

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

std::vector<api::FieldError> ReadKnownModel(api::SwarmJob* job) {
  auto errors = ReadLocalModel(job);
  if (!errors.empty() || job->spec.model.config.hidden_size != 0) return errors;
  return {
      {"spec.model.uri", "names a model in a bucket", "a folder of this machine, or model.config"}};
}

}  // namespace swarm::ctl

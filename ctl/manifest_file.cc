#include "ctl/manifest_file.h"

#include <nlohmann/json.hpp>

#include "api/manifest.h"
#include "base/files.h"

namespace swarm::ctl {

api::Checked<nlohmann::json> ReadManifest(const std::string& file,
                                          const std::vector<std::string>& overrides) {
  const Result<std::string> text = ReadFile(file == "-" ? "/dev/stdin" : file);
  if (!text.ok()) {
    return api::FieldError{file, text.status().message(), "give a manifest with -f FILE"};
  }
  return api::ReadYaml(*text, overrides);
}

api::Checked<api::SwarmJob> LoadManifest(const std::string& file,
                                         const std::vector<std::string>& overrides) {
  auto manifest = ReadManifest(file, overrides);
  if (!manifest.ok()) return manifest.errors();
  api::TakeAutoStages(&*manifest);
  return api::ParseManifest(*manifest);
}

}  // namespace swarm::ctl

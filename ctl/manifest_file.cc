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

bool TakeAutoStages(nlohmann::json* manifest) {
  const nlohmann::json::json_pointer stages("/spec/pipeline/stages");
  if (!manifest->contains(stages) || manifest->at(stages) != "Auto") return false;
  manifest->at(stages.parent_pointer()).erase("stages");
  return true;
}

api::Checked<api::SwarmJob> LoadManifest(const std::string& file,
                                         const std::vector<std::string>& overrides) {
  auto manifest = ReadManifest(file, overrides);
  if (!manifest.ok()) return manifest.errors();
  TakeAutoStages(&*manifest);
  return api::ParseManifest(*manifest);
}

}  // namespace swarm::ctl

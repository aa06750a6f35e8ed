#include "ctl/manifest_file.h"

#include "api/parse.h"
#include "base/files.h"

namespace swarm::ctl {

api::Checked<api::SwarmJob> LoadManifest(const std::string& file,
                                         const std::vector<std::string>& overrides) {
  const Result<std::string> text = ReadFile(file == "-" ? "/dev/stdin" : file);
  if (!text.ok()) {
    return api::FieldError{file, text.status().message(), "give a manifest with -f FILE"};
  }
  return api::ParseYaml(*text, overrides);
}

}  // namespace swarm::ctl

#include "ctl/manifest_flags.h"

#include <CLI/CLI.hpp>

namespace swarm::ctl {

void AddManifest(CLI::App* command, std::string* manifest, std::vector<std::string>* overrides) {
  command
      ->add_option("-f,--filename,manifest", *manifest,
                   "File with the SwarmJob in YAML; - is standard input")
      ->required();
  command
      ->add_option("--set", *overrides,
                   "Override a field, for example --set training.maxSteps=100; may be repeated")
      ->expected(1)
      ->take_all();
}

}  // namespace swarm::ctl

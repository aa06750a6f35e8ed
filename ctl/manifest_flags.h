// The flags of every command that reads a manifest.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace swarm::ctl {

/// A file with a SwarmJob, and overrides of its fields, as LoadManifest takes both.
void AddManifest(CLI::App* command, std::string* manifest, std::vector<std::string>* overrides);

}  // namespace swarm::ctl

// Reads the small files of an identity: tokens, certificates, a kubeconfig.
#pragma once

#include <filesystem>
#include <string>

#include "base/status.h"

namespace swarm::kube {

/// The content of a file of at most 1 MiB. Errors: kNotFound, kUnavailable, kResourceExhausted.
Result<std::string> ReadSmallFile(const std::filesystem::path& path);

/// As ReadSmallFile, without white space at both ends.
Result<std::string> ReadTrimmed(const std::filesystem::path& path);

}  // namespace swarm::kube

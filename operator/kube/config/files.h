// The small files of an identity: tokens, certificates, a kubeconfig.
#pragma once

#include <filesystem>
#include <string>

#include "base/status.h"

namespace swarm::kube {

/// The whole of a file of at most 1 MiB. Errors: kNotFound, kUnavailable, kResourceExhausted.
Result<std::string> ReadSmallFile(const std::filesystem::path& path);

/// Without white space at its ends.
Result<std::string> ReadTrimmed(const std::filesystem::path& path);

}  // namespace swarm::kube

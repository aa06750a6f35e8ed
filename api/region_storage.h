// What follows from spec.storage.regions.
#pragma once

#include <string>

namespace swarm::api {

/// What the names of environment variables with a region's own keys begin with:
/// "SWARM_STORAGE_EU_WEST_1_" of "eu-west-1", as in SWARM_STORAGE_EU_WEST_1_AWS_ACCESS_KEY_ID.
std::string CredentialsPrefix(const std::string& region);

/// Whether two uris of folders are the same but for slashes at their ends.
bool IsSameFolder(std::string uri, std::string other);

}  // namespace swarm::api

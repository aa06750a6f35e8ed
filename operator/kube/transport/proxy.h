// Which proxy stands between us and a server, as the environment says. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace swarm::kube {

/// The value of an environment variable; empty if it is not set.
using Environment = std::function<std::string(const char*)>;

/// The environment of this process.
std::string ProcessEnvironment(const char* name);

/// The proxy for `server_url`, or an empty text for none: HTTPS_PROXY or HTTP_PROXY by the URL's
/// scheme, in capitals or small letters, unless NO_PROXY names the host: itself, a domain it is in
/// ("example.com", ".example.com"), an IPv4 network ("10.0.0.0/8"), or "*". Loopback never has one.
std::string ProxyFor(std::string_view server_url, const Environment& environment);

}  // namespace swarm::kube

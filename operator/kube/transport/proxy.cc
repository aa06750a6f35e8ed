#include "operator/kube/transport/proxy.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

namespace swarm::kube {
namespace {

constexpr std::string_view kHttp = "http://";

struct HostPort {
  std::string host;  // without brackets, in lower case
  std::string port;  // empty: none is given
};

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// "[::1]:443", "host:443", "host", "::1".
HostPort SplitPort(std::string_view text) {
  if (text.starts_with('[')) {
    const std::size_t end = std::min(text.find(']'), text.size());
    const std::string_view rest = text.substr(std::min(end + 1, text.size()));
    return {LowerCase(text.substr(1, end - 1)),
            std::string(rest.starts_with(':') ? rest.substr(1) : rest)};
  }
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || text.find(':', colon + 1) != std::string_view::npos) {
    return {LowerCase(text), ""};  // no port, or an IPv6 address
  }
  return {LowerCase(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

HostPort ServerOf(std::string_view url) {
  const bool is_https = url.starts_with("https://");
  if (const std::size_t scheme = url.find("://"); scheme != std::string_view::npos) {
    url.remove_prefix(scheme + 3);
  }
  HostPort server = SplitPort(url.substr(0, url.find('/')));
  if (server.port.empty()) server.port = is_https ? "443" : "80";
  return server;
}

// The bytes of an address, 4 or 16; none: it is a name.
std::optional<std::vector<std::uint8_t>> ParseAddress(std::string_view text) {
  std::vector<std::uint8_t> bytes(16);
  const std::string terminated(text);
  if (inet_pton(AF_INET6, terminated.c_str(), bytes.data()) == 1) return bytes;
  bytes.resize(4);
  if (inet_pton(AF_INET, terminated.c_str(), bytes.data()) == 1) return bytes;
  return std::nullopt;
}

bool IsInNetwork(std::string_view host, std::string_view network) {
  const std::size_t slash = network.find('/');
  if (slash == std::string_view::npos) return false;
  const auto address = ParseAddress(host);
  const auto base = ParseAddress(network.substr(0, slash));
  const std::string_view length = network.substr(slash + 1);
  std::size_t bits = SIZE_MAX;
  std::from_chars(length.data(), length.data() + length.size(), bits);
  if (!address || !base || address->size() != base->size() || bits > 8 * base->size()) return false;
  for (std::size_t bit = 0; bit < bits; ++bit) {
    const int mask = 0x80 >> (bit % 8);
    if (((*address)[bit / 8] & mask) != ((*base)[bit / 8] & mask)) return false;
  }
  return true;
}

bool IsNamed(const HostPort& server, std::string_view text) {
  if (text == "*" || IsInNetwork(server.host, text)) return true;
  HostPort entry = SplitPort(text);
  if (entry.host.empty() || (!entry.port.empty() && entry.port != server.port)) return false;
  if (entry.host.starts_with("*.")) entry.host.erase(0, 1);
  if (entry.host.starts_with('.')) return server.host.ends_with(entry.host);
  return server.host == entry.host || server.host.ends_with("." + entry.host);
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || IsInNetwork(host, "127.0.0.0/8");
}

bool IsBypassed(const HostPort& server, std::string_view no_proxy) {
  if (IsLoopback(server.host)) return true;
  while (!no_proxy.empty()) {
    const std::size_t comma = no_proxy.find(',');
    std::string_view entry = no_proxy.substr(0, comma);
    while (entry.starts_with(' ')) entry.remove_prefix(1);
    while (entry.ends_with(' ')) entry.remove_suffix(1);
    if (IsNamed(server, entry)) return true;
    no_proxy = comma == std::string_view::npos ? "" : no_proxy.substr(comma + 1);
  }
  return false;
}

std::string Either(const Environment& environment, const char* capitals, const char* small) {
  std::string value = environment(capitals);
  return value.empty() ? environment(small) : value;
}

}  // namespace

std::string ProcessEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string ProxyFor(std::string_view server_url, const Environment& environment) {
  if (IsBypassed(ServerOf(server_url), Either(environment, "NO_PROXY", "no_proxy"))) return "";
  std::string proxy = server_url.starts_with("https://")
                          ? Either(environment, "HTTPS_PROXY", "https_proxy")
                          : Either(environment, "HTTP_PROXY", "http_proxy");
  if (!proxy.empty() && proxy.find("://") == std::string::npos) proxy.insert(0, kHttp);
  return proxy;
}

Result<std::string> CheckedProxy(const std::string& proxy) {
  if (proxy.empty() || proxy.starts_with(kHttp)) return proxy;
  const std::size_t end = proxy.find("://");
  const std::string scheme = end == std::string::npos ? "no scheme" : proxy.substr(0, end) + "://";
  return InvalidArgument(
      "the proxy has " + scheme +
      ", and only http:// proxies can be used, which tunnel TLS by CONNECT: name one in the"
      " cluster's proxy-url or in HTTPS_PROXY, or list the server in NO_PROXY");
}

}  // namespace swarm::kube

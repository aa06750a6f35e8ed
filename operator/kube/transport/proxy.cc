#include "operator/kube/transport/proxy.h"

#include <arpa/inet.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>

namespace swarm::kube {
namespace {

std::string_view HostOf(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme != std::string_view::npos) url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find('/'));
  if (url.starts_with('[')) return url.substr(1, url.find(']') - 1);
  return url.substr(0, url.find(':'));
}

std::optional<std::uint32_t> ParseIpv4(std::string_view text) {
  in_addr address{};
  if (inet_pton(AF_INET, std::string(text).c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

bool IsInNetwork(std::string_view host, std::string_view network) {
  const std::size_t slash = network.find('/');
  if (slash == std::string_view::npos) return false;
  const auto address = ParseIpv4(host);
  const auto base = ParseIpv4(network.substr(0, slash));
  const std::string_view length = network.substr(slash + 1);
  unsigned bits = 33;
  std::from_chars(length.data(), length.data() + length.size(), bits);
  if (!address || !base || bits > 32) return false;
  const std::uint32_t mask = bits == 0 ? 0 : ~std::uint32_t{0} << (32 - bits);
  return (*address & mask) == (*base & mask);
}

bool IsNamed(std::string_view host, std::string_view entry) {
  if (entry.empty()) return false;
  if (entry == "*" || IsInNetwork(host, entry)) return true;
  if (entry.starts_with('.')) entry.remove_prefix(1);
  if (host == entry) return true;
  return host.size() > entry.size() && host.ends_with(entry) &&
         host[host.size() - entry.size() - 1] == '.';
}

bool IsBypassed(std::string_view host, std::string_view no_proxy) {
  if (host == "localhost" || IsInNetwork(host, "127.0.0.0/8") || host == "::1") return true;
  while (!no_proxy.empty()) {
    const std::size_t comma = no_proxy.find(',');
    std::string_view entry = no_proxy.substr(0, comma);
    while (entry.starts_with(' ')) entry.remove_prefix(1);
    while (entry.ends_with(' ')) entry.remove_suffix(1);
    if (IsNamed(host, entry)) return true;
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
  if (IsBypassed(HostOf(server_url), Either(environment, "NO_PROXY", "no_proxy"))) return "";
  return server_url.starts_with("https://") ? Either(environment, "HTTPS_PROXY", "https_proxy")
                                            : Either(environment, "HTTP_PROXY", "http_proxy");
}

}  // namespace swarm::kube

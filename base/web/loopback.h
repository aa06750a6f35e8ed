// Who may ask a web server that listens on loopback.
#pragma once

#include <string_view>

namespace swarm::web {

/// Whether a server that listens there answers to this machine alone.
inline bool IsLoopback(std::string_view listen) {
  return listen.starts_with("127.") || listen.starts_with("[::1]");
}

/// Whether a server on loopback is called by an address or as localhost. A site whose name leads to
/// this machine could otherwise read it through its visitors' browsers.
inline bool IsOfThisMachine(std::string_view host) {
  const std::string_view name = host.substr(0, host.rfind(':'));
  return host.empty() || host.starts_with('[') || name == "localhost" ||
         name.find_first_not_of("0123456789.") == name.npos;
}

}  // namespace swarm::web

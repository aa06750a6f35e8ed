// Where the programs of a run listen whose workers may be on other machines. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace swarm::ctl {

/// The address of --listen.
struct ListenAddress {
  std::string host;        ///< under which others reach this machine; IPv6 in brackets
  std::uint16_t port = 0;  ///< at which machines enrol; 0: any

  std::string enrolment() const { return At(port); }
  /// The trainer has the port behind it, so that a firewall needs two ports known in advance.
  std::string trainer() const { return At(port == 0 ? 0 : port + 1); }
  /// Workers take any port.
  std::string worker() const { return At(0); }

 private:
  std::string At(int number) const { return host + ":" + std::to_string(number); }
};

/// Reads HOST:PORT. Errors: kInvalidArgument (another form; a host that means all addresses, which
/// nobody can dial; no port for the trainer).
Result<ListenAddress> ParseListenAddress(const std::string& text);

}  // namespace swarm::ctl

#include "ctl/run/listen.h"

#include <charconv>

namespace swarm::ctl {

Result<ListenAddress> ParseListenAddress(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const std::string host = text.substr(0, colon == text.npos ? 0 : colon);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (host.empty() || (!bracketed && host.find(':') != host.npos)) {
    return InvalidArgument("'" + text + "' is no HOST:PORT, as in 10.0.0.5:7400 or [fd00::5]:7400");
  }
  if (host == "0.0.0.0" || host == "[::]") {
    return InvalidArgument("'" + host +
                           "' is no address that others can dial: give the one under which other"
                           " machines reach this one");
  }
  ListenAddress address{.host = host};
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + colon + 1, end, address.port);
  if (read.ec != std::errc() || read.ptr != end || address.port == 65535) {
    return InvalidArgument("'" + text.substr(colon + 1) +
                           "' is no port: 0 takes free ones, else it is for enrolment and the one"
                           " behind it for the trainer");
  }
  return address;
}

}  // namespace swarm::ctl

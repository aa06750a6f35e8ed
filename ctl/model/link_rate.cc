#include "ctl/model/link_rate.h"

#include <iperf_api.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/host_port.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;
using Test = std::unique_ptr<iperf_test, decltype(&iperf_free_test)>;

constexpr int kConnectMs = 5000, kWarmUpSeconds = 1;
/// For which a server may be busy: another machine may measure, too.
constexpr std::chrono::seconds kBusyMax{20};
constexpr std::chrono::milliseconds kBusyPause{100};
/// In iperf's words.
constexpr const char* kNoServer = "unable to connect";

struct Server {
  std::string host;
  int port = 5201;
};

Result<Server> Parse(const std::string& address) {
  if (const auto given = ReadHostPort(address)) {
    if (given->port != 0) return Server{given->host, given->port};
  } else if (!address.empty() &&
             (address.find(':') == address.npos || ToSocketAddress({address, 0}))) {
    return Server{address};
  }
  return InvalidArgument("'" + address + "' is no HOST or HOST:PORT, nor [ADDRESS]:PORT of IPv6");
}

/// What iperf says of a test in one direction; kResourceExhausted: there is a server, which may be
/// busy with another test.
Result<json> RunOnce(const Server& server, int seconds, bool reverse) {
  const Test test(iperf_new_test(), &iperf_free_test);
  if (test == nullptr || iperf_defaults(test.get()) < 0) return Internal("iperf cannot begin");
  iperf_set_test_role(test.get(), 'c');
  iperf_set_test_server_hostname(test.get(), server.host.c_str());
  iperf_set_test_server_port(test.get(), server.port);
  iperf_set_test_connect_timeout(test.get(), kConnectMs);
  iperf_set_test_omit(test.get(), kWarmUpSeconds);
  iperf_set_test_duration(test.get(), seconds);
  iperf_set_test_reverse(test.get(), reverse ? 1 : 0);
  iperf_set_test_json_output(test.get(), 1);
  iperf_set_test_logfile(test.get(), "/dev/null");  // it prints what it also gives as a string
  const bool ran = iperf_run_client(test.get()) == 0;
  const char* const text = iperf_get_test_json_output_string(test.get());
  json report = json::parse(text == nullptr ? "" : text, nullptr, /*allow_exceptions=*/false);
  // Some errors are in the report alone.
  if (!ran || report.contains("error") || !report.contains("end")) {
    const std::string why =
        report.contains("error") ? report["error"].dump() : iperf_strerror(i_errno);
    const std::string where = server.host + " port " + std::to_string(server.port) + ": " + why;
    // A server that is busy says so, or hangs up before that has come.
    if (why.find(kNoServer) == why.npos) return ResourceExhausted(where);
    return Unavailable(where + "; start 'iperf3 -s' there, and open the port");
  }
  return report["end"];
}

/// The same, of a server that may be busy for a moment with the end of the test before.
Result<json> Run(const Server& server, int seconds, bool reverse) {
  const auto deadline = std::chrono::steady_clock::now() + kBusyMax;
  while (true) {
    Result<json> report = RunOnce(server, seconds, reverse);
    const bool is_busy = report.status().code() == StatusCode::kResourceExhausted;
    if (!is_busy || std::chrono::steady_clock::now() > deadline) return report;
    std::this_thread::sleep_for(kBusyPause);
  }
}

}  // namespace

Result<LinkRate> MeasureLink(const std::string& address, int seconds) {
  ASSIGN_OR_RETURN(const Server server, Parse(address));
  ASSIGN_OR_RETURN(const json up, Run(server, seconds, /*reverse=*/false));
  ASSIGN_OR_RETURN(const json down, Run(server, seconds, /*reverse=*/true));
  const auto rate = [](const json& end) {
    return end.value(json::json_pointer("/sum_received/bits_per_second"), 0.0) / 8;
  };
  return LinkRate{
      .upload = rate(up),
      .download = rate(down),
      .round_trip_seconds = up.value(json::json_pointer("/streams/0/sender/min_rtt"), 0.0) * 1e-6};
}

}  // namespace swarm::ctl

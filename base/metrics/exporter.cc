#include "base/metrics/exporter.h"

#include <CivetServer.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <exception>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>

namespace swarm::metrics {
namespace {

constexpr const char* kThreads = "2";
constexpr const char* kRequestTimeoutMs = "5000";
constexpr auto kKnockInterval = std::chrono::milliseconds(5);

prometheus::MetricType TypeOf(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return prometheus::MetricType::Counter;
    case MetricType::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricType::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

prometheus::ClientMetric::Histogram Cumulate(const HistogramReading& reading) {
  prometheus::ClientMetric::Histogram histogram;
  histogram.sample_sum = reading.sum;
  for (std::size_t i = 0; i < reading.counts.size(); ++i) {
    histogram.sample_count += reading.counts[i];
    const double bound =
        i < kSecondsBounds.size() ? kSecondsBounds[i] : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({histogram.sample_count, bound});
  }
  return histogram;
}

prometheus::ClientMetric ToClientMetric(const MetricDefinition& definition,
                                        const MetricSample& sample) {
  SWARM_CHECK(sample.labels.size() == definition.labels.size(), std::string(definition.name));
  prometheus::ClientMetric metric;
  for (std::size_t i = 0; i < sample.labels.size(); ++i) {
    metric.label.push_back({std::string(definition.labels[i]), sample.labels[i]});
  }
  switch (definition.type) {
    case MetricType::kCounter:
      metric.counter.value = std::get<double>(sample.value);
      break;
    case MetricType::kGauge:
      metric.gauge.value = std::get<double>(sample.value);
      break;
    case MetricType::kHistogram:
      metric.histogram = Cumulate(std::get<HistogramReading>(sample.value));
      break;
  }
  return metric;
}

std::string ToText(const std::vector<MetricSample>& samples) {
  std::vector<prometheus::MetricFamily> families(kMetricCount);
  for (const MetricSample& sample : samples) {
    const MetricDefinition& definition = DefinitionOf(sample.metric);
    prometheus::MetricFamily& family = families[static_cast<std::size_t>(sample.metric)];
    if (family.name.empty()) {
      family.name = definition.name;
      family.help = definition.help;
      family.type = TypeOf(definition.type);
    }
    family.metric.push_back(ToClientMetric(definition, sample));
  }
  std::erase_if(families, [](const auto& family) { return family.name.empty(); });
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families);
  return text.str();
}

/// An answer to a request.
struct Page {
  int code = 200;
  const char* reason = "OK";
  std::string text;
};

Page Ask(const Probe& probe) {
  const Status status = probe ? probe() : Status();
  if (status.ok()) return {.text = "ok\n"};
  return {.code = 503, .reason = "Service Unavailable", .text = status.ToString() + "\n"};
}

/// Answers every path. The web server calls it on all of its threads.
class Handler : public CivetHandler {
 public:
  explicit Handler(Pages pages) : pages_(std::move(pages)) {}

  bool handleGet(CivetServer*, mg_connection* connection) override {
    return Answer(connection, /*with_text=*/true);
  }
  bool handleHead(CivetServer*, mg_connection* connection) override {
    return Answer(connection, /*with_text=*/false);
  }

 private:
  Page PageAt(std::string_view path) const {
    if (path == "/metrics" && pages_.metrics) return {.text = ToText(pages_.metrics())};
    if (path == "/metrics" && pages_.metrics_text) return {.text = pages_.metrics_text()};
    if (path == "/healthz") return Ask(pages_.healthz);
    if (path == "/readyz") return Ask(pages_.readyz);
    return {.code = 404, .reason = "Not Found", .text = "not found\n"};
  }

  bool Answer(mg_connection* connection, bool with_text) const {
    const char* path = mg_get_request_info(connection)->local_uri;  // null for "GET *"
    const Page page = PageAt(path != nullptr ? path : "");
    mg_printf(connection,
              "HTTP/1.1 %d %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
              "Content-Length: %zu\r\nConnection: close\r\n\r\n",
              page.code, page.reason, page.text.size());
    if (with_text) mg_write(connection, page.text.data(), page.text.size());
    return true;
  }

  const Pages pages_;
};

/// Where the web server listens, as text and for connecting to it.
struct ListenAddress {
  std::string host;  // brackets kept
  sockaddr_storage socket{};
  socklen_t size = 0;
};

/// Nothing unless `host` is an IPv4 address or, in brackets, an IPv6 address.
std::optional<ListenAddress> Resolve(const std::string& host, std::uint16_t port) {
  ListenAddress address{.host = host};
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    auto* six = reinterpret_cast<sockaddr_in6*>(&address.socket);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    address.size = sizeof *six;
    const std::string inner = host.substr(1, host.size() - 2);
    if (inet_pton(AF_INET6, inner.c_str(), &six->sin6_addr) != 1) return std::nullopt;
  } else {
    auto* four = reinterpret_cast<sockaddr_in*>(&address.socket);
    four->sin_family = AF_INET;
    four->sin_port = htons(port);
    address.size = sizeof *four;
    if (inet_pton(AF_INET, host.c_str(), &four->sin_addr) != 1) return std::nullopt;
  }
  return address;
}

Result<ListenAddress> Parse(const std::string& listen) {
  const std::size_t colon = listen.rfind(':');
  if (colon != std::string::npos) {
    std::uint16_t port = 0;
    const char* end = listen.data() + listen.size();
    const auto number = std::from_chars(listen.data() + colon + 1, end, port);
    if (number.ec == std::errc() && number.ptr == end) {
      if (auto address = Resolve(listen.substr(0, colon), port)) return *address;
    }
  }
  return InvalidArgument(
      "'" + listen + "' is no address:port to serve metrics or probes at, such as 127.0.0.1:9464");
}

/// Connects and hangs up. Does not wait.
void Knock(const ListenAddress& address) {
  const int fd = socket(address.socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  (void)connect(fd, reinterpret_cast<const sockaddr*>(&address.socket), address.size);
  close(fd);
}

/// What the web server said last on this thread, as its exception says nothing.
thread_local std::string said;

CivetCallbacks Listening() {
  CivetCallbacks callbacks;
  callbacks.log_message = [](const mg_connection*, const char* message) {
    said = message;
    return 0;  // it goes on to the server's own log, which is none
  };
  return callbacks;
}

}  // namespace

class Exporter::Server {
 public:
  /// Throws what the web server throws.
  Server(const std::string& listen, ListenAddress address, Pages pages)
      : handler_(std::move(pages)),
        callbacks_(Listening()),
        web_(std::make_unique<CivetServer>(
            std::vector<std::string>{"listening_ports", listen, "num_threads", kThreads,
                                     "request_timeout_ms", kRequestTimeoutMs},
            &callbacks_)) {
    web_->addHandler("/", handler_);
    address_ = *Resolve(address.host, static_cast<std::uint16_t>(web_->getListeningPorts()[0]));
  }

  ~Server() {
    // The web server checks whether to end at each connection, or else every two seconds, which is
    // too slow for the end of a program.
    std::jthread knocking([this](const std::stop_token& ended) {
      while (!ended.stop_requested()) {
        Knock(address_);
        std::this_thread::sleep_for(kKnockInterval);
      }
    });
    web_.reset();
  }

  std::string address() const {
    return address_.host + ":" + std::to_string(web_->getListeningPorts()[0]);
  }

 private:
  Handler handler_;
  const CivetCallbacks callbacks_;
  std::unique_ptr<CivetServer> web_;
  ListenAddress address_;  // with the port that was taken
};

Result<std::unique_ptr<Exporter>> Exporter::Start(const std::string& listen, Pages pages) {
  ASSIGN_OR_RETURN(const ListenAddress address, Parse(listen));
  said.clear();
  try {
    auto server = std::make_unique<Server>(listen, address, std::move(pages));
    std::string bound = server->address();
    return std::unique_ptr<Exporter>(new Exporter(std::move(server), std::move(bound)));
  } catch (const std::exception&) {
    if (said.empty()) said = "the port is taken, or the address is not of this machine";
    return Unavailable("cannot serve metrics or probes at " + listen + ": " + said);
  }
}

Exporter::Exporter(std::unique_ptr<Server> server, std::string address)
    : server_(std::move(server)), address_(std::move(address)) {}

Exporter::~Exporter() = default;

}  // namespace swarm::metrics

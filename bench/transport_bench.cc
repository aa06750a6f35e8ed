// Measures how much of a TCP connection's speed the endpoint reaches, in the same run: two
// processes exchange messages of three sizes, there and back (one at a time) and one way (several
// in flight).
//
//   transport_bench [--seconds S] [--rounds N]   over the loopback device, through memory that
//                                                workers of a pod share, and through a relay, in
//                                                the server's process, of two that nobody can dial
//   transport_bench --shaped MBITS --delay MS    over a rate-limited link between two network
//                                                namespaces that it makes (needs root and tc)
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/testing/temporary_folder.h"
#include "base/time.h"
#include "worker/net/grpc/credentials.h"
#include "worker/net/grpc/grpc_endpoint.h"
#include "worker/net/grpc/testing/test_authority.h"
#include "worker/net/pod/pod_endpoint.h"

namespace swarm::net {
namespace {

constexpr std::size_t kSizes[] = {256u << 10, 4u << 20, 32u << 20};
constexpr std::size_t kUnderWay = 48u << 20;  // bytes, of the one-way measurements

struct Settings {
  std::string server_host = "127.0.0.1";
  double seconds = 0.3;  ///< of each measurement
  int rounds = 7;
};

void Require(bool condition, const char* what) {
  if (condition) return;
  std::perror(what);
  std::exit(1);
}

// ---- raw TCP ----

void SendAll(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
    Require(sent > 0, "send");
    data += sent;
    size -= static_cast<std::size_t>(sent);
  }
}

bool ReceiveAll(int fd, char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t received = recv(fd, data, size, 0);
    if (received <= 0) return false;
    data += received;
    size -= static_cast<std::size_t>(received);
  }
  return true;
}

/// The client's request: a size, and whether the server echoes the payload (else it answers one
/// byte).
struct RawRequest {
  std::uint64_t size;
  std::uint64_t echo;
};

void ServeRaw(int listener) {
  const int fd = accept(listener, nullptr, nullptr);
  std::vector<char> buffer(kSizes[2]);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  RawRequest request;
  while (ReceiveAll(fd, reinterpret_cast<char*>(&request), sizeof(request)) &&
         ReceiveAll(fd, buffer.data(), request.size)) {
    SendAll(fd, buffer.data(), request.echo != 0 ? request.size : 1);
  }
  close(fd);
}

/// Bytes a second.
double MeasureRaw(int fd, std::size_t size, bool echo, double seconds) {
  static std::vector<char> buffer(kSizes[2], 'x');
  const std::size_t ahead = echo ? 1 : std::max<std::size_t>(2, kUnderWay / size);
  const auto send_one = [&] {
    const RawRequest request{size, echo};
    SendAll(fd, reinterpret_cast<const char*>(&request), sizeof(request));
    SendAll(fd, buffer.data(), size);
  };
  const auto receive_one = [&] { Require(ReceiveAll(fd, buffer.data(), echo ? size : 1), "recv"); };
  send_one();
  receive_one();
  std::size_t count = 0, under_way = 0;
  const Timepoint start = Clock::now();
  while (ToSeconds(Clock::now() - start) < seconds) {
    for (; under_way < ahead; ++under_way) send_one();
    receive_one();
    --under_way;
    ++count;
  }
  const double elapsed = ToSeconds(Clock::now() - start);
  for (; under_way > 0; --under_way) receive_one();
  return static_cast<double>(count * size) / elapsed;
}

// ---- endpoints ----

const WorkerId kServer("server"), kClient("client"), kRelay("trainer");

/// Sends what comes back (kEcho) or a short answer (kSink); the offset field says which.
class Server final : public EndpointHandler {
 public:
  Endpoint* endpoint = nullptr;
  void OnMessage(const WorkerId& from, Lane lane, Envelope envelope) override {
    const bool echo = std::get<protocol::ReduceChunk>(envelope.message).offset != 0;
    if (!echo) envelope.payload = {};
    Status status = endpoint->Send(from, lane, std::move(envelope));
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }
  void OnPeerUp(const WorkerId&) override {}
  void OnPeerDown(const WorkerId&, const Status&) override {}
};

class Client final : public EndpointHandler {
 public:
  void OnMessage(const WorkerId&, Lane, Envelope) override { Count(&answers_); }
  void OnPeerUp(const WorkerId&) override { Count(&ups_); }
  void OnPeerDown(const WorkerId&, const Status& why) override {
    std::fprintf(stderr, "broken: %s\n", why.ToString().c_str());
    std::exit(1);
  }
  void WaitUntilUp() {
    Wait([this] { return ups_ > 0; });
  }
  void WaitForAnswers(std::uint64_t count) {
    Wait([this, count] { return answers_ >= count; });
  }

 private:
  void Count(std::uint64_t* what) {
    const std::lock_guard lock(mutex_);
    ++*what;
    changed_.notify_all();
  }
  template <typename Condition>
  void Wait(const Condition& condition) {
    std::unique_lock lock(mutex_);
    Require(changed_.wait_for(lock, std::chrono::minutes(2), condition), "no answer");
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t answers_ = 0, ups_ = 0;
};

GrpcOptions OptionsOf(const WorkerId& self, const std::string& listen, const TlsFiles* files) {
  GrpcOptions options;
  options.self = self;
  options.listen = listen;
  options.job = "bench";
  options.plaintext = files == nullptr;
  if (files != nullptr) options.tls = *files;
  options.data_window_bytes = 4 * kUnderWay;  // what is under way, and answers on their way back
  return options;
}

/// Of an endpoint that nobody can dial.
GrpcOptions OptionsAtRelay(const WorkerId& self, const std::string& relay, const TlsFiles& files) {
  GrpcOptions options = OptionsOf(self, /*listen=*/"", &files);
  options.relay = RelayAt{kRelay, {{"cluster", relay, ""}}};
  return options;
}

/// `pod`: memory that both share; null: none.
std::unique_ptr<Endpoint> MakeEndpoint(const GrpcOptions& options, EndpointHandler* handler,
                                       const PodMemory* pod) {
  const net::MakeEndpoint make = [&](EndpointHandler* inner) -> Result<std::unique_ptr<Endpoint>> {
    ASSIGN_OR_RETURN(auto endpoint, GrpcEndpoint::Create(options, inner));
    return std::unique_ptr<Endpoint>(std::move(endpoint));
  };
  auto created = pod == nullptr ? make(handler)
                                : PodEndpoint::Create(
                                      *PodMemory::Open(pod->fd(), options.self == kServer ? 0 : 1),
                                      {kServer, kClient}, handler, make);
  if (!created.ok()) {
    std::fprintf(stderr, "%s\n", created.status().ToString().c_str());
    std::exit(1);
  }
  return std::move(created).value();
}

double MeasureEndpoint(Endpoint& endpoint, Client& client, std::uint64_t* answers, std::size_t size,
                       bool echo, double seconds) {
  const Bytes payload = Bytes::Make(size, [&](std::byte* data) { std::memset(data, 'x', size); });
  const std::size_t ahead = echo ? 1 : std::max<std::size_t>(2, kUnderWay / size);
  std::uint64_t sent = *answers;
  const auto send_one = [&] {
    const Status status = endpoint.Send(kServer, Lane::kData,
                                        {protocol::ReduceChunk{.offset = echo ? 1u : 0u}, payload});
    Require(status.ok(), status.ToString().c_str());
    ++sent;
  };
  const auto receive_one = [&] { client.WaitForAnswers(++*answers); };
  send_one();
  receive_one();
  const std::uint64_t before = *answers;
  const Timepoint start = Clock::now();
  while (ToSeconds(Clock::now() - start) < seconds) {
    while (sent < *answers + ahead) send_one();
    receive_one();
  }
  const double elapsed = ToSeconds(Clock::now() - start);
  const std::uint64_t count = *answers - before;
  while (*answers < sent) receive_one();
  return static_cast<double>(count * size) / elapsed;
}

// ---- the table ----

/// One way of moving bytes: measures `size` bytes a message for `seconds`; bytes a second.
struct Carrier {
  const char* name;
  std::function<double(std::size_t size, bool echo, double seconds)> measure;
};

Carrier ConnectRaw(const Settings& settings, int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  inet_pton(AF_INET, settings.server_host.c_str(), &to.sin_addr);
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  Require(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0, "connect");
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const std::shared_ptr<const int> connection(new int(fd), [](const int* open) {
    close(*open);
    delete open;
  });
  return {"raw TCP", [connection](std::size_t size, bool echo, double seconds) {
            return MeasureRaw(*connection, size, echo, seconds);
          }};
}

std::string AddressOf(const Settings& settings, int port) {
  return settings.server_host + ":" + std::to_string(port);
}

/// `server`: where it is.
Carrier ConnectEndpoint(const char* name, const protocol::Address& server,
                        const GrpcOptions& options, const PodMemory* pod = nullptr) {
  const auto client = std::make_shared<Client>();
  const std::shared_ptr<Endpoint> endpoint = MakeEndpoint(options, client.get(), pod);
  endpoint->Connect(kServer, {server});
  client->WaitUntilUp();
  const auto answers = std::make_shared<std::uint64_t>(0);
  return {name, [client, endpoint, answers](std::size_t size, bool echo, double seconds) {
            return MeasureEndpoint(*endpoint, *client, answers.get(), size, echo, seconds);
          }};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Measures all carriers in turn, several times, so that other load on the machine affects all of
/// them alike. Prints medians, and the median of each round's ratio to the first carrier.
void MeasureInTurn(const std::vector<Carrier>& carriers, const Settings& settings) {
  for (const bool echo : {true, false}) {
    for (const std::size_t size : kSizes) {
      std::vector<std::vector<double>> speeds(carriers.size()), ratios(carriers.size());
      for (int round = 0; round < settings.rounds; ++round) {
        for (std::size_t i = 0; i < carriers.size(); ++i) {
          speeds[i].push_back(carriers[i].measure(size, echo, settings.seconds));
          ratios[i].push_back(speeds[i].back() / speeds[0].back());
        }
      }
      for (std::size_t i = 0; i < carriers.size(); ++i) {
        std::printf("%-14s %6zu KiB  %-10s %7.3f GB/s %9.1f Mbit/s  %4.2f of raw\n",
                    echo ? "there and back" : "one way", size >> 10, carriers[i].name,
                    Median(speeds[i]) / 1e9, Median(speeds[i]) * 8e-6, Median(ratios[i]));
      }
      std::fflush(stdout);
    }
  }
}

/// The server process: prints its ports, then serves until its standard input ends.
void Serve(int ports, int stop, const TlsFiles& files, const TlsFiles& relay_files,
           const PodMemory& pod) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  Require(bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0, "bind");
  Require(listen(listener, 1) == 0, "listen");
  socklen_t size = sizeof(at);
  getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size);
  Server plain_handler, tls_handler, pod_handler, far_handler, relay_handler;
  const auto plain =
      MakeEndpoint(OptionsOf(kServer, "0.0.0.0:0", nullptr), &plain_handler, nullptr);
  const auto tls = MakeEndpoint(OptionsOf(kServer, "0.0.0.0:0", &files), &tls_handler, nullptr);
  const auto shared = MakeEndpoint(OptionsOf(kServer, "0.0.0.0:0", &files), &pod_handler, &pod);
  plain_handler.endpoint = plain.get();
  tls_handler.endpoint = tls.get();
  pod_handler.endpoint = shared.get();
  GrpcOptions relay_options = OptionsOf(kRelay, "0.0.0.0:0", &relay_files);
  relay_options.relays = true;
  const auto relay = MakeEndpoint(relay_options, &relay_handler, nullptr);
  const auto port_of = [](const Endpoint& endpoint) {
    const std::string dial = endpoint.addresses()[0].dial;
    return std::stoi(dial.substr(dial.rfind(':') + 1));
  };
  const auto far =
      MakeEndpoint(OptionsAtRelay(kServer, "127.0.0.1:" + std::to_string(port_of(*relay)), files),
                   &far_handler, nullptr);
  far_handler.endpoint = far.get();
  const int numbers[5] = {ntohs(at.sin_port), port_of(*plain), port_of(*tls), port_of(*shared),
                          port_of(*relay)};
  Require(write(ports, numbers, sizeof(numbers)) == sizeof(numbers), "write");
  ServeRaw(listener);  // until the client has measured all and closes it
  char ignored;
  (void)!read(stop, &ignored, 1);
}

int Run(const Settings& settings, const std::function<void()>& enter_server,
        const std::function<void(pid_t)>& enter_client) {
  TemporaryFolder folder;
  const TestAuthority authority;
  const auto issue = [&](const WorkerId& id) {
    return authority.Issue(folder.path() / id.value, IdentityUri("bench", id));
  };
  const TlsFiles server_files = issue(kServer), client_files = issue(kClient),
                 relay_files = issue(kRelay);
  const auto pod = PodMemory::Create(2);
  Require(pod.ok(), "pod memory");
  int ports[2], stop[2], ready[2];
  Require(pipe(ports) == 0 && pipe(stop) == 0 && pipe(ready) == 0, "pipe");
  const pid_t child = fork();  // before gRPC has any thread
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a client that cannot go on exits without a word to it
    close(stop[1]);
    enter_server();
    char go;
    (void)!write(ports[1], "s", 1);
    (void)!read(ready[0], &go, 1);
    Serve(ports[1], stop[0], server_files, relay_files, **pod);
    _exit(0);
  }
  close(ports[1]);  // so that reads end when the server has
  char entered;
  Require(read(ports[0], &entered, 1) == 1, "server");
  enter_client(child);
  (void)!write(ready[1], "g", 1);
  int numbers[5];
  Require(read(ports[0], numbers, sizeof(numbers)) == sizeof(numbers), "ports");
  {
    const auto at = [&](int port) {
      return protocol::Address{"cluster", AddressOf(settings, port), ""};
    };
    const GrpcOptions plain = OptionsOf(kClient, "0.0.0.0:0", nullptr);
    const GrpcOptions tls = OptionsOf(kClient, "0.0.0.0:0", &client_files);
    std::vector<Carrier> carriers = {ConnectRaw(settings, numbers[0]),
                                     ConnectEndpoint("plaintext", at(numbers[1]), plain),
                                     ConnectEndpoint("mutual TLS", at(numbers[2]), tls)};
    if (settings.server_host == Settings().server_host) {  // on one machine
      carriers.push_back(ConnectEndpoint("pod memory", at(numbers[3]), tls, pod->get()));
    }
    carriers.push_back(
        ConnectEndpoint("relay", {protocol::kRelayScope, "", ""},
                        OptionsAtRelay(kClient, AddressOf(settings, numbers[4]), client_files)));
    MeasureInTurn(carriers, settings);
  }
  close(stop[1]);
  waitpid(child, nullptr, 0);
  return 0;
}

void Shell(const std::string& command) {
  if (std::system(command.c_str()) == 0) return;
  std::fprintf(stderr, "cannot make the link: %s\n", command.c_str());
  std::exit(1);
}

/// Both ends of a link of `mbits` and a round trip of `delay_ms` (0: as it is), each in a
/// namespace.
int RunShaped(Settings settings, const std::string& mbits, const std::string& delay_ms) {
  settings.server_host = "10.77.0.2";
  settings.seconds = 3;
  settings.rounds = 1;
  const auto enter_server = [] { Require(unshare(CLONE_NEWNET) == 0, "unshare"); };
  const auto enter_client = [&](pid_t server) {
    Require(unshare(CLONE_NEWNET) == 0, "unshare");
    const std::string in_server = "nsenter -t " + std::to_string(server) + " -n ";
    const std::string shape = delay_ms == "0"
                                  ? " root tbf rate " + mbits + "mbit burst 128kb latency 50ms"
                                  : " root netem rate " + mbits + "mbit delay " +
                                        std::to_string(std::stod(delay_ms) / 2) + "ms limit 20000";
    Shell("ip link add left type veth peer name right");
    Shell("ip link set right netns " + std::to_string(server));
    Shell("ip addr add 10.77.0.1/24 dev left && ip link set left up && ip link set lo up");
    Shell(in_server + "ip addr add 10.77.0.2/24 dev right");
    Shell(in_server + "ip link set right up");
    Shell(in_server + "ip link set lo up");
    Shell("tc qdisc add dev left" + shape);
    Shell(in_server + "tc qdisc add dev right" + shape);
  };
  return Run(settings, enter_server, enter_client);
}

}  // namespace
}  // namespace swarm::net

int main(int argc, char** argv) {
  swarm::net::Settings settings;
  std::string mbits, delay = "0";
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--seconds") settings.seconds = std::atof(argv[i + 1]);
    if (name == "--rounds") settings.rounds = std::atoi(argv[i + 1]);
    if (name == "--shaped") mbits = argv[i + 1];
    if (name == "--delay") delay = argv[i + 1];
  }
  if (!mbits.empty()) return swarm::net::RunShaped(settings, mbits, delay);
  return swarm::net::Run(settings, [] {}, [](pid_t) {});
}

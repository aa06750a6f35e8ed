#include "operator/satellite/wire/home_door.h"

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/log.h"
#include "operator/kube/transport/exchange_transport.h"
#include "operator/satellite/wire/byte_stream.h"
#include "swarmjob/v1/satellite.pb.h"
#include "worker/enrol/service/home_channel.h"
#include "worker/enrol/service/question.h"
#include "worker/net/grpc/process.h"
#include "worker/net/grpc/status.h"

namespace swarm::satellite {
namespace {

namespace pb = ::swarmjob::v1;

constexpr int kHandshakeMilliseconds = 10000;
/// A satellite that has vanished is noticed by its pongs. The pings also keep routers from
/// forgetting the connection.
constexpr int kPingMilliseconds = 20000, kPongMilliseconds = 10000;
/// A caller without a call does not hold its connection for longer.
constexpr int kIdleMilliseconds = 30000;
/// Requests of one cluster that are under way.
constexpr std::size_t kCallsMax = 256;

kube::HttpHeaders HeadersOf(const auto& sent) {
  kube::HttpHeaders headers;
  for (const pb::SatelliteHeader& header : sent) headers[header.name()] = header.value();
  return headers;
}

/// The connection of one satellite.
class Line : public std::enable_shared_from_this<Line> {
 public:
  explicit Line(std::shared_ptr<ByteStream> stream) : stream_(std::move(stream)) {}

  void Start(std::uint64_t leader_term, const std::string& jobs, std::function<void()> on_done) {
    stream_->Start({[line = shared_from_this()](std::string text, std::function<void()> resume) {
                      line->OnMessage(text, std::move(resume));
                    },
                    [line = shared_from_this(), on_done = std::move(on_done)](
                        const std::shared_ptr<ByteStream>&, const Status& why) {
                      line->OnDone(why);
                      on_done();
                    }});
    pb::ToSatellite welcome;
    welcome.mutable_welcome()->set_leader_term(leader_term);
    (void)stream_->Send(welcome.SerializeAsString());  // a failure ends the stream, and is told
    Tell(jobs);
  }
  void Tell(const std::string& jobs) {
    if (!jobs.empty()) (void)stream_->Send(jobs);
  }
  void Close(const Status& why) { stream_->Close(why); }
  /// Empty before it has come.
  pb::SatelliteHello hello() const {
    const std::lock_guard lock(mutex_);
    return hello_;
  }
  bool ended() const {
    const std::lock_guard lock(mutex_);
    return ended_.has_value();
  }

  Result<std::uint64_t> Call(const kube::HttpRequest& request,
                             const std::shared_ptr<kube::Exchange>& exchange) {
    pb::ToSatellite message;
    pb::SatelliteCall& call = *message.mutable_call();
    call.set_method(request.method);
    call.set_target(request.target);
    for (const auto& [name, value] : request.headers) {
      pb::SatelliteHeader& header = *call.add_headers();
      header.set_name(name);
      header.set_value(value);
    }
    call.set_body(request.body);
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return *ended_;
      if (open_.size() >= kCallsMax) return Unavailable("too many requests are under way");
      call.set_id(++last_id_);
      open_.emplace(call.id(), exchange);
    }
    if (message.ByteSizeLong() > kMessageBytesMax) {
      Forget(call.id());
      return ResourceExhausted("the request is larger than " + std::to_string(kMessageBytesMax) +
                               " bytes");
    }
    const Status sent = stream_->Send(message.SerializeAsString());
    if (!sent.ok()) {
      Forget(call.id());
      return Unavailable(sent.message());
    }
    return call.id();
  }

  void Cancel(std::uint64_t id) {
    Forget(id);
    pb::ToSatellite message;
    message.mutable_cancel()->set_id(id);
    (void)stream_->Send(message.SerializeAsString());  // of a stream that ends, nothing is open
  }

 private:
  void Forget(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    open_.erase(id);
  }
  /// Null: home has given the call up, or never made it.
  std::shared_ptr<kube::Exchange> Find(std::uint64_t id, bool ends = false) {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(id);
    if (found == open_.end()) return nullptr;
    std::shared_ptr<kube::Exchange> exchange = found->second;
    if (ends) open_.erase(found);
    return exchange;
  }

  void OnMessage(const std::string& text, std::function<void()> resume) {
    pb::FromSatellite message;
    if (!message.ParseFromString(text)) {
      return stream_->Close(InvalidArgument("the message cannot be read"));
    }
    if (message.has_head()) {
      if (const auto exchange = Find(message.head().id())) {
        exchange->OnHead({message.head().status(), HeadersOf(message.head().headers())});
      }
    } else if (message.has_body()) {
      // A full exchange holds up the others of this satellite, until its caller has taken the bytes
      // or given up.
      if (const auto exchange = Find(message.body().id())) {
        return exchange->Put(message.body().bytes(), [resume](bool) { resume(); });
      }
    } else if (message.has_end()) {
      const pb::SatelliteEnd& end = message.end();
      if (const auto exchange = Find(end.id(), /*ends=*/true)) {
        exchange->OnEnd(Status(static_cast<StatusCode>(end.code()), end.message()));
      }
    } else if (message.has_hello()) {
      const std::lock_guard lock(mutex_);
      hello_ = message.hello();
    }
    resume();
  }

  void OnDone(const Status& why) {
    std::map<std::uint64_t, std::shared_ptr<kube::Exchange>> open;
    const Status ended = Unavailable("the satellite is gone: " + why.message());
    {
      const std::lock_guard lock(mutex_);
      ended_ = ended;
      open.swap(open_);
    }
    for (const auto& [id, exchange] : open) exchange->OnEnd(ended);
  }

  const std::shared_ptr<ByteStream> stream_;
  mutable std::mutex mutex_;
  std::uint64_t last_id_ = 0;                                      // guarded
  std::map<std::uint64_t, std::shared_ptr<kube::Exchange>> open_;  // guarded
  std::optional<Status> ended_;                                    // guarded
  pb::SatelliteHello hello_;                                       // guarded
};

/// The way to the API server of one cluster, over whichever satellite is connected.
class SatelliteTransport final : public kube::ExchangeTransport {
 public:
  explicit SatelliteTransport(std::string cluster) : cluster_(std::move(cluster)) {}

  std::string host() const override { return "satellite " + cluster_; }

  /// Returns the line before.
  std::shared_ptr<Line> Use(std::shared_ptr<Line> line) {
    const std::lock_guard lock(mutex_);
    return std::exchange(line_, std::move(line));
  }
  /// False: another one is used by now.
  bool Leave(const std::shared_ptr<Line>& line) {
    const std::lock_guard lock(mutex_);
    if (line_ != line) return false;
    line_ = nullptr;
    return true;
  }
  std::shared_ptr<Line> line() const {
    const std::lock_guard lock(mutex_);
    return line_;
  }

 protected:
  Result<Cancel> Begin(Kind, const kube::HttpRequest& request,
                       const std::shared_ptr<kube::Exchange>& exchange) override {
    const std::shared_ptr<Line> used = line();
    if (!used) return Unavailable("no satellite of the cluster " + cluster_ + " is connected");
    const auto id = used->Call(request, exchange);
    if (!id.ok()) return id.status().WithContext("cluster " + cluster_);
    return Cancel([used, id = *id] { used->Cancel(id); });
  }

 private:
  const std::string cluster_;
  mutable std::mutex mutex_;
  std::shared_ptr<Line> line_;  // guarded; null: no satellite is connected
};

std::string ToText(const EnrolReply& reply) {
  pb::EnrolSatelliteReply message;
  message.set_cluster(reply.cluster);
  message.set_certificate(reply.certificate);
  message.set_validity_seconds(static_cast<std::uint64_t>(ToSeconds(reply.validity)));
  return message.SerializeAsString();
}

}  // namespace

class HomeDoor::Service final : public grpc::CallbackGenericService {
 public:
  Service(const HomeDoorOptions& options, Reception* reception)
      : leader_term_(options.leader_term),
        prove_(options.prove),
        machines_(options.machines),
        reception_(reception) {}

  ~Service() override {
    if (!server_) return;
    for (const std::shared_ptr<Line>& line : Lines()) line->Close(Unavailable("home ends"));
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  }

  Result<int> Listen(const HomeDoorOptions& options) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(
        options.listen, enrol::MakeHomeCredentials(options.authority, options.identity), &port);
    builder.RegisterCallbackGenericService(this);
    builder.SetMaxReceiveMessageSize(kMessageBytesMax);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 2);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPongMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
    server_ = builder.BuildAndStart();
    if (!server_ || port == 0) return Unavailable("cannot listen on " + options.listen);
    return port;
  }

  void TellJobs(const std::set<std::string>& uids) {
    pb::ToSatellite message;
    message.mutable_jobs()->mutable_uids()->Assign(uids.begin(), uids.end());
    const std::string text = message.SerializeAsString();
    {
      const std::lock_guard lock(mutex_);
      jobs_ = text;
    }
    for (const std::shared_ptr<Line>& line : Lines()) line->Tell(text);
  }

  void Close(const std::string& cluster, const Status& why) {
    if (const auto line = LineOf(cluster)) line->Close(why);
  }

  std::string ProofHomeOf(const std::string& cluster) const {
    const auto line = LineOf(cluster);
    return line ? line->hello().proof_home() : "";
  }

  std::map<std::string, std::string> Connected() const {
    const std::lock_guard lock(mutex_);
    std::map<std::string, std::string> connected;
    for (const auto& [name, transport] : transports_) {
      if (const auto line = transport->line()) connected[name] = line->hello().gateway();
    }
    return connected;
  }

  // grpc::CallbackGenericService
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    const std::string method = context->method();
    const std::string service = "/swarmjob.v1.Satellites/";
    const Caller caller = enrol::CallerOf(*context);
    if (method == service + "Serve") return Serve(context, caller);
    if (method == enrol::kProveMethod && prove_) {
      return enrol::AnswerLater([this, caller](const std::string& text, enrol::Answered done) {
        enrol::AnswerProve(prove_, caller, text, std::move(done));
      });
    }
    if (machines_ != nullptr && enrol::IsJoinMethod(method)) {
      return enrol::AnswerLater(
          [this, caller, method](const std::string& text, enrol::Answered done) {
            enrol::AnswerJoin(*machines_, method, caller, text, std::move(done));
          });
    }
    return enrol::AnswerOnce(
        [this, caller, what = method.substr(std::min(service.size(), method.size()))](
            const std::string& text) { return Answer(what, caller, text); });
  }

 private:
  Result<std::string> Answer(const std::string& method, const Caller& caller,
                             const std::string& text) {
    if (method == "Enrol") {
      pb::EnrolSatelliteRequest request;
      if (!request.ParseFromString(text)) return InvalidArgument("the request cannot be read");
      ASSIGN_OR_RETURN(
          const EnrolReply reply,
          reception_->Enrol(caller, {request.token_id(), request.secret(), request.request()}));
      return ToText(reply);
    }
    if (method == "Renew") {
      pb::RenewSatelliteRequest request;
      if (!request.ParseFromString(text)) return InvalidArgument("the request cannot be read");
      ASSIGN_OR_RETURN(const EnrolReply reply, reception_->Renew(caller, request.request()));
      return ToText(reply);
    }
    return Unimplemented("home has no method " + method);
  }

  grpc::ServerGenericBidiReactor* Serve(grpc::GenericCallbackServerContext* context,
                                        const Caller& caller) {
    const auto stream = std::make_shared<AcceptedByteStream>(context);
    const auto cluster = reception_->ClusterOf(caller);
    if (!cluster.ok()) {
      LOG_WARN("{} may not serve as a satellite: {}", caller.address, cluster.status().ToString());
      stream->Start({[](const std::string&, const std::function<void()>&) {},
                     [](const std::shared_ptr<ByteStream>&, const Status&) {}});
      stream->Close(cluster.status());
      return stream.get();
    }
    const auto line = std::make_shared<Line>(stream);
    std::string jobs;
    std::shared_ptr<SatelliteTransport> transport;
    bool is_new = false;
    {
      const std::lock_guard lock(mutex_);
      jobs = jobs_;
      auto& known = transports_[*cluster];
      is_new = known == nullptr;
      if (is_new) known = std::make_shared<SatelliteTransport>(*cluster);
      transport = known;
    }
    line->Start(leader_term_, jobs, [transport, line = std::weak_ptr(line), name = *cluster] {
      if (transport->Leave(line.lock())) LOG_WARN("the satellite of cluster {} is gone", name);
    });
    LOG_INFO("the satellite of cluster {} has come from {}", *cluster, caller.address);
    if (const auto before = transport->Use(line)) {
      before->Close(Status(StatusCode::kAborted, "another satellite of this cluster has come"));
    }
    if (line->ended()) transport->Leave(line);  // before it was used
    if (is_new) {
      reception_->OnCluster(*cluster, transport,
                            [transport] { return transport->line() != nullptr; });
    }
    return stream.get();
  }

  /// Null: no satellite of this cluster is connected.
  std::shared_ptr<Line> LineOf(const std::string& cluster) const {
    const std::lock_guard lock(mutex_);
    const auto found = transports_.find(cluster);
    return found == transports_.end() ? nullptr : found->second->line();
  }

  std::vector<std::shared_ptr<Line>> Lines() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Line>> lines;
    for (const auto& [name, transport] : transports_) {
      if (auto line = transport->line()) lines.push_back(std::move(line));
    }
    return lines;
  }

  const std::uint64_t leader_term_;
  const enrol::Prove prove_;
  enrol::JoinDesk* const machines_;
  Reception* const reception_;
  mutable std::mutex mutex_;
  std::string jobs_;                                                       // guarded; encoded
  std::map<std::string, std::shared_ptr<SatelliteTransport>> transports_;  // guarded; by cluster
  std::unique_ptr<grpc::Server> server_;
};

HomeDoor::HomeDoor(std::unique_ptr<Service> service, std::string address)
    : service_(std::move(service)), address_(std::move(address)) {}
HomeDoor::~HomeDoor() = default;

Result<std::unique_ptr<HomeDoor>> HomeDoor::Start(const HomeDoorOptions& options,
                                                  Reception* reception) {
  net::PrepareProcess();
  auto service = std::make_unique<Service>(options, reception);
  ASSIGN_OR_RETURN(const int port, service->Listen(options));
  const std::string host = options.listen.substr(0, options.listen.rfind(':') + 1);
  return std::unique_ptr<HomeDoor>(new HomeDoor(std::move(service), host + std::to_string(port)));
}

void HomeDoor::Close(const std::string& cluster, const Status& why) {
  service_->Close(cluster, why);
}
std::string HomeDoor::ProofHomeOf(const std::string& cluster) const {
  return service_->ProofHomeOf(cluster);
}
std::map<std::string, std::string> HomeDoor::Connected() const { return service_->Connected(); }
void HomeDoor::TellJobs(const std::set<std::string>& uids) { service_->TellJobs(uids); }

}  // namespace swarm::satellite

#include "worker/enrol/service/server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <functional>
#include <map>
#include <utility>

#include "swarmjob/v1/enrolment.pb.h"
#include "worker/enrol/service/bytes.h"
#include "worker/enrol/service/home_channel.h"
#include "worker/enrol/service/join.h"
#include "worker/enrol/service/question.h"
#include "worker/net/grpc/process.h"

namespace swarm::enrol {
namespace {

namespace pb = ::swarmjob::v1;

/// Answers one call.
using Method = std::function<Result<std::string>(const Caller& caller, const std::string& request)>;

/// A caller does not hold a connection for longer: it has one short call to make.
constexpr int kConnectionMilliseconds = 30000;
constexpr int kHandshakeMilliseconds = 10000;

template <typename Request>
Result<Request> Parse(const std::string& bytes) {
  Request request;
  if (!request.ParseFromString(bytes)) return InvalidArgument("the request cannot be read");
  return request;
}

Duration SecondsOf(double seconds) {
  constexpr double kLongest = 10.0 * 365 * 24 * 3600;
  return FromSeconds(seconds > 0 ? std::min(seconds, kLongest) : 0);
}

Result<std::string> Enrol(Desk& desk, const Caller& caller, const std::string& bytes) {
  ASSIGN_OR_RETURN(const EnrolRequest request, ReadEnrolRequest(bytes));
  ASSIGN_OR_RETURN(const EnrolReply reply, desk.Enrol(caller, request));
  return ToText(reply);
}

Result<std::string> Refresh(Desk& desk, const Caller& caller, const std::string& bytes) {
  ASSIGN_OR_RETURN(const std::string request, ReadRefreshRequest(bytes));
  ASSIGN_OR_RETURN(const RefreshReply reply, desk.Refresh(caller, request));
  return ToText(reply);
}

Result<std::string> CreateToken(Desk& desk, const Caller& caller, const std::string& bytes) {
  ASSIGN_OR_RETURN(const auto request, Parse<pb::CreateTokenRequest>(bytes));
  pb::CreateTokenReply answer;
  ASSIGN_OR_RETURN(
      *answer.mutable_token(),
      desk.CreateToken(caller, {SecondsOf(request.lifetime_seconds()), request.uses()}));
  return answer.SerializeAsString();
}

Result<std::string> ListTokens(Desk& desk, const Caller& caller, const std::string& bytes) {
  RETURN_IF_ERROR(Parse<pb::ListTokensRequest>(bytes).status());
  ASSIGN_OR_RETURN(const std::vector<TokenStatus> tokens, desk.ListTokens(caller));
  pb::ListTokensReply answer;
  for (const TokenStatus& token : tokens) {
    pb::TokenStatus* const each = answer.add_tokens();
    each->set_id(token.id);
    each->set_state(static_cast<pb::TokenStatus::State>(token.state));
    each->set_uses_left(token.uses_left);
    each->set_seconds_left(ToSeconds(token.time_left));
    for (const std::string& worker : token.workers) each->add_workers(worker);
  }
  return answer.SerializeAsString();
}

Result<std::string> Revoke(Desk& desk, const Caller& caller, const std::string& bytes) {
  ASSIGN_OR_RETURN(const auto request, Parse<pb::RevokeRequest>(bytes));
  ASSIGN_OR_RETURN(const std::vector<std::string> workers, desk.Revoke(caller, request.name()));
  pb::RevokeReply answer;
  for (const std::string& worker : workers) answer.add_workers(worker);
  return answer.SerializeAsString();
}

}  // namespace

class Server::Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(Desk* desk) {
    const auto add = [&](const std::string& name, auto* answer) {
      methods_["/swarmjob.v1.Enrolment/" + name] = [desk, answer](const Caller& caller,
                                                                  const std::string& request) {
        return answer(*desk, caller, request);
      };
    };
    add("Enrol", Enrol);
    add("Refresh", Refresh);
    add("CreateToken", CreateToken);
    add("ListTokens", ListTokens);
    add("Revoke", Revoke);
  }
  ~Service() override {
    if (server_) server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  }

  Result<int> Listen(const ServerOptions& options) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(options.listen,
                             MakeHomeCredentials(options.authority, options.identity), &port);
    builder.RegisterCallbackGenericService(this);
    builder.SetMaxReceiveMessageSize(kMessageBytesMax);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 2);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, kConnectionMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, 1000);
    server_ = builder.BuildAndStart();
    if (!server_ || port == 0) return Unavailable("cannot listen on " + options.listen);
    return port;
  }

  // grpc::CallbackGenericService
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    const auto method = methods_.find(context->method());
    if (method == methods_.end()) {
      return AnswerOnce([](const std::string&) -> Result<std::string> {
        return Unimplemented("the enrolment service has no such method");
      });
    }
    return AnswerOnce([caller = CallerOf(*context), &method = method->second](
                          const std::string& request) { return method(caller, request); });
  }

 private:
  std::map<std::string, Method> methods_;
  std::unique_ptr<grpc::Server> server_;
};

Server::Server(std::unique_ptr<Service> service, std::string address)
    : service_(std::move(service)), address_(std::move(address)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Desk* desk) {
  net::PrepareProcess();
  auto service = std::make_unique<Service>(desk);
  ASSIGN_OR_RETURN(const int port, service->Listen(options));
  const std::string host = options.listen.substr(0, options.listen.rfind(':') + 1);
  return std::unique_ptr<Server>(new Server(std::move(service), host + std::to_string(port)));
}

}  // namespace swarm::enrol

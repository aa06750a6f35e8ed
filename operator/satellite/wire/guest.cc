#include "operator/satellite/wire/guest.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/log.h"
#include "operator/satellite/wire/byte_stream.h"
#include "swarmjob/v1/satellite.pb.h"
#include "worker/enrol/service/bytes.h"
#include "worker/enrol/service/home_channel.h"
#include "worker/net/grpc/process.h"
#include "worker/net/grpc/status.h"

namespace swarm::satellite {
namespace {

namespace pb = ::swarmjob::v1;

constexpr Duration kQuestionLimit = std::chrono::seconds(10);
/// Each has a thread. Watches are among them: of pods and nodes, for each namespace.
constexpr std::size_t kCallsMax = 256;
constexpr std::size_t kPieceBytesMax = std::size_t{1} << 20;
/// What home may say in a request. Credentials are the satellite's own.
constexpr const char* kHeadersOfHome[] = {"accept", "content-type", "user-agent"};

std::shared_ptr<grpc::Channel> ChannelTo(const HomeAddress& home,
                                         const std::optional<identity::KeyPair>& identity,
                                         const std::shared_ptr<enrol::HomeSeen>& seen) {
  net::PrepareProcess();
  return enrol::MakeHomeChannel({home.address, home.fingerprint, kMessageBytesMax}, identity, seen);
}

/// Why there is no home at the address, where the handshake has told.
Status Explained(const Status& status, const HomeAddress& home, const enrol::HomeSeen& seen) {
  const Status refused = seen.Refused();
  return refused.ok() ? status.WithContext("home at " + home.address)
                      : refused.WithContext("the server at " + home.address + " is not home");
}

Result<EnrolReply> Ask(const HomeAddress& home, const std::optional<identity::KeyPair>& identity,
                       const std::string& method, const std::string& request) {
  const auto deadline =
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::system_clock::duration>(kQuestionLimit);
  const grpc::ByteBuffer sent = enrol::BytesOf(request);
  grpc::ByteBuffer received;
  std::shared_ptr<enrol::HomeSeen> seen;
  const auto call = [&](const std::shared_ptr<enrol::HomeSeen>& notes) {
    grpc::GenericStub stub(ChannelTo(home, identity, notes));
    grpc::ClientContext context;
    context.set_deadline(deadline);
    std::promise<grpc::Status> ended;
    stub.UnaryCall(&context, "/swarmjob.v1.Satellites/" + method, grpc::StubOptions(), &sent,
                   &received,
                   [&ended](grpc::Status status) { ended.set_value(std::move(status)); });
    return net::FromGrpc(ended.get_future().get());
  };
  const Status status = enrol::TryConnections(call, &seen);
  if (!status.ok()) return Explained(status, home, *seen);
  pb::EnrolSatelliteReply reply;
  if (!reply.ParseFromString(enrol::TextOf(received)))
    return DataLoss("home's answer cannot be read");
  return EnrolReply{reply.cluster(), reply.certificate(),
                    std::chrono::seconds(reply.validity_seconds())};
}

/// What the API server would say to a client without the right.
std::string RefusalBody(const Status& why) {
  return nlohmann::json{{"kind", "Status"},      {"apiVersion", "v1"},       {"status", "Failure"},
                        {"reason", "Forbidden"}, {"message", why.message()}, {"code", 403}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

kube::HttpRequest RequestOf(const pb::SatelliteCall& call) {
  kube::HttpRequest request{
      .method = call.method(), .target = call.target(), .headers = {}, .body = call.body()};
  for (const pb::SatelliteHeader& header : call.headers()) {
    if (std::ranges::find(kHeadersOfHome, header.name()) != std::end(kHeadersOfHome)) {
      request.headers[header.name()] = header.value();
    }
  }
  return request;
}

/// One connection to home.
class Guest {
 public:
  explicit Guest(const GuestOptions& options) : options_(options) {}

  Status Serve(const std::stop_token& stop) {
    std::shared_ptr<enrol::HomeSeen> seen;
    const auto call = [&](const std::shared_ptr<enrol::HomeSeen>& notes) {
      return ServeOnce(notes, stop);
    };
    const Status why = enrol::TryConnections(call, &seen);
    return Explained(why, options_.home, *seen);
  }

 private:
  Status ServeOnce(const std::shared_ptr<enrol::HomeSeen>& seen, const std::stop_token& stop) {
    std::promise<std::pair<std::shared_ptr<ByteStream>, Status>> ended;
    {
      const std::lock_guard lock(mutex_);  // the first message waits for stream_
      stream_ = DialledByteStream::Dial(
          ChannelTo(options_.home, options_.identity, seen), "/swarmjob.v1.Satellites/Serve",
          {[this](const std::string& text, const std::function<void()>& resume) {
             OnMessage(text);
             resume();
           },
           [&ended](std::shared_ptr<ByteStream> ends, const Status& why) {
             ended.set_value({std::move(ends), why});
           }});
    }
    pb::FromSatellite hello;
    hello.mutable_hello()->set_proof_home(options_.proof_home);
    hello.mutable_hello()->set_gateway(options_.gateway);
    Send(hello);
    const std::stop_callback closes(stop,
                                    [this] { stream()->Close(Cancelled("the satellite ends")); });
    const auto [ends, why] = ended.get_future().get();
    StopCalls();
    return why;
  }

  struct Call {
    std::atomic<bool> done = false;
    std::jthread thread;
  };

  std::shared_ptr<ByteStream> stream() {
    const std::lock_guard lock(mutex_);
    return stream_;
  }

  void OnMessage(const std::string& text) {
    pb::ToSatellite message;
    if (!message.ParseFromString(text)) {
      return stream()->Close(InvalidArgument("the message cannot be read"));
    }
    if (message.has_welcome()) {
      const Status followed = options_.on_welcome(message.welcome().leader_term());
      if (!followed.ok()) stream()->Close(followed);
    } else if (message.has_jobs()) {
      options_.on_jobs({message.jobs().uids().begin(), message.jobs().uids().end()});
    } else if (message.has_cancel()) {
      const std::lock_guard lock(mutex_);
      const auto call = calls_.find(message.cancel().id());
      if (call != calls_.end()) call->second.thread.request_stop();
    } else if (message.has_call()) {
      Begin(std::move(*message.mutable_call()));
    }
  }

  void Begin(pb::SatelliteCall call) {
    const std::uint64_t id = call.id();
    const std::lock_guard lock(mutex_);
    std::erase_if(calls_, [](const auto& each) { return each.second.done.load(); });
    if (calls_.size() >= kCallsMax || calls_.contains(id)) {
      return stream_->Close(ResourceExhausted("home has too many requests under way"));
    }
    Call& begun = calls_[id];
    begun.thread = std::jthread([this, &begun, call = std::move(call)](std::stop_token stop) {
      pthread_setname_np(pthread_self(), "home's call");
      CarryOut(call, stop);
      begun.done = true;
    });
  }

  void CarryOut(const pb::SatelliteCall& call, std::stop_token stop) {
    const kube::HttpRequest request = RequestOf(call);
    const Status allowed = options_.check(request);
    if (!allowed.ok()) {
      LOG_WARN("refused to home: {}", allowed.message());
      kube::HttpHead head{403, {{"content-type", "application/json"}}};
      SendHead(call.id(), head);
      SendBody(call.id(), RefusalBody(allowed));
      return SendEnd(call.id(), Status());
    }
    bool refused = false;
    Status ended = Try(call.id(), request, stop, &refused);
    if (refused) ended = Try(call.id(), request, stop, nullptr);
    SendEnd(call.id(), ended);
  }

  /// With `refused`, an answer of 401 is not passed on: it sets the flag, and the credentials are
  /// read anew.
  Status Try(std::uint64_t id, kube::HttpRequest request, std::stop_token stop, bool* refused) {
    constexpr int kUnauthorized = 401;
    if (options_.credentials) {
      ASSIGN_OR_RETURN(const std::string authorization, options_.credentials->Authorization());
      if (!authorization.empty()) request.headers["authorization"] = authorization;
    }
    return options_.transport->Stream(
        request, {},
        {[&](const kube::HttpHead& head) {
           if (head.status == kUnauthorized && options_.credentials) {
             options_.credentials->OnRefused();
             if (refused != nullptr) {
               *refused = true;
               return false;
             }
           }
           return SendHead(id, head);
         },
         [&](std::string_view bytes) {
           for (; !bytes.empty(); bytes.remove_prefix(std::min(kPieceBytesMax, bytes.size()))) {
             if (!SendBody(id, bytes.substr(0, kPieceBytesMax))) return false;
           }
           return true;
         }},
        stop);
  }

  /// False: the connection has ended.
  bool Send(const pb::FromSatellite& message) {
    return stream()->Send(message.SerializeAsString(), ByteStream::WhenFull::kWait).ok();
  }
  bool SendHead(std::uint64_t id, const kube::HttpHead& head) {
    pb::FromSatellite message;
    message.mutable_head()->set_id(id);
    message.mutable_head()->set_status(head.status);
    for (const auto& [name, value] : head.headers) {
      pb::SatelliteHeader& header = *message.mutable_head()->add_headers();
      header.set_name(name);
      header.set_value(value);
    }
    return Send(message);
  }
  bool SendBody(std::uint64_t id, std::string_view bytes) {
    pb::FromSatellite message;
    message.mutable_body()->set_id(id);
    message.mutable_body()->set_bytes(std::string(bytes));
    return Send(message);
  }
  void SendEnd(std::uint64_t id, const Status& status) {
    pb::FromSatellite message;
    message.mutable_end()->set_id(id);
    message.mutable_end()->set_code(static_cast<int>(status.code()));
    message.mutable_end()->set_message(status.message());
    Send(message);
  }

  /// After the last message.
  void StopCalls() {
    std::map<std::uint64_t, Call> calls;
    {
      const std::lock_guard lock(mutex_);
      for (auto& [id, call] : calls_) call.thread.request_stop();
      calls.swap(calls_);
    }
  }

  const GuestOptions& options_;
  std::mutex mutex_;
  std::shared_ptr<ByteStream> stream_;   // guarded
  std::map<std::uint64_t, Call> calls_;  // guarded
};

}  // namespace

Result<EnrolReply> Enrol(const HomeAddress& home, const EnrolRequest& request) {
  pb::EnrolSatelliteRequest message;
  message.set_token_id(request.token_id);
  message.set_secret(request.secret);
  message.set_request(request.request);
  return Ask(home, std::nullopt, "Enrol", message.SerializeAsString());
}

Result<EnrolReply> Renew(const HomeAddress& home, const identity::KeyPair& identity,
                         const std::string& request) {
  pb::RenewSatelliteRequest message;
  message.set_request(request);
  return Ask(home, identity, "Renew", message.SerializeAsString());
}

Status ServeHome(const GuestOptions& options, std::stop_token stop) {
  return Guest(options).Serve(stop);
}

}  // namespace swarm::satellite

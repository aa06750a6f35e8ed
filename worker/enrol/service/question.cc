#include "worker/enrol/service/question.h"

#include <grpc/grpc_security_constants.h>

#include <algorithm>
#include <utility>

#include "worker/enrol/service/bytes.h"
#include "worker/net/grpc/status.h"

namespace swarm::enrol {
namespace {

/// "10.0.0.7" of "ipv4:10.0.0.7:4711", "fd00::7" of "ipv6:%5Bfd00::7%5D:4711".
std::string AddressOf(std::string peer) {
  peer.erase(0, peer.find(':') + 1);
  peer.erase(std::min(peer.rfind(':'), peer.size()));
  if (peer.starts_with("%5B")) peer = peer.substr(3, peer.rfind("%5D") - 3);
  return peer;
}

class Question final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Question(Ask ask) : ask_(std::move(ask)) { StartRead(&bytes_); }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(net::ToGrpc(InvalidArgument("there is no request")));
    // A server that also has streams accepts larger messages.
    if (bytes_.Length() > kMessageBytesMax) {
      return Finish(net::ToGrpc(ResourceExhausted("the request is too large")));
    }
    ask_(TextOf(bytes_), [this](const Result<std::string>& answer) { End(answer); });
  }
  void OnDone() override { delete this; }

 private:
  void End(const Result<std::string>& answer) {
    if (!answer.ok()) return Finish(net::ToGrpc(answer.status()));
    bytes_ = BytesOf(*answer);
    StartWriteAndFinish(&bytes_, grpc::WriteOptions(), grpc::Status::OK);
  }

  const Ask ask_;
  grpc::ByteBuffer bytes_;
};

}  // namespace

Caller CallerOf(const grpc::GenericCallbackServerContext& context) {
  Caller caller{.address = AddressOf(context.peer()), .uris = {}};
  for (const grpc::string_ref& uri :
       context.auth_context()->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    caller.uris.emplace_back(uri.data(), uri.size());
  }
  return caller;
}

grpc::ServerGenericBidiReactor* AnswerOnce(Answer answer) {
  return AnswerLater(
      [answer = std::move(answer)](const std::string& question, const Answered& done) {
        done(answer(question));
      });
}

grpc::ServerGenericBidiReactor* AnswerLater(Ask ask) { return new Question(std::move(ask)); }

}  // namespace swarm::enrol

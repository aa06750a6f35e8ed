// Where two workers that nobody can dial meet. A worker keeps calls waiting here; another one's
// call for it is joined with the latest of them, and each gets the bytes of the other. What passes
// is TLS between the two.
//
// A call is read when the message before it is written at the other end, so a pair holds one
// message for each direction, beside gRPC's windows.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "worker/net/grpc/relay/relay_hello.h"

namespace swarm::net {

/// Thread-safe.
class Relay {
 public:
  /// `may_call`: whether a caller with these URIs in its verified certificate may say this hello.
  using MayCall =
      std::function<Status(const std::vector<std::string>& uris, const RelayHello& hello)>;
  explicit Relay(MayCall may_call);
  /// As Close.
  ~Relay();

  /// Takes a call of kRelayMethod. The reactor goes to gRPC.
  grpc::ServerGenericBidiReactor* Accept(grpc::GenericCallbackServerContext* context);
  /// Asks again who may call, and closes the calls of the others.
  void CheckAgain();
  /// Ends all calls, and later ones at once.
  void Close(const Status& why);
  /// Passed on, in both directions of all pairs.
  std::uint64_t bytes() const;

 private:
  class Call;
  class Calls;
  const std::shared_ptr<Calls> calls_;
};

}  // namespace swarm::net

#include "worker/net/grpc/relay/relay_hello.h"

#include "swarmjob/v1/relay.pb.h"
#include "worker/net/grpc/hello.h"
#include "worker/net/wire/utf8.h"

namespace swarm::net {

std::string EncodeRelayHello(const RelayHello& hello) {
  swarmjob::v1::RelayHello wire;
  wire.set_job(ToUtf8(hello.job));
  wire.set_id(ToUtf8(hello.id.value));
  wire.set_to(ToUtf8(hello.to.value));
  return wire.SerializeAsString();
}

Result<RelayHello> DecodeRelayHello(std::span<const std::byte> bytes) {
  swarmjob::v1::RelayHello wire;
  if (bytes.size() > kHelloBytesMax ||
      !wire.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || wire.id().empty()) {
    return DataLoss("not a hello to a relay");
  }
  return RelayHello{wire.job(), WorkerId(wire.id()), WorkerId(wire.to())};
}

}  // namespace swarm::net

#include "worker/net/grpc/hello.h"

#include "swarmjob/v1/frame.pb.h"
#include "worker/net/wire/utf8.h"

namespace swarm::net {

std::string EncodeHello(const StreamHello& hello) {
  swarmjob::v1::StreamHello wire;
  wire.set_version_min(hello.version_min);
  wire.set_version_max(hello.version_max);
  wire.set_job(ToUtf8(hello.job));
  wire.set_id(ToUtf8(hello.id.value));
  wire.set_instance(hello.incarnation);
  wire.set_lane(static_cast<swarmjob::v1::Lane>(hello.lane));
  wire.set_connection(hello.connection);
  return wire.SerializeAsString();
}

Result<StreamHello> DecodeHello(std::span<const std::byte> bytes) {
  swarmjob::v1::StreamHello wire;
  if (bytes.size() > kHelloBytesMax ||
      !wire.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return DataLoss("not a hello");
  }
  if (!swarmjob::v1::Lane_IsValid(wire.lane()) || wire.id().empty()) {
    return DataLoss("a hello without a lane or an id");
  }
  return StreamHello{wire.version_min(),  wire.version_max(), wire.job(),
                     WorkerId(wire.id()), wire.instance(),    static_cast<Lane>(wire.lane()),
                     wire.connection()};
}

Status CheckJob(const WorkerId& id, const std::string& theirs, const std::string& ours) {
  if (theirs == ours) return Status();
  return PermissionDenied(id.value + " belongs to job \"" + theirs + "\", not to \"" + ours + "\"");
}

Status CheckHello(const StreamHello& theirs, const std::string& job) {
  if (theirs.version_max < kTransportVersionMin || theirs.version_min > kTransportVersionMax) {
    return FailedPrecondition(
        theirs.id.value + " speaks versions " + std::to_string(theirs.version_min) + " to " +
        std::to_string(theirs.version_max) + " of the transport, this program " +
        std::to_string(kTransportVersionMin) + " to " + std::to_string(kTransportVersionMax) +
        "; run equal releases");
  }
  return CheckJob(theirs.id, theirs.job, job);
}

}  // namespace swarm::net

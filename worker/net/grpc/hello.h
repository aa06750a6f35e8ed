// The first message on a stream, in both directions: it names the sender, its job and the versions
// it speaks.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "worker/net/endpoint.h"

namespace swarm::net {

/// The versions of the transport (frames and hello) that this program speaks.
inline constexpr std::uint32_t kTransportVersionMin = 1;
inline constexpr std::uint32_t kTransportVersionMax = 1;
/// No hello is longer.
inline constexpr std::size_t kHelloBytesMax = 4096;

/// swarmjob.v1.StreamHello as a value.
struct StreamHello {
  std::uint32_t version_min = kTransportVersionMin;
  std::uint32_t version_max = kTransportVersionMax;
  std::string job;
  WorkerId id;
  std::uint64_t incarnation = 0;  ///< of the sender: a later process has a larger number
  Lane lane = Lane::kControl;
  std::uint64_t connection = 0;  ///< the dialler's count; both lanes of a connection have the same
};

std::string EncodeHello(const StreamHello& hello);
/// Errors: kDataLoss. Total.
Result<StreamHello> DecodeHello(std::span<const std::byte> bytes);

/// Whether `id`, who says that it belongs to `theirs`, is of the job `ours`.
/// Errors: kPermissionDenied.
Status CheckJob(const WorkerId& id, const std::string& theirs, const std::string& ours);

/// Whether a program of `job` that speaks our versions can talk to the sender of `theirs`.
/// Errors: kFailedPrecondition (no common version), kPermissionDenied (another job).
Status CheckHello(const StreamHello& theirs, const std::string& job);

}  // namespace swarm::net

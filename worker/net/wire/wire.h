// Messages as bytes: protocol::Message ↔ a serialized swarmjob.v1.Header. Pure. Bytes from a peer
// are hostile until these functions have accepted them.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/status.h"
#include "worker/protocol/messages/message.h"

namespace swarm::net {

/// The largest header on the wire; checked before any allocation for it.
inline constexpr std::size_t kHeaderBytesMax = 4u << 20;
/// The most elements that a list in a message may have.
inline constexpr int kMembersMax = 1 << 14;       ///< workers of a job, files of a checkpoint
inline constexpr int kAddressesMax = 64;          ///< of one worker
inline constexpr int kStagesMax = 1 << 12;        ///< hops, groups, stages
inline constexpr int kReportsMax = 1 << 15;       ///< in one Progress
inline constexpr int kMicrobatchesMax = 1 << 20;  ///< claims or contributions in one list
inline constexpr int kStepsMax = 1 << 12;         ///< commit records or steps in one Holding
inline constexpr int kTensorsMax = 1 << 15;       ///< norms in one Reduced

/// Serializes `message`. Text that is not UTF-8 (a file name in a reason, say) gets '?' for each
/// byte outside of ASCII, because protobuf would refuse the whole message. Errors: kInvalidArgument
/// when a list is above its cap, or the whole above kHeaderBytesMax.
Result<std::string> EncodeHeader(const protocol::Message& message);

/// Parses `bytes`. Total: any input gives a message or kDataLoss (not a Header, none of its
/// messages, an enum out of range, a list or the whole above its cap), never a crash.
Result<protocol::Message> DecodeHeader(std::span<const std::byte> bytes);

/// The name of the message's kind, such as "Forward"; for logs.
std::string_view MessageName(const protocol::Message& message);

}  // namespace swarm::net

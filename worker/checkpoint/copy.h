// Copies of a checkpoint in other places.
#pragma once

#include <cstdint>
#include <functional>

#include "base/status.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/storage/storage.h"

namespace swarm::checkpoint {

/// Brings the checkpoint to `to`, file by file and part by part, and the manifest last: the copy is
/// whole from then on. Does nothing where it is whole already. Calls `go_on` before each part; a
/// status that is not ok ends the copy. Returns the bytes that it has written. Errors: kDataLoss (a
/// file is not what was written, or is missing), those of Storage and of `go_on`.
Result<std::uint64_t> CopyCheckpoint(storage::Storage& from, storage::Storage& to,
                                     const CheckpointId& id, const std::function<Status()>& go_on);

}  // namespace swarm::checkpoint

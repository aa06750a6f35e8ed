// Compressed files, piece by piece.
#pragma once

#include <functional>
#include <string_view>

#include "base/status.h"

namespace swarm::data {

enum class Compression { kNone, kGzip, kZstd };

/// That of a file called `name`: by its end, .gz or .zst.
Compression CompressionOf(std::string_view name);

/// Gives the content of a file to `take`, in pieces of at most 1 MiB where it is compressed; a file
/// of several gzip members or zstd frames is their contents, one after the other. Errors:
/// kDataLoss (not such a file, damaged, cut off); the first error of `take`, which ends the call.
Status Decompress(Compression compression, std::string_view content,
                  const std::function<Status(std::string_view piece)>& take);

}  // namespace swarm::data

// The index that Megatron-LM writes beside its token ids: NAME.idx tells how NAME.bin is to be
// read. Of it we need the type of the ids, and that both files are whole; where documents end is
// told by the ids themselves.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "worker/storage/storage.h"

namespace swarm::data {

/// What the first bytes tell, and where the rest is (format of megatron/core, version 1).
struct MegatronIndex {
  static constexpr std::uint64_t kHeaderBytes = 34;

  int width = 0;                ///< bytes of an id: 1, 2, 4 or 8, little endian
  std::uint64_t sequences = 0;  ///< at least 1
  std::uint64_t size = 0;       ///< of the index, in bytes

  std::uint64_t last_length() const { return kHeaderBytes + (sequences - 1) * 4; }
  std::uint64_t last_offset() const { return kHeaderBytes + sequences * 4 + (sequences - 1) * 8; }
};

/// Reads the header of an index of `size` bytes. Errors: kInvalidArgument (no such index, ids that
/// are no integers, no sequences), kDataLoss (it is cut off).
Result<MegatronIndex> ParseMegatronHeader(std::string_view header, std::uint64_t size);

/// The bytes of an id in a file `bin` of bin_size bytes that has an index beside it. Reads three
/// small parts of the index, however long it is. Errors name the file: those of
/// ParseMegatronHeader and Storage, kDataLoss (`bin` has another size than the index tells).
Result<int> ReadMegatronWidth(storage::Storage& storage, const std::string& bin,
                              std::uint64_t bin_size);

/// The name of the index of "a/b.bin": "a/b.idx".
std::string MegatronIndexOf(const std::string& bin);

}  // namespace swarm::data

#include "worker/data/megatron/index.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace swarm::data {
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);

std::uint64_t NumberAt(std::string_view bytes, std::size_t at, std::size_t width) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data() + at, width);
  return number;
}

// By the number of the type: u8, i8, i16, i32, i64, f64, f32, u16. 0: ids cannot be such.
int WidthOf(std::uint64_t type) {
  constexpr int kWidths[] = {0, 1, 1, 2, 4, 8, 0, 0, 2};
  return type < std::size(kWidths) ? kWidths[type] : 0;
}

}  // namespace

Result<MegatronIndex> ParseMegatronHeader(std::string_view header, std::uint64_t size) {
  if (header.size() < MegatronIndex::kHeaderBytes || !header.starts_with(kMagic)) {
    return InvalidArgument("is no index of Megatron's; remove it if the ids are as tokenType says");
  }
  const std::uint64_t version = NumberAt(header, 9, 8);
  if (version != 1) {
    return InvalidArgument("is an index of version " + std::to_string(version) +
                           "; only version 1 is known");
  }
  MegatronIndex index{.width = WidthOf(NumberAt(header, 17, 1)),
                      .sequences = NumberAt(header, 18, 8),
                      .size = size};
  const std::uint64_t documents = NumberAt(header, 26, 8);
  if (index.width == 0) {
    return InvalidArgument("says that the ids are of type " +
                           std::to_string(NumberAt(header, 17, 1)) + ", which is no integer");
  }
  if (index.sequences == 0) return InvalidArgument("has no sequences");
  // Lengths, offsets, and the sequences with which documents begin. Sums cannot overflow.
  const std::uint64_t rest = size - MegatronIndex::kHeaderBytes;
  if (index.sequences > rest / 12 || documents > (rest - index.sequences * 12) / 8) {
    return DataLoss("is cut off: " + std::to_string(index.sequences) + " sequences and " +
                    std::to_string(documents) + " documents do not fit into its " +
                    std::to_string(size) + " bytes");
  }
  return index;
}

std::string MegatronIndexOf(const std::string& bin) {
  return bin.substr(0, bin.size() - std::string_view(".bin").size()) + ".idx";
}

Result<int> ReadMegatronWidth(storage::Storage& storage, const std::string& bin,
                              std::uint64_t bin_size) {
  const std::string name = MegatronIndexOf(bin);
  ASSIGN_OR_RETURN(const std::uint64_t size, storage.Size(name));
  const std::uint64_t header_bytes = std::min(size, MegatronIndex::kHeaderBytes);
  ASSIGN_OR_RETURN(const Bytes header, storage.ReadRange(name, 0, header_bytes));
  const auto index = ParseMegatronHeader(header.text(), size);
  if (!index.ok()) return Status(index.status().code(), storage.Describe(name) + " " +
                                                            index.status().message());
  ASSIGN_OR_RETURN(const Bytes length, storage.ReadRange(name, index->last_length(), 4));
  ASSIGN_OR_RETURN(const Bytes offset, storage.ReadRange(name, index->last_offset(), 8));
  const std::uint64_t end = NumberAt(offset.text(), 0, 8) +
                            NumberAt(length.text(), 0, 4) * static_cast<std::uint64_t>(index->width);
  if (end == bin_size) return index->width;
  return DataLoss(storage.Describe(bin) + " has " + std::to_string(bin_size) +
                  " bytes, and its index tells of " + std::to_string(end) +
                  "; one of them is cut off, or of other data");
}

}  // namespace swarm::data

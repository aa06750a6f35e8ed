// The safetensors format, compatible with Hugging Face's: 8 bytes little endian (size of the
// header), a JSON header padded with spaces to a multiple of 8, then the tensors without gaps:
//   {"__metadata__": {"k": "v"}, "NAME": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
//
// Reading is safe on bytes from anywhere: sizes, offsets, nesting and names are checked before use.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "worker/checkpoint/tensor.h"

namespace swarm::checkpoint {

/// The largest header that is read or written (Hugging Face's limit).
inline constexpr std::uint64_t kSafetensorsHeaderMax = 100'000'000;

using Metadata = std::map<std::string, std::string>;

/// The header of a file: its tensors and their places.
struct SafetensorsHeader {
  struct Entry {
    std::optional<ElementType> type;  ///< none: a dtype of the format that we do not compute with
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0;  ///< from the first byte after the header
    std::uint64_t end = 0;
  };
  Metadata metadata;
  std::map<std::string, Entry> tensors;
};

/// Reads the JSON of a header (without the 8 bytes) of a file with `data_bytes` bytes after it.
/// Errors: kDataLoss, for any violation of the format: other JSON, a name twice, an unknown dtype,
/// offsets that overlap, leave gaps, do not fit the shape or do not end with the file.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, std::uint64_t data_bytes);

/// A file in memory. Its tensors are views that share the memory; a tensor that lies unaligned for
/// its type is copied. Copies are cheap. Safe to read from any thread.
class SafetensorsFile {
 public:
  SafetensorsFile(SafetensorsHeader header, Bytes data);

  const Metadata& metadata() const { return header_->metadata; }
  /// Sorted.
  std::vector<std::string> names() const;
  bool Contains(const std::string& name) const { return header_->tensors.contains(name); }
  /// Errors: kNotFound; kUnimplemented (a dtype other than F32, BF16, F16, I64).
  Result<NamedTensor> Lookup(const std::string& name) const;

 private:
  std::shared_ptr<const SafetensorsHeader> header_;
  Bytes data_;
};

/// Errors: kDataLoss, with the problem; the caller adds the file's name.
Result<SafetensorsFile> ReadSafetensors(const Bytes& file);

/// A file before its data: the header, with its size, and the order of the tensors behind it.
struct SafetensorsPlan {
  Bytes header;
  std::vector<const NamedTensor*> order;  ///< of those that were given
};

/// Takes tensors that are elsewhere, too. Errors: as EncodeSafetensors.
Result<SafetensorsPlan> PlanSafetensors(std::span<const NamedTensor> tensors,
                                        const Metadata& metadata = {});

/// The file as pieces that share the tensors' memory: the header, then the tensors, largest
/// elements first (so that each is aligned), else in the given order. The same input gives the same
/// bytes. Errors: kInvalidArgument (a name twice or reserved or not UTF-8, data that does not fit
/// the shape).
Result<std::vector<Bytes>> EncodeSafetensors(std::span<const NamedTensor> tensors,
                                             const Metadata& metadata = {});

/// The pieces of EncodeSafetensors, copied into one.
Result<Bytes> WriteSafetensors(std::span<const NamedTensor> tensors, const Metadata& metadata = {});

}  // namespace swarm::checkpoint

// A named tensor as plain memory: the currency of checkpoints and stages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"

namespace swarm::checkpoint {

enum class ElementType : std::uint8_t { kF32, kBF16, kF16, kI64 };

/// Elements that are not in the memory of the host.
class Elsewhere {
 public:
  virtual ~Elsewhere() = default;
  /// Copies the bytes from `offset` on, and waits for them. From any thread, one at a time. Errors:
  /// kResourceExhausted, kUnavailable (the device that has them fails).
  virtual Status Read(std::uint64_t offset, std::span<std::byte> to) const = 0;
  /// All of them as memory that never changes and is no burden: the kernel brings and drops its
  /// pages. None: they must be copied to be kept.
  virtual std::optional<Bytes> Map() const { return {}; }
  /// The digest of so many bytes from `offset` on, where it is known without bringing them here.
  /// From any thread, one at a time.
  virtual std::optional<Digest> KnownDigest(std::uint64_t offset, std::uint64_t size) const {
    (void)offset, (void)size;
    return {};
  }
  /// The digests of so many pieces of that size, the first at `offset`, will be asked for, of all
  /// tensors of a state before that of any: they may be computed together.
  virtual void ExpectPieces(std::uint64_t offset, std::uint64_t size, std::uint64_t pieces) const {
    (void)offset, (void)size, (void)pieces;
  }
};

/// Elements in row-major order, little endian. Invariant: data.size() is the product of the shape
/// times the size of an element; or `data` is empty, and `elsewhere` has them. Only a stage gives
/// tensors that are elsewhere; what does not say that it takes them needs `data`.
struct NamedTensor {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<std::int64_t> shape;
  Bytes data;
  std::shared_ptr<const Elsewhere> elsewhere = nullptr;
};

/// Bytes of the elements, wherever they are. Requires the invariant.
std::uint64_t SizeOf(const NamedTensor& tensor);
/// Copies the bytes from `offset` on, wherever they are. Errors: as Elsewhere::Read.
Status ReadBytes(const NamedTensor& tensor, std::uint64_t offset, std::span<std::byte> to);
/// The tensor with elements that stay: as Elsewhere::Map has them, or else in memory of its own,
/// whose bytes are added to `copied`. Errors: as Elsewhere::Read.
Result<NamedTensor> Keep(const NamedTensor& tensor, std::uint64_t* copied = nullptr);

/// Finds a tensor by name; kNotFound if there is none.
using TensorLookup = std::function<Result<NamedTensor>(const std::string& name)>;

/// Bytes of one element.
std::size_t ElementBytes(ElementType type);

/// The product of `shape` (1 for a scalar's empty shape) times `element_bytes`. Errors:
/// kInvalidArgument (a negative dimension, or more than 2^63 - 1 bytes).
Result<std::uint64_t> ComputeTensorBytes(const std::vector<std::int64_t>& shape,
                                         std::size_t element_bytes);

/// The same tensor with float32 elements; shares the memory when they are so already. Exact: every
/// bf16 and f16 value is a float32 value. Errors: kInvalidArgument (integers, or data of a size
/// that does not fit the shape), naming the tensor.
Result<NamedTensor> ConvertToFloat32(const NamedTensor& tensor);

/// The same of float32 elements in bfloat16, rounded to the nearest, a tie to the even one; a NaN
/// stays one. Requires float32.
NamedTensor RoundToBFloat16(const NamedTensor& tensor);

}  // namespace swarm::checkpoint

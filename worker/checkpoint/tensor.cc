#include "worker/checkpoint/tensor.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace swarm::checkpoint {
namespace {

std::uint32_t WidenBF16(std::uint16_t bits) { return static_cast<std::uint32_t>(bits) << 16; }

// IEEE binary16 to binary32. A subnormal is its fraction times 2^-24, which float32 holds exactly.
std::uint32_t WidenF16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1f) return sign | 0x7f800000u | (fraction << 13);
  if (exponent != 0) return sign | ((exponent + 112) << 23) | (fraction << 13);
  return sign | std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1.0p-24f);
}

Bytes Widen(const Bytes& data, std::uint32_t (*widen)(std::uint16_t)) {
  const std::size_t count = data.size() / 2;
  return Bytes::Make(count * 4, [&](std::byte* out) {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint16_t narrow;
      std::memcpy(&narrow, data.data() + 2 * i, 2);
      const std::uint32_t wide = widen(narrow);
      std::memcpy(out + 4 * i, &wide, 4);
    }
  });
}

}  // namespace

std::uint64_t SizeOf(const NamedTensor& tensor) {
  if (tensor.elsewhere == nullptr) return tensor.data.size();
  const auto bytes = ComputeTensorBytes(tensor.shape, ElementBytes(tensor.type));
  SWARM_CHECK(bytes.ok(), bytes.status().message());
  return *bytes;
}

Status ReadBytes(const NamedTensor& tensor, std::uint64_t offset, std::span<std::byte> to) {
  if (tensor.elsewhere != nullptr) return tensor.elsewhere->Read(offset, to);
  if (!to.empty()) std::memcpy(to.data(), tensor.data.data() + offset, to.size());
  return {};
}

Result<NamedTensor> Keep(const NamedTensor& tensor, std::uint64_t* copied) {
  NamedTensor copy{tensor.name, tensor.type, tensor.shape, {}};
  if (tensor.elsewhere != nullptr) {
    if (std::optional<Bytes> mapped = tensor.elsewhere->Map()) {
      copy.data = *std::move(mapped);
      return copy;
    }
  }
  Status status;
  const std::uint64_t size = SizeOf(tensor);
  copy.data = Bytes::Make(size, [&](std::byte* to) { status = ReadBytes(tensor, 0, {to, size}); });
  if (!status.ok()) return status.WithContext(tensor.name);
  if (copied != nullptr) *copied += size;
  return copy;
}

std::size_t ElementBytes(ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return 4;
    case ElementType::kBF16:
      return 2;
    case ElementType::kF16:
      return 2;
    case ElementType::kI64:
      return 8;
  }
  SWARM_CHECK(false, "an element type without a size");
}

Result<std::uint64_t> ComputeTensorBytes(const std::vector<std::int64_t>& shape,
                                         std::size_t element_bytes) {
  constexpr auto kLimit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return InvalidArgument("a dimension of a shape is negative");
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::uint64_t bytes = element_bytes;
  for (const std::int64_t dimension : shape) {
    if (static_cast<std::uint64_t>(dimension) > kLimit / bytes) {
      return InvalidArgument("a shape has more elements than memory can hold");
    }
    bytes *= static_cast<std::uint64_t>(dimension);
  }
  return bytes;
}

Result<NamedTensor> ConvertToFloat32(const NamedTensor& tensor) {
  const auto bytes = ComputeTensorBytes(tensor.shape, ElementBytes(tensor.type));
  if (!bytes.ok()) return bytes.status().WithContext("tensor " + tensor.name);
  if (*bytes != tensor.data.size()) {
    return InvalidArgument("tensor " + tensor.name + ": " + std::to_string(tensor.data.size()) +
                           " bytes, its shape needs " + std::to_string(*bytes));
  }
  NamedTensor converted = tensor;
  converted.type = ElementType::kF32;
  switch (tensor.type) {
    case ElementType::kF32:
      return converted;
    case ElementType::kBF16:
      converted.data = Widen(tensor.data, WidenBF16);
      return converted;
    case ElementType::kF16:
      converted.data = Widen(tensor.data, WidenF16);
      return converted;
    case ElementType::kI64:
      break;
  }
  return InvalidArgument("tensor " + tensor.name + " holds integers where weights are expected");
}

NamedTensor RoundToBFloat16(const NamedTensor& tensor) {
  SWARM_CHECK(tensor.type == ElementType::kF32, "RoundToBFloat16: not float32");
  const std::size_t count = tensor.data.size() / 4;
  NamedTensor rounded{tensor.name, ElementType::kBF16, tensor.shape, {}};
  rounded.data = Bytes::Make(count * 2, [&](std::byte* out) {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t wide;
      std::memcpy(&wide, tensor.data.data() + 4 * i, 4);
      const bool nan = (wide & 0x7fffffffu) > 0x7f800000u;
      // Half of the last kept place, less one where that place is even.
      const std::uint32_t up = nan ? 0 : 0x7fffu + ((wide >> 16) & 1);
      const auto narrow = static_cast<std::uint16_t>((wide + up) >> 16 | (nan ? 0x40u : 0u));
      std::memcpy(out + 2 * i, &narrow, 2);
    }
  });
  return rounded;
}

}  // namespace swarm::checkpoint

#include "worker/codec/blocks/block_codes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "worker/codec/blocks/block_kernels.h"
#include "worker/codec/blocks/block_scale.h"

namespace swarm::codec {
namespace {

constexpr std::uint32_t kNaN = 0x7fc00000u;

// Seven decades; from one to the next larger the entries double. A decade of n entries has the
// middles of n equal parts of [0.1, 1], times a power of ten; in float32 steps as the map's authors
// compute them, so that entries are equal to the last bit.
std::array<float, 256> MakeDynamicMap() {
  std::vector<float> entries = {0.0f, 1.0f};
  constexpr int kDecades = 7;
  for (int decade = 0; decade < kDecades; ++decade) {
    const int parts = 1 << decade;
    const float step = (1.0f - 0.1f) / static_cast<float>(parts);
    // From the nearer end, as a symmetric linspace does.
    const auto boundary = [&](int i) {
      return i < (parts + 1) / 2 ? 0.1f + step * static_cast<float>(i)
                                 : 1.0f - step * static_cast<float>(parts - i);
    };
    const auto power = static_cast<float>(std::pow(10.0, decade - (kDecades - 1)));
    for (int i = 0; i < parts; ++i) {
      const float middle = (boundary(i) + boundary(i + 1)) / 2.0f;
      entries.push_back(power * middle);
      entries.push_back(-power * middle);
    }
  }
  std::sort(entries.begin(), entries.end());
  std::array<float, 256> map{};
  std::copy(entries.begin(), entries.end(), map.begin());
  return map;
}

NearestEntry MakeNearestEntries() {
  const std::array<float, 256>& map = DynamicMap();
  NearestEntry nearest;
  std::size_t code = 0;
  for (std::size_t i = 0; i < NearestEntry::kSteps; ++i) {
    const float value = -1.0f + static_cast<float>(2 * i) / 65535.0f;
    while (code + 1 < map.size() && 0.5f * (map[code] + map[code + 1]) < value) ++code;
    nearest.code[i] = static_cast<std::uint8_t>(code);
  }
  return nearest;
}

Status Refuse(std::size_t begin, std::size_t end) {
  return InvalidArgument("8-bit codes: numbers " + std::to_string(begin) + " to " +
                         std::to_string(end - 1) +
                         " hold one that is not finite; the training has diverged");
}

bool AreZeros(const std::uint8_t* codes, std::size_t n) {
  return std::all_of(codes, codes + n, [](std::uint8_t code) { return code == 0; });
}

Status NotWritten(std::size_t begin) {
  return DataLoss("8-bit codes: the block at number " + std::to_string(begin) +
                  " is not one that an encoder writes; ask for it again");
}

}  // namespace

const std::array<float, 256>& DynamicMap() {
  static const std::array<float, 256> map = MakeDynamicMap();
  return map;
}

const NearestEntry& NearestEntries() {
  static const NearestEntry nearest = MakeNearestEntries();
  return nearest;
}

Status BlockCodes::Encode(std::span<const float> values, std::byte* out, Isa isa) const {
  const BlockKernels& kernels = KernelsOf(isa);
  std::byte* scale = out;
  auto* codes = reinterpret_cast<std::uint8_t*>(out + Blocks(values.size()) * sizeof(float));
  for (std::size_t begin = 0; begin < values.size(); begin += block_, scale += sizeof(float)) {
    const std::size_t n = std::min(block_, values.size() - begin);
    const float* x = values.data() + begin;
    const std::uint32_t bits = kernels.largest(x, n);
    const bool finite = bits < kInfinity;
    if (!finite && not_finite_ == NotFinite::kRefused) return Refuse(begin, begin + n);
    const float largest = finite ? ScaleOf(bits) : std::bit_cast<float>(kNaN);
    std::memcpy(scale, &largest, sizeof largest);
    if (largest == 0 || !finite) {
      std::memset(codes + begin, 0, n);
    } else if (map_ == CodeMap::kLinear) {
      kernels.quantize_linear(x, n, 127.0f / largest, codes + begin);
    } else {
      kernels.quantize_dynamic(x, n, 1.0f / largest, NearestEntries(), codes + begin);
    }
  }
  return {};
}

Status BlockCodes::CheckSize(std::size_t bytes, std::size_t numbers) const {
  if (bytes == EncodedBytes(numbers)) return {};
  return DataLoss("8-bit codes: " + std::to_string(bytes) + " bytes, expected " +
                  std::to_string(EncodedBytes(numbers)) + "; ask for it again");
}

Status BlockCodes::Decode(std::span<const std::byte> payload, std::span<float> values,
                          Isa isa) const {
  RETURN_IF_ERROR(CheckSize(payload.size(), values.size()));
  const BlockKernels& kernels = KernelsOf(isa);
  const std::byte* scale = payload.data();
  const auto* codes =
      reinterpret_cast<const std::uint8_t*>(payload.data() + Blocks(values.size()) * sizeof(float));
  for (std::size_t begin = 0; begin < values.size(); begin += block_, scale += sizeof(float)) {
    const std::size_t n = std::min(block_, values.size() - begin);
    float* x = values.data() + begin;
    const float largest = ReadScale(scale);
    bool good = IsScale(largest);
    if (not_finite_ == NotFinite::kBlockOfNaNs && std::bit_cast<std::uint32_t>(largest) == kNaN) {
      std::fill_n(x, n, std::numeric_limits<float>::quiet_NaN());
      good = AreZeros(codes + begin, n);
    } else if (good && map_ == CodeMap::kLinear) {
      good = kernels.dequantize_linear(codes + begin, n, largest / 127.0f, x);
    } else if (good) {
      kernels.dequantize_dynamic(codes + begin, n, DynamicMap().data(), largest, x);
    }
    if (!good) return NotWritten(begin);
  }
  return {};
}

Status BlockCodes::Check(std::span<const std::byte> payload, std::size_t numbers) const {
  RETURN_IF_ERROR(CheckSize(payload.size(), numbers));
  constexpr int kNoCode = 0x80;  // -128, of the linear map
  const std::byte* scale = payload.data();
  const auto* codes =
      reinterpret_cast<const std::uint8_t*>(payload.data() + Blocks(numbers) * sizeof(float));
  for (std::size_t begin = 0; begin < numbers; begin += block_, scale += sizeof(float)) {
    const std::size_t n = std::min(block_, numbers - begin);
    const float largest = ReadScale(scale);
    bool good = IsScale(largest);
    if (not_finite_ == NotFinite::kBlockOfNaNs && std::bit_cast<std::uint32_t>(largest) == kNaN) {
      good = AreZeros(codes + begin, n);
    } else if (good && map_ == CodeMap::kLinear) {
      good = std::memchr(codes + begin, kNoCode, n) == nullptr;
    }
    if (!good) return NotWritten(begin);
  }
  return {};
}

}  // namespace swarm::codec

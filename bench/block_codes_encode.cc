// Encodes with worker/codec/blocks/block_codes.h, so that other programs can compare their codes with ours
// (bench/codecs.py): reads float32 numbers from the standard input, writes the payload to the
// standard output.
// Usage: block_codes_encode linear|dynamic BLOCK scalar|avx2|avx512. Exits with 3 if this processor
// lacks the instructions.
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "worker/codec/blocks/block_codes.h"

namespace {

using swarm::codec::CodeMap;
using swarm::codec::Isa;

std::optional<CodeMap> MapOf(std::string_view name) {
  if (name == "linear") return CodeMap::kLinear;
  if (name == "dynamic") return CodeMap::kDynamic;
  return std::nullopt;
}

std::optional<Isa> IsaOf(std::string_view name) {
  if (name == "scalar") return Isa::kScalar;
  if (name == "avx2") return Isa::kAvx2;
  if (name == "avx512") return Isa::kAvx512;
  return std::nullopt;
}

std::vector<float> ReadNumbers() {
  std::vector<float> values;
  float part[4096];
  while (const std::size_t n = std::fread(part, sizeof(float), std::size(part), stdin)) {
    values.insert(values.end(), part, part + n);
  }
  return values;
}

}  // namespace

int main(int argc, char** argv) {
  const auto map = argc == 4 ? MapOf(argv[1]) : std::nullopt;
  const auto isa = argc == 4 ? IsaOf(argv[3]) : std::nullopt;
  const long block = argc == 4 ? std::atol(argv[2]) : 0;
  if (!map || !isa || block <= 0) {
    std::fprintf(stderr, "usage: block_codes_encode linear|dynamic BLOCK scalar|avx2|avx512\n");
    return 2;
  }
  if (!swarm::codec::HasIsa(*isa)) return 3;
  const swarm::codec::BlockCodes codes(*map, static_cast<std::size_t>(block));
  const std::vector<float> values = ReadNumbers();
  std::vector<std::byte> payload(codes.EncodedBytes(values.size()));
  const swarm::Status status = codes.Encode(values, payload.data(), *isa);
  if (!status.ok()) {
    std::fprintf(stderr, "block_codes_encode: %s\n", status.ToString().c_str());
    return 1;
  }
  return std::fwrite(payload.data(), 1, payload.size(), stdout) == payload.size() ? 0 : 1;
}

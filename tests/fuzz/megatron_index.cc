// Data that a user brings: an index of any bytes is refused, or tells of places within itself.
#include "worker/data/megatron/index.h"

#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace swarm;
  fuzz::Input input(data, size);
  const std::uint64_t told = input.Number();
  const std::string_view header = input.rest();
  const auto index =
      data::ParseMegatronHeader(header, std::max<std::uint64_t>(told, header.size()));
  if (!index.ok()) return 0;
  fuzz::Require(index->width >= 1 && index->width <= 8, "an id has 1 to 8 bytes");
  fuzz::Require(index->last_length() + 4 <= index->size, "the last length is inside");
  fuzz::Require(index->last_offset() + 8 <= index->size, "the last offset is inside");
  return 0;
}

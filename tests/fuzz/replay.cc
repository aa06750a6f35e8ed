// Gives each fuzz target its corpus, once, so that old findings of the fuzzer are tested in every
// build.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

// Each target is compiled with LLVMFuzzerTestOneInput renamed to its own name (CMakeLists.txt).
#define SWARM_FUZZ_TARGET(name) extern "C" int name(const std::uint8_t* data, std::size_t size);
#include "fuzz_targets.inc"
#undef SWARM_FUZZ_TARGET

namespace swarm::fuzz {
namespace {

using Target = int (*)(const std::uint8_t* data, std::size_t size);

void Replay(const std::string& name, Target target) {
  int count = 0;
  const std::string folder = SWARM_SOURCE_DIR "/tests/fuzz/corpus/" + name;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path());
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(target(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0);
    ++count;
  }
  EXPECT_GT(count, 0) << folder << " is empty";
  EXPECT_EQ(target(nullptr, 0), 0) << "nothing is an input, too";
}

#define SWARM_FUZZ_TARGET(name) \
  TEST(FuzzCorpus, name) { Replay(#name, name); }
#include "fuzz_targets.inc"

}  // namespace
}  // namespace swarm::fuzz

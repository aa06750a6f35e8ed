#include "base/machine_memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/testing/temporary_folder.h"

namespace swarm {
namespace {

class MachineMemoryTest : public testing::Test {
 protected:
  void Write(const std::string& file, const std::string& text) {
    std::ofstream(folder_.path() / file) << text << "\n";
  }

  TemporaryFolder folder_;
};

TEST_F(MachineMemoryTest, AControlGroupMayHaveALimit) {
  EXPECT_EQ(FindMemoryLimit(folder_.path()), std::nullopt);
  Write("memory.max", "4294967296");
  EXPECT_EQ(FindMemoryLimit(folder_.path()), 4ull << 30);
}

TEST_F(MachineMemoryTest, AGroupWithoutALimitHasNone) {
  Write("memory.max", "max");
  EXPECT_EQ(FindMemoryLimit(folder_.path()), std::nullopt);
}

TEST_F(MachineMemoryTest, VersionOneOfControlGroupsIsReadToo) {
  Write("memory.limit_in_bytes", "1073741824");
  EXPECT_EQ(FindMemoryLimit(folder_.path()), 1ull << 30);
}

TEST_F(MachineMemoryTest, ThisProcessMayUseSome) { EXPECT_GT(UsableMemory(), 1u << 20); }

}  // namespace
}  // namespace swarm

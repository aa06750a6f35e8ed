#include "base/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>
#include <thread>

#include "base/testing/temporary_folder.h"

namespace swarm {
namespace {

class ProcessorQuotaTest : public testing::Test {
 protected:
  void Write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }

  TemporaryFolder folder_;
  const std::filesystem::path root_ = folder_.path();
};

TEST_F(ProcessorQuotaTest, TheLeastOfTheGroupAndItsParentsCounts) {
  Write("pods/cpu.max", "250000 100000");
  Write("pods/one/cpu.max", "400000 100000");
  EXPECT_EQ(FindProcessorQuota(root_, "/pods/one"), 2.5);
  EXPECT_EQ(FindProcessorQuota(root_, "/pods"), 2.5);
  EXPECT_EQ(FindProcessorQuota(root_, "/"), std::nullopt);
}

TEST_F(ProcessorQuotaTest, AGroupWithoutALimitHasNoQuota) {
  Write("cpu.max", "max 100000");
  Write("one/cpu.max", "max 100000");
  EXPECT_EQ(FindProcessorQuota(root_, "/one"), std::nullopt);
  EXPECT_EQ(FindProcessorQuota(root_ / "missing", "/one"), std::nullopt);
}

TEST_F(ProcessorQuotaTest, VersionOneOfControlGroupsIsReadToo) {
  Write("one/cpu.cfs_quota_us", "150000");
  Write("one/cpu.cfs_period_us", "100000");
  Write("two/cpu.cfs_quota_us", "-1");
  Write("two/cpu.cfs_period_us", "100000");
  EXPECT_EQ(FindProcessorQuota(root_, "/one"), 1.5);
  EXPECT_EQ(FindProcessorQuota(root_, "/two"), std::nullopt);
}

TEST(UsableProcessorsTest, AreAtMostThoseOfTheAffinity) {
  std::uint64_t usable = 0;
  std::thread([&] {
    cpu_set_t all;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    usable = UsableProcessors();
  }).join();
  EXPECT_EQ(usable, 1u);
}

}  // namespace
}  // namespace swarm

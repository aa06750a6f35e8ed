#include "ctl/run/steps_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/testing/temporary_folder.h"

namespace swarm::ctl {
namespace {

class StepsFileTest : public testing::Test {
 protected:
  void Append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }
  std::vector<std::uint64_t> Steps() {
    std::vector<std::uint64_t> steps;
    while (const auto status = source_.Poll()) steps.push_back(status->step.value);
    return steps;
  }
  using Numbers = std::vector<std::uint64_t>;

  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "steps.jsonl";
  StepsFile source_{path_, 3};
};

TEST_F(StepsFileTest, AFileThatIsNotThereYetSaysNothing) { EXPECT_FALSE(source_.Poll()); }

TEST_F(StepsFileTest, ReadsEachLineOnce) {
  Append("{\"step\":0,\"loss\":5.5,\"tokens_per_second\":100,\"other\":\"x\"}\n");
  const auto status = source_.Poll();
  ASSERT_TRUE(status);
  EXPECT_EQ(status->step.value, 1u);
  EXPECT_EQ(status->max_steps, 3u);
  EXPECT_EQ(status->loss, 5.5);
  EXPECT_EQ(status->tokens_per_second, 100);
  EXPECT_EQ(status->state, protocol::JobState::kTraining);
  EXPECT_FALSE(source_.Poll());
  Append("{\"step\":1}\n{\"step\":2}\n");
  EXPECT_EQ(Steps(), (Numbers{2, 3}));
}

TEST_F(StepsFileTest, WaitsForTheEndOfALine) {
  Append("{\"step\":0");
  EXPECT_EQ(Steps(), Numbers{});
  Append("}\n");
  EXPECT_EQ(Steps(), (Numbers{1}));
}

TEST_F(StepsFileTest, PassesOverWhatIsNoStep) {
  Append("nonsense\n[1]\n{\"step\":\"x\"}\n{\"loss\":null}\n{\"step\":4,\"loss\":null}\n");
  EXPECT_EQ(Steps(), (Numbers{5}));
}

TEST_F(StepsFileTest, AFileThatWasCutIsReportedFromWhereItDiffers) {
  Append("{\"step\":0}\n{\"step\":1}\n{\"step\":2}\n");
  EXPECT_EQ(Steps(), (Numbers{1, 2, 3}));
  std::ofstream(path_, std::ios::trunc) << "{\"step\":0}\n{\"step\":1,\"loss\":2}\n";
  EXPECT_EQ(Steps(), (Numbers{2}));
  Append("{\"step\":2}\n");
  EXPECT_EQ(Steps(), (Numbers{3}));
}

}  // namespace
}  // namespace swarm::ctl

// A worker that must wait in a phase of a step, and the program that waits for it.
#include "worker/chaos/holds.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include "base/testing/temporary_folder.h"
#include "worker/chaos/fault_rules.h"

namespace swarm::chaos {
namespace {

const std::vector<Hold> kHolds = {{"worker-1", WorkPhase::kReduce, 7},
                                  {"worker-1", WorkPhase::kCommit, 9}};

TEST(HoldsTest, TheTextIsReadAsItIsWritten) {
  const std::string text = "cut a b\n" + FormatHolds(kHolds);
  const auto holds = ParseHolds(text);
  ASSERT_TRUE(holds.ok()) << holds.status().ToString();
  EXPECT_EQ(*holds, kHolds);
  const auto rules = ParseFaultRules(text);
  ASSERT_TRUE(rules.ok()) << rules.status().ToString();
  EXPECT_EQ(rules->size(), 1u);
}

TEST(HoldsTest, WhatIsNoHoldIsNamed) {
  for (const char* text :
       {"hold worker-1 sleep 7\n", "hold worker-1 reduce\n", "hold a reduce 7 x"}) {
    const auto holds = ParseHolds(text);
    EXPECT_EQ(holds.status().code(), StatusCode::kInvalidArgument) << text;
  }
}

class HoldPointTest : public testing::Test {
 protected:
  void Write(const std::vector<Hold>& holds) {
    std::ofstream(rules_.string() + ".new") << FormatHolds(holds);
    std::filesystem::rename(rules_.string() + ".new", rules_);
  }
  std::string Held() const {
    std::ifstream in(HeldFile(rules_.string(), "worker-1"));
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }

  const TemporaryFolder folder_;
  const std::filesystem::path rules_ = folder_ / "rules";
};

TEST_F(HoldPointTest, WhoeverIsNotMeantPassesAtOnce) {
  Write(kHolds);
  HoldPoint point(rules_.string(), protocol::WorkerId("worker-1"));
  point.Pass(WorkPhase::kReduce, protocol::Step(6));
  point.Pass(WorkPhase::kForward, protocol::Step(8));
  HoldPoint other(rules_.string(), protocol::WorkerId("worker-2"));
  other.Pass(WorkPhase::kReduce, protocol::Step(7));
  HoldPoint without(folder_ / "none", protocol::WorkerId("worker-1"));
  without.Pass(WorkPhase::kReduce, protocol::Step(7));
  EXPECT_EQ(Held(), "");
}

TEST_F(HoldPointTest, WhoeverIsMeantSaysSoAndWaitsUntilItsLineIsGone) {
  Write(kHolds);
  HoldPoint point(rules_.string(), protocol::WorkerId("worker-1"));
  // A later step than the one named: the first in which it has a part.
  auto passed =
      std::async(std::launch::async, [&] { point.Pass(WorkPhase::kReduce, protocol::Step(8)); });
  while (Held() != FormatHolds({kHolds[0]})) std::this_thread::yield();
  EXPECT_EQ(passed.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);
  Write({kHolds[1]});
  passed.get();
  EXPECT_EQ(Held(), "");
}

}  // namespace
}  // namespace swarm::chaos

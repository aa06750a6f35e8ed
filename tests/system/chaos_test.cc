// Faults by script that no worker dies of: the run takes longer, and computes what it would have.
#include "tests/system/system_test.h"

namespace swarm::tests {
namespace {

using testing::Contains;
using testing::HasSubstr;

class SystemChaosTest : public SystemTest {
 protected:
  std::vector<std::string> Told() const {
    std::vector<std::string> texts;
    for (const auto& line : ReadLines(Out() + "/chaos.jsonl")) texts.push_back(line.at("text"));
    return texts;
  }
};

TEST_F(SystemChaosTest, ABadNetworkAndSlowWorkersDoNotChangeTheLosses) {
  StartRun({"--chaos",
            "delay worker-0 by 3ms at step 1; slow worker-1 by 3 at step 2;"
            "stop any of stage 2 at step 4 for 300ms; cut worker-2 at step 6 for 300ms;"
            "cut worker-0 to trainer at step 9 for 200ms; stop trainer at step 12 for 300ms"});
  ASSERT_EQ(ExitCode(), 0) << Output();
  ExpectReferenceLosses();
  EXPECT_THAT(Told(), Contains("delay worker-0 by 0.003 s"));
  EXPECT_THAT(Told(), Contains("cut worker-2 from all is over"));
  EXPECT_THAT(Told(), Contains("stop trainer"));
  EXPECT_THAT(Output(), testing::Not(HasSubstr("workers lost")));
  EXPECT_THAT(Content("out/workers/trainer.log"), HasSubstr("the network is disturbed by 2 rules"));
}

}  // namespace
}  // namespace swarm::tests

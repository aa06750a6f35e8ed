// Workers that compute wrongly without knowing it: audits find them, and the run computes what the
// undisturbed run computes.
#include <set>

#include "tests/system/system_test.h"

namespace swarm::tests {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SystemAuditTest : public SystemTest {
 protected:
  SystemAuditTest() {
    job_.spec.model.config.num_hidden_layers = 2;
    job_.spec.training.accumulation = api::Accumulation::kExact;
    job_.spec.training.audit.fraction = 1;
    job_.spec.training.maxSteps = 12;
    job_.spec.pipeline.stages = 2;
    job_.spec.workers = {.replicas = 6, .minReplicas = 2};
  }
  void Run(const std::string& layout, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"--workers", layout, "--no-moves"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    StartRun(std::move(arguments));
    ASSERT_EQ(ExitCode(), 0) << Output();
  }
};

TEST_F(SystemAuditTest, AWorkerThatErrsIsEvictedInTheFirstStepInWhichItDoes) {
  const std::string script = "corrupt worker-2 at backward of step 4";
  Run("0=3,1=3", {"--chaos", script});
  ExpectThatAllTookHold(script);
  EXPECT_THAT(Named("WorkerLost"), ElementsAre("worker-2"));
  ASSERT_EQ(Events("WorkerLost").size(), 1u);
  EXPECT_EQ(Events("WorkerLost").front().at("cause"), "WrongResult");
  std::set<std::string> steps;
  for (const auto& event : Events("AuditDiffers")) {
    const std::string text = event.at("text"), before = " of step ";
    const std::size_t begin = text.find(before) + before.size();
    steps.insert(text.substr(begin, text.find(' ', begin) - begin));
  }
  EXPECT_EQ(steps.size(), 1u) << "it erred in several steps";
  ExpectReferenceBits();
}

TEST_F(SystemAuditTest, AuditsOfWorkersThatAreRightChangeNothing) {
  Run("0=2,1=2");
  EXPECT_THAT(Events("AuditDiffers"), IsEmpty());
  EXPECT_THAT(Events("WorkerLost"), IsEmpty());
  ExpectReferenceBits();
}

}  // namespace
}  // namespace swarm::tests

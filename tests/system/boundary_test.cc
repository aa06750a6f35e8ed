// Boundaries that are a part of the model, in a swarm that continues after departures, at another
// cut.
#include "tests/system/system_test.h"

namespace swarm::tests {
namespace {

struct Learned {
  std::string name;
  api::Boundary boundary;
};

void PrintTo(const Learned& learned, std::ostream* out) { *out << learned.name; }

class SystemBoundaryTest : public SystemTest, public testing::WithParamInterface<Learned> {
 protected:
  SystemBoundaryTest() {
    job_.spec.training.accumulation = api::Accumulation::kExact;
    job_.spec.training.maxSteps = 30;
    job_.spec.pipeline.boundary = GetParam().boundary;
    job_.spec.workers = {.replicas = 6, .minReplicas = 3};
  }
};

TEST_P(SystemBoundaryTest, LosesWorkersAndNotABitOfTheReferences) {
  const std::string script =
      "kill any of stage 0 at step 6; kill any of stage 1 at step 12;"
      "kill any of stage 2 at step 18";
  StartRun({"--workers", "0=2,1=2,2=2", "--restart-delay", "0.1", "--chaos", script});
  ASSERT_EQ(ExitCode(), 0) << Output();
  ExpectThatAllTookHold(script);
  EXPECT_THAT(Events("WorkerLost"), testing::Not(testing::IsEmpty()));
  ExpectReferenceBits();
}

TEST_P(SystemBoundaryTest, GoesOnWithFewerStagesButNotWithMoreThanItHasBoundaries) {
  job_.spec.training.maxSteps = 10;
  StartRun({"--workers", "3"});
  ASSERT_EQ(ExitCode(), 0) << Output();
  job_.spec.training.maxSteps = 20;
  job_.spec.pipeline.stages = 2;
  job_.spec.workers = {.replicas = 2, .minReplicas = 2};
  StartRun({"--resume"});
  ASSERT_EQ(ExitCode(), 0) << Output();
  EXPECT_EQ(Losses(Out()).size(), 20u);
  EXPECT_LT(Losses(Out()).back(), 0.9 * Losses(Out()).front());
  job_.spec.training.maxSteps = 30;
  job_.spec.pipeline.stages = 4;
  job_.spec.workers = {.replicas = 4, .minReplicas = 4};
  StartRun({"--resume"});
  EXPECT_NE(ExitCode(), 0);
  EXPECT_THAT(Output(), testing::HasSubstr("use fewer stages"));
}

INSTANTIATE_TEST_SUITE_P(Kinds, SystemBoundaryTest,
                         testing::Values(Learned{"AnchoredInt8",
                                                 {.codec = api::BoundaryCodec::kAnchored,
                                                  .coefficients = api::NumberCodec::kInt8,
                                                  .rank = 8}},
                                         Learned{"SubspaceTurning",
                                                 {.codec = api::BoundaryCodec::kSubspace,
                                                  .rank = 16,
                                                  .refreshSteps = 5}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace swarm::tests

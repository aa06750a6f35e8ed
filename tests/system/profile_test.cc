// A profile of real processes: what each worker did is in it, and the workers computed what they
// compute without one, to the last byte.
#include <set>

#include "api/format/enum_names.h"
#include "ctl/profile/testing/trace_rules.h"
#include "tests/system/system_test.h"

namespace swarm::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

class SystemProfileTest : public SystemTest, public testing::WithParamInterface<api::Recompute> {
 protected:
  static constexpr std::uint64_t kSteps = 3;

  SystemProfileTest() {
    job_.spec.training.accumulation = api::Accumulation::kExact;
    job_.spec.pipeline.stages = 2;
    job_.spec.pipeline.recompute = GetParam();
    job_.spec.pipeline.boundary.codec = api::BoundaryCodec::kBF16;
    // Of its own accord the job would train for longer, and elsewhere.
    job_.spec.checkpoint.uri = Path("never");
  }

  void RecordProfile() {
    ASSERT_TRUE(WriteFile(Path("job.json"), api::ToJsonText(job_)).ok());
    Start({"profile", "-f", Path("job.json"), "--out", Out(), "--workers", "0=1,1=2", "--steps",
           std::to_string(kSteps - 1), "--steps-before", "1"});
    ASSERT_EQ(ExitCode(), 0) << Output();
  }

  /// The events of a kind, of all workers of a stage.
  static std::vector<json> Of(const json& trace, std::uint64_t stage, const std::string& kind) {
    std::set<int> processes;
    std::vector<json> events;
    for (const json& event : trace.at("traceEvents")) {
      if (event.at("name") == "process_name") {
        const std::string name = event.at("args").at("name");
        if (name.starts_with("stage " + std::to_string(stage)))
          processes.insert(event.at("pid").get<int>());
      } else if (event.value("cat", "") == kind && processes.contains(event.at("pid"))) {
        events.push_back(event);
      }
    }
    return events;
  }
  using Task = std::pair<std::uint64_t, std::uint64_t>;  // step, microbatch
  static std::set<Task> Tasks(const std::vector<json>& events) {
    std::set<Task> tasks;
    for (const json& event : events) {
      const json& arguments = event.at("args");
      tasks.emplace(arguments.at("step").get<std::uint64_t>(),
                    arguments.at("microbatch").get<std::uint64_t>());
    }
    return tasks;
  }
  static std::set<std::uint64_t> Steps(const std::vector<json>& events) {
    std::set<std::uint64_t> steps;
    for (const json& event : events) {
      if (event.at("ph") != "e") steps.insert(event.at("args").at("step").get<std::uint64_t>());
    }
    return steps;
  }
  static std::set<std::string> Names(const std::vector<json>& events) {
    std::set<std::string> names;
    for (const json& event : events) names.insert(event.at("name"));
    return names;
  }
};

TEST_P(SystemProfileTest, ShowsWhatEachWorkerDidAndChangesNoBit) {
  RecordProfile();
  const json trace = json::parse(Content("out/profile.json"), nullptr, false);
  ASSERT_FALSE(trace.is_discarded());
  ctl::ExpectRulesOfTraces(trace);

  std::set<Task> all;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    for (std::uint64_t m = 0; m < job_.microbatches(); ++m) all.insert({step, m});
  }
  const std::set<std::string> layers[] = {{"layer 0", "layer 1"}, {"layer 2", "layer 3"}};
  for (const std::uint64_t stage : {0, 1}) {
    for (const char* kind : {"forward", "backward", "fold", "encode", "decode"}) {
      // The last stage sends no activations and the first none of gradients, but each the other.
      EXPECT_EQ(Tasks(Of(trace, stage, kind)), all) << kind << " of stage " << stage;
    }
    EXPECT_EQ(Names(Of(trace, stage, "layer forward")), layers[stage]);
    EXPECT_EQ(Names(Of(trace, stage, "layer backward")), layers[stage]);
    EXPECT_EQ(Tasks(Of(trace, stage, "layer backward")), all);
    EXPECT_EQ(Steps(Of(trace, stage, "update")), (std::set<std::uint64_t>{0, 1, 2}));
    EXPECT_EQ(Steps(Of(trace, stage, "sum")), (std::set<std::uint64_t>{0, 1, 2}));
  }
  EXPECT_FALSE(Of(trace, 1, "activations on their way").empty());
  EXPECT_FALSE(Of(trace, 0, "gradients on their way").empty());

  EXPECT_THAT(Output(), HasSubstr("Steps 1 to 2 took "));
  EXPECT_THAT(Output(), HasSubstr("Slowest layer: "));
  EXPECT_THAT(Output(), HasSubstr("Wrote " + Path("out/profile.json")));
  EXPECT_THAT(Programs(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(Path("never"))) << "the job's own checkpoints";

  job_.spec.training.maxSteps = kSteps;
  job_.spec.schedule.warmupSteps = 0;
  ExpectReferenceBits();
}

INSTANTIATE_TEST_SUITE_P(, SystemProfileTest,
                         testing::Values(api::Recompute::kNone, api::Recompute::kLayers,
                                         api::Recompute::kFull),
                         [](const auto& info) {
                           return "Recompute" + std::string(NameOf(info.param));
                         });

}  // namespace
}  // namespace swarm::tests

// Each kind of fault in each phase of a step, in real processes: the worker waits where it begins
// its forward, backward, reduce or commit until the fault is there, so that each fault meets its
// phase. The run computes what the undisturbed run computes, to the last byte.
#include <array>
#include <set>
#include <string>

#include "tests/system/system_test.h"

namespace swarm::tests {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct Story {
  std::string name;
  std::string before;            ///< the fault's verb, and its target if it has another one
  std::string after = {};        ///< more clauses
  bool target_is_worker = true;  ///< the worker in the phase is the target
  bool replaced = false;         ///< the target ends, and another worker replaces it
  api::StepMode mode = api::StepMode::kSync;
};

void PrintTo(const Story& story, std::ostream* out) { *out << story.name; }

constexpr std::array<const char*, 4> kPhases = {"forward", "backward", "reduce", "commit"};

class SystemPhaseTest : public SystemTest, public testing::WithParamInterface<Story> {
 protected:
  SystemPhaseTest() {
    job_.spec.model.config.num_hidden_layers = 2;
    job_.spec.training.accumulation = api::Accumulation::kExact;
    job_.spec.training.maxSteps = kNeverReached;
    job_.spec.training.stepMode = GetParam().mode;
    job_.spec.pipeline.stages = 2;
    job_.spec.checkpoint.intervalSteps = 20;
    job_.spec.workers = {.replicas = 4, .minReplicas = 2};
  }

  /// One fault a phase, each after the one before it: where a fault ends its worker, the next one
  /// meets the worker that has come in its place.
  std::string Script() const {
    const Story& story = GetParam();
    std::string script;
    for (std::size_t i = 0; i < kPhases.size(); ++i) {
      const std::size_t ordinal = story.replaced && i > 0 ? 3 + i : 0;
      const std::string worker = "worker-" + std::to_string(ordinal);
      script += story.before + (story.target_is_worker ? " " + worker : "") + " at " + kPhases[i] +
                " of step " + std::to_string(4 + 5 * i) + " in " + worker + story.after + ";";
    }
    return script;
  }
};

TEST_P(SystemPhaseTest, IsMetByTheFaultAndNothingIsLostOrDoubled) {
  StartRun({"--workers", "0=2,1=2", "--restart-delay", "0.1", "--no-moves", "--chaos", Script()});
  for (std::size_t i = 0; i < kPhases.size(); ++i) {  // each with a limit of its own
    Await("fault " + std::to_string(i), [&] { return Faults().size() > i; });
  }
  AwaitMoreSteps();
  Signal("swarmctl", SIGTERM);
  ASSERT_EQ(ExitCode(), 0) << Output();
  const auto faults = Faults();
  ASSERT_EQ(faults.size(), kPhases.size());
  // In any order: a worker that has no part in a phase of its step is met in a later one.
  std::multiset<std::string> met;
  for (const auto& fault : faults) {
    EXPECT_FALSE(fault.contains("error")) << fault.dump();
    const std::string phase = fault.at("held").at("phase");
    met.insert(phase);
    const std::string worker = fault.at("held").at("worker");
    EXPECT_THAT(Content("out/workers/" + worker + ".log"),
                HasSubstr("held at its " + phase + " of step"));
  }
  EXPECT_EQ(met, std::multiset<std::string>(kPhases.begin(), kPhases.end()));
  // Another replica existed at each moment, so the job repaired each fault without a rollback.
  // Unless the machine was so busy that a live worker was taken for dead.
  const auto lost = Events("WorkerLost");
  const bool false_alarm = std::any_of(lost.begin(), lost.end(), [](const auto& event) {
    return event.at("text").template get<std::string>().find("no sign of life") !=
           std::string::npos;
  });
  if (!false_alarm) {
    EXPECT_THAT(Events("RolledBack"), IsEmpty()) << Content("out/events.jsonl");
  }
  job_.spec.training.maxSteps = Losses(Out()).size();
  ExpectReferenceBits();
}

constexpr api::StepMode kDelayed = api::StepMode::kDelayed;

INSTANTIATE_TEST_SUITE_P(
    , SystemPhaseTest,
    testing::Values(
        Story{.name = "Kill", .before = "kill", .replaced = true},
        Story{.name = "KillDelayed", .before = "kill", .replaced = true, .mode = kDelayed},
        Story{.name = "Drain", .before = "drain", .after = " grace 20s", .replaced = true},
        Story{.name = "Stop", .before = "stop", .after = " for 700ms", .mode = kDelayed},
        Story{.name = "Cut", .before = "cut", .after = " for 700ms"},
        Story{.name = "KillTrainer", .before = "kill trainer", .target_is_worker = false},
        Story{.name = "StopTrainer",
              .before = "stop trainer",
              .after = " for 500ms",
              .target_is_worker = false}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace swarm::tests

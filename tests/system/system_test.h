// For tests of the whole: swarmctl with real swarm-workers, over gRPC with mutual TLS, on a job
// that takes a second.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <csignal>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "api/parse.h"
#include "ctl/chaos/chaos.h"
#include "ctl/testing/swarmctl_under_test.h"
#include "tests/swarm/tiny_job.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/storage/storage.h"
#include "worker/trainer/reference.h"

namespace swarm::tests {

/// A step that no run reaches by itself, on any machine: the test ends such a run. The schedule
/// must not depend on it (Constant).
inline constexpr std::uint64_t kNeverReached = 1'000'000;

class SystemTest : public ctl::SwarmctlUnderTest {
 protected:
  SystemTest() : job_(TinyJob(folder_.path().string())) {
    job_.spec.model.config.num_hidden_layers = 4;
    job_.spec.training.maxSteps = 20;
    job_.spec.pipeline.stages = 3;
    job_.spec.schedule = {.type = api::ScheduleType::kConstant, .warmupSteps = 5};
    job_.spec.checkpoint.intervalSteps = 5;
    job_.spec.workers = {.replicas = 4, .minReplicas = 3};
  }

  std::string Out() const { return Path("out"); }
  /// `swarmctl run` of job_, on the folder Out().
  void StartRun(std::vector<std::string> more = {}) {
    ASSERT_TRUE(WriteFile(Path("job.json"), api::ToJsonText(job_)).ok());
    std::vector<std::string> arguments = {"run", "-f", Path("job.json"), "--out", Out()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Start(std::move(arguments));
  }

  /// The programs of the run, by name: swarmctl, trainer, worker-0..., whichever process started
  /// them.
  std::map<std::string, pid_t> Programs() const {
    std::map<std::string, pid_t> programs;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string pid = entry.path().filename();
      if (pid.find_first_not_of("0123456789") != pid.npos) continue;
      std::ifstream in(entry.path() / "cmdline", std::ios::binary);
      const std::string name = NameOf(in);
      if (!name.empty()) programs[name] = static_cast<pid_t>(std::stol(pid));
    }
    return programs;
  }
  /// Sends a signal to a program of the run, which must be there.
  void Signal(const std::string& name, int signal) {
    const auto programs = Programs();
    const auto it = programs.find(name);
    ASSERT_NE(it, programs.end()) << name << "\n" << Output();
    ASSERT_EQ(::kill(it->second, signal), 0);
  }
  void AwaitNoPrograms() {
    Await("programs of the run that are left", [&] { return Programs().empty(); });
  }

  std::vector<nlohmann::json> Events(const std::string& kind) const {
    std::vector<nlohmann::json> events;
    for (auto& event : ReadLines(Out() + "/events.jsonl")) {
      if (event.at("kind") == kind) events.push_back(event);
    }
    return events;
  }
  void AwaitEvent(const std::string& kind, std::size_t count = 1) {
    Await(kind, [&] { return WholeLines("out/events.jsonl", kind) >= count; });
  }
  std::size_t StepsDone() { return WholeLines("out/steps.jsonl", "loss"); }
  void AwaitSteps(std::size_t count) {
    Await("steps", [&] { return StepsDone() >= count; });
  }
  /// The run is alive: it commits steps after this.
  void AwaitMoreSteps() { AwaitSteps(StepsDone() + 3); }
  /// The ids that events of this kind name first, in the order of the events.
  std::vector<std::string> Named(const std::string& kind) const {
    std::vector<std::string> names;
    for (const auto& event : Events(kind)) {
      const std::string text = event.at("text");
      names.push_back(text.substr(0, text.find_first_of(" :")));
    }
    return names;
  }

  /// The faults that were carried out so far, as chaos.jsonl tells them; without the ends of those
  /// that lasted.
  std::vector<nlohmann::json> Faults() {
    std::vector<nlohmann::json> faults;
    const std::string text = Content("out/chaos.jsonl");
    std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
    for (std::string line; std::getline(lines, line);) {
      auto fault = nlohmann::json::parse(line);
      if (!fault.at("over")) faults.push_back(std::move(fault));
    }
    return faults;
  }
  /// Each line of a script that meets its targets once has done so, before the last step.
  void ExpectThatAllTookHold(const std::string& script) {
    const auto lines = ctl::ParseChaos(script);
    ASSERT_TRUE(lines.ok()) << lines.status().ToString();
    const auto faults = Faults();
    EXPECT_EQ(faults.size(), lines->size());
    for (const auto& fault : faults) {
      EXPECT_FALSE(fault.contains("error")) << fault.dump();
      EXPECT_LT(fault.at("step"), job_.spec.training.maxSteps) << fault.dump();
    }
  }

  /// The lines of the undisturbed run of the job in one process: steps.jsonl and events.jsonl
  /// there.
  std::string Reference() {
    const std::string folder = Path("reference");
    api::SwarmJob job = job_;
    job.spec.checkpoint.uri.clear();
    const Status status = trainer::TrainReference({.job = job, .out_dir = folder});
    EXPECT_TRUE(status.ok()) << status.ToString();
    return folder;
  }
  /// steps.jsonl of the run tells, of each step of job_ once, the reference's loss.
  void ExpectReferenceLosses() { ExpectLosses(Losses(Reference())); }
  void ExpectLosses(const std::vector<double>& expected) {
    const auto losses = Losses(Out());
    ASSERT_EQ(expected.size(), job_.spec.training.maxSteps);
    ASSERT_EQ(losses.size(), expected.size());
    for (std::size_t t = 0; t < losses.size(); ++t) {
      ASSERT_NEAR(losses[t], expected[t], 1e-5 * expected[t]) << "step " << t;
    }
    EXPECT_LT(losses.back(), 0.9 * losses.front()) << "nothing was learned";
  }

  /// What must not depend on which worker computed what, nor on departures.
  struct Trajectory {
    std::vector<std::string> steps;         ///< loss and norm, as they stand in steps.jsonl
    std::map<std::string, Digest> tensors;  ///< of the final checkpoint
    bool operator==(const Trajectory&) const = default;
  };
  /// For a job with exact accumulation: each step once, with the reference's loss and gradient norm
  /// to the last byte; and so its final weights and optimizer state.
  void ExpectReferenceBits() {
    const Trajectory actual = ReadTrajectory(Out());
    api::SwarmJob job = job_;
    const std::string folder = Path("reference");
    job.spec.checkpoint = {.uri = folder + "/checkpoints"};
    const Status status = trainer::TrainReference({.job = job, .out_dir = folder});
    ASSERT_TRUE(status.ok()) << status.ToString();
    const Trajectory expected = ReadTrajectory(folder);
    ASSERT_EQ(expected.steps.size(), job_.spec.training.maxSteps);
    EXPECT_EQ(actual.steps, expected.steps);
    EXPECT_EQ(actual.tensors, expected.tensors);
  }

  api::SwarmJob job_;

 private:
  Trajectory ReadTrajectory(const std::string& folder) const {
    Trajectory result{.steps = StepBits(folder), .tensors = {}};
    const auto storage = storage::Storage::Open(folder + "/checkpoints");
    EXPECT_TRUE(storage.ok()) << storage.status().ToString();
    const auto manifest = checkpoint::FindLatest(**storage);
    EXPECT_TRUE(manifest.ok()) << manifest.status().ToString();
    if (!manifest.ok()) return result;
    EXPECT_EQ(manifest->version.value, job_.spec.training.maxSteps);
    for (const auto& file : manifest->files) result.tensors[file.name] = file.digest;
    return result;
  }
  // Of a command line: arguments, each with a zero behind it.
  std::string NameOf(std::istream& command_line) const {
    std::vector<std::string> arguments;
    bool ours = false;
    for (std::string argument; std::getline(command_line, argument, '\0');) {
      ours = ours || argument.find(folder_.path().string()) != argument.npos;
      arguments.push_back(std::move(argument));
    }
    if (!ours) return "";
    if (arguments[0].ends_with("/swarmctl")) return "swarmctl";
    if (!arguments[0].ends_with("/swarm-worker")) return "";
    for (std::size_t i = 1; i < arguments.size(); ++i) {
      if (arguments[i] == "--role=trainer") return "trainer";
      if (arguments[i].starts_with("--id=")) return arguments[i].substr(5);
    }
    return "";
  }
  // Those with `word`; a line without its end is still being written.
  std::size_t WholeLines(const std::string& name, const std::string& word) {
    const std::string text = Content(name);
    std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line);) count += line.find(word) != line.npos;
    return count;
  }
};

}  // namespace swarm::tests

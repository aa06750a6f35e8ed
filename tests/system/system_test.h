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
#include "ctl/swarmctl_under_test.h"
#include "tests/swarm/local_swarm.h"

namespace swarm::tests {

/// A step so far away that no run gets there by itself, whatever the machine: what ends such a run
/// is what the test does. The schedule must not depend on it (Constant).
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
    ASSERT_TRUE(ctl::WriteFile(Path("job.json"), api::ToJsonText(job_)).ok());
    std::vector<std::string> arguments = {"run", "-f", Path("job.json"), "--out", Out()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Start(std::move(arguments));
  }

  /// The programs of the run, by name: swarmctl, trainer, worker-0... Whoever started them.
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
  void AwaitSteps(std::size_t count) {
    Await("steps", [&] { return WholeLines("out/steps.jsonl", "loss") >= count; });
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
  void ExpectReferenceLosses() {
    const auto expected = Losses(Reference());
    const auto losses = Losses(Out());
    ASSERT_EQ(expected.size(), job_.spec.training.maxSteps);
    ASSERT_EQ(losses.size(), expected.size());
    for (std::size_t t = 0; t < losses.size(); ++t) {
      ASSERT_NEAR(losses[t], expected[t], 1e-5 * expected[t]) << "step " << t;
    }
    EXPECT_LT(losses.back(), 0.9 * losses.front()) << "nothing was learned";
  }

  api::SwarmJob job_;

 private:
  // Of a command line: arguments, each with a zero behind it.
  std::string NameOf(std::istream& command_line) const {
    std::vector<std::string> arguments;
    bool ours = false;
    for (std::string argument; std::getline(command_line, argument, '\0');) {
      ours = ours || argument.starts_with(folder_.path().string());
      arguments.push_back(std::move(argument));
    }
    if (!ours) return "";
    if (arguments[0].ends_with("/swarmctl")) return "swarmctl";
    if (!arguments[0].ends_with("/swarm-worker")) return "";
    for (std::size_t i = 1; i < arguments.size(); ++i) {
      if (arguments[i] == "--role=trainer") return "trainer";
      if (arguments[i - 1] == "--id") return arguments[i];
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

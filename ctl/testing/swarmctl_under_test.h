// For tests: swarmctl as a child process of the test, with a folder of its own to work in.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/testing/temporary_folder.h"
#include "worker/processes/processes.h"

namespace swarm::ctl {

/// One swarmctl at a time. Its output goes to logs/swarmctl.log below the folder, one run after
/// another. Every wait has a limit; when it is over, the test fails.
class SwarmctlUnderTest : public testing::Test {
 protected:
  SwarmctlUnderTest()
      : processes_({std::string(SWARM_BIN_DIR) + "/swarmctl", folder_.path() / "logs"}) {}

  void Start(std::vector<std::string> arguments) {
    ASSERT_TRUE(processes_.Start({"swarmctl", WorkerRole::kStage, std::move(arguments)}).ok());
  }
  /// Acts like Ctrl-C: swarmctl handles SIGTERM and SIGINT alike.
  void Interrupt() { processes_.Terminate("swarmctl", std::chrono::seconds(100)); }

  /// Waits for the end; -1: ended by a signal.
  int ExitCode() {
    const Timepoint deadline = Clock::now() + kEndLimit;
    while (Clock::now() < deadline) {
      const ObservedProgram observed = processes_.Observe().front();
      if (observed.phase == Phase::kExited) return observed.exit_signal ? -1 : observed.exit_code;
      processes_.Wait(deadline);
    }
    ADD_FAILURE() << "swarmctl did not end:\n" << Output();
    return -1;
  }
  /// Waits until `happened`. After a time limit, fails the test with the text `what`.
  void Await(const std::string& what, const std::function<bool()>& happened) {
    const Timepoint deadline = Clock::now() + kAwaitLimit;
    while (!happened() && Clock::now() < deadline) {
      processes_.Wait(Clock::now() + std::chrono::milliseconds(10), -1);
    }
    EXPECT_TRUE(happened()) << what << "\n" << Output();
  }
  void AwaitFile(const std::string& name) {
    Await(name, [&] { return std::filesystem::exists(Path(name)); });
  }
  std::string Output() { return Content("logs/swarmctl.log"); }
  std::string Content(const std::string& name) {
    const auto text = ReadFile(Path(name));
    return text.ok() ? *text : std::string();
  }
  std::string Path(const std::string& name) const { return (folder_.path() / name).string(); }

  // Far beyond what a busy machine takes.
  static constexpr Duration kEndLimit = std::chrono::seconds(300);
  static constexpr Duration kAwaitLimit = std::chrono::seconds(60);

  TemporaryFolder folder_;
  Processes processes_;
};

}  // namespace swarm::ctl

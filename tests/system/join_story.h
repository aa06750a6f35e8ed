// For tests: a run that machines join, and the commands of its owner and of the machines.
#pragma once

#include <regex>

#include "tests/system/system_test.h"

namespace swarm::tests {

class JoinStory : public SystemTest {
 protected:
  JoinStory() {
    job_.spec.training.accumulation = api::Accumulation::kExact;
    job_.spec.workers = {.replicas = 3, .minReplicas = 3};
  }

  /// The home of a run, of whose three workers `here` start with it.
  void StartHome(int here, const std::string& host = "127.0.0.1",
                 std::vector<std::string> more = {}) {
    ASSERT_TRUE(WriteFile(Path("job.json"), api::ToJsonText(job_)).ok());
    std::vector<std::string> arguments = {"run",
                                          "-f",
                                          Path("job.json"),
                                          "--out",
                                          Out(),
                                          "--threads-per-worker",
                                          "1",
                                          "--listen",
                                          host + ":0",
                                          "--workers-here",
                                          std::to_string(here)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Launch("swarmctl", std::move(arguments));
    Await("a join token", [&] { return !PrintedToken("logs/swarmctl.log").empty(); });
    token_ = PrintedToken("logs/swarmctl.log");
  }
  /// Starts swarmctl under a name; its output goes to logs/NAME.log.
  virtual void Launch(const std::string& name, std::vector<std::string> arguments) {
    const Status status = processes_.Start({name, WorkerRole::kStage, std::move(arguments)});
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  void Join(const std::string& name, const std::string& token, std::vector<std::string> more = {}) {
    // As many threads as home's workers: else the bits would differ.
    std::vector<std::string> arguments = {"join", token, "--out", Path(name), "--threads", "1"};
    if (!probes_) arguments.push_back("--no-probe");
    arguments.insert(arguments.end(), more.begin(), more.end());
    Launch(name, std::move(arguments));
  }
  /// The exit code of a command that was launched; -1: a signal ended it, or it did not end.
  virtual int EndOf(const std::string& name) { return EndIn(processes_, name); }

  /// The run and these joins succeed, with the losses and weights of one process.
  void ExpectAllSucceed(const std::vector<std::string>& joined) {
    EXPECT_EQ(EndOf("swarmctl"), 0) << Output();
    for (const std::string& name : joined) EXPECT_EQ(EndOf(name), 0) << LogOf(name);
    ExpectReferenceBits();
  }

  /// Runs `swarmctl token`. Returns what it prints.
  std::string Token(std::vector<std::string> arguments, int expected_code = 0) {
    const std::string name = "token-" + std::to_string(++commands_);
    arguments.insert(arguments.begin(), "token");
    Launch(name, std::move(arguments));
    EXPECT_EQ(EndOf(name), expected_code) << LogOf(name);
    return LogOf(name);
  }
  /// A new token, on these terms.
  std::string NewToken(std::vector<std::string> terms) {
    std::vector<std::string> arguments = {"create", Out()};
    arguments.insert(arguments.end(), terms.begin(), terms.end());
    Token(std::move(arguments));
    return PrintedToken("logs/token-" + std::to_string(commands_) + ".log");
  }
  /// The ids of the run's tokens that `swarmctl token list` calls `state`.
  std::vector<std::string> TokensThatAre(const std::string& state) {
    std::istringstream lines(Token({"list", Out(), "--json"}));
    std::vector<std::string> ids;
    for (std::string line; std::getline(lines, line);) {
      const auto token = nlohmann::json::parse(line);
      if (token.at("state") == state) ids.push_back(token.at("id"));
    }
    return ids;
  }

  std::string LogOf(const std::string& name) { return Content("logs/" + name + ".log"); }
  void AwaitWords(const std::string& name, const std::string& words) {
    Await(words, [&] { return LogOf(name).find(words) != std::string::npos; });
  }
  /// The kinds of what home has noted about enrolment.
  std::vector<std::string> Noted() {
    std::vector<std::string> kinds;
    for (const auto& event : ReadLines(Out() + "/enrolment.jsonl")) {
      kinds.push_back(event.at("kind"));
    }
    return kinds;
  }

  int EndIn(Processes& processes, const std::string& name) {
    const Timepoint deadline = Clock::now() + kEndLimit;
    for (;;) {
      for (const ObservedProgram& each : processes.Observe()) {
        if (each.name != name || each.phase != Phase::kExited) continue;
        return each.exit_signal ? -1 : each.exit_code;
      }
      if (Clock::now() >= deadline) break;
      processes.Wait(Clock::now() + std::chrono::milliseconds(50));
    }
    ADD_FAILURE() << name << " did not end:\n" << LogOf(name) << Output();
    return -1;
  }

  std::string token_;    ///< that the run has printed
  bool probes_ = false;  ///< machines measure themselves first, which takes seconds

 private:
  std::string PrintedToken(const std::string& log) {
    const std::string text = Content(log);
    std::smatch match;
    const std::regex printed("swarmctl join (\\S+)\n");
    return std::regex_search(text, match, printed) ? match[1].str() : "";
  }

  int commands_ = 0;
};

}  // namespace swarm::tests

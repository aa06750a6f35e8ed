#include "worker/processes/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>

#include "base/testing/temporary_folder.h"

namespace swarm {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

class ProcessesTest : public testing::Test {
 protected:
  static ProgramSpec Shell(std::string name, std::string script) {
    return {std::move(name), WorkerRole::kStage, {"-c", std::move(script)}};
  }

  // Waits until `name` has ended; fails after a time that only a hang needs.
  ObservedProgram Ended(const std::string& name) {
    const Timepoint deadline = Clock::now() + seconds(30);
    while (Clock::now() < deadline) {
      for (const ObservedProgram& worker : processes_.Observe()) {
        if (worker.name == name && worker.phase == Phase::kExited) return worker;
      }
      processes_.Wait(deadline);
    }
    ADD_FAILURE() << name << " did not end";
    return {};
  }

  std::string Log(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(processes_.LogOf(name)).rdbuf();
    return text.str();
  }

  // Blocks until the log of `name` has a line; the processes under test write one when they are
  // set.
  std::string FirstLine(const std::string& name) {
    const Timepoint deadline = Clock::now() + seconds(30);
    while (Clock::now() < deadline) {
      const std::string text = Log(name);
      if (const std::size_t end = text.find('\n'); end != text.npos) return text.substr(0, end);
      processes_.Wait(Clock::now() + std::chrono::milliseconds(5));
    }
    ADD_FAILURE() << name << " wrote nothing";
    return "0";
  }

  void AwaitMoreOf(const std::string& name) {
    const std::size_t before = Log(name).size();
    const Timepoint deadline = Clock::now() + seconds(30);
    while (Log(name).size() <= before && Clock::now() < deadline) {
      processes_.Wait(Clock::now() + std::chrono::milliseconds(5));
    }
    EXPECT_GT(Log(name).size(), before);
  }

  static bool Gone(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

  TemporaryFolder folder_;
  Processes processes_{{"/bin/sh", folder_.path() / "workers"}};
};

TEST_F(ProcessesTest, TellsHowEachProcessEnded) {
  ASSERT_TRUE(processes_.Start(Shell("good", "exit 0")).ok());
  ASSERT_TRUE(processes_.Start(Shell("bad", "exit 7")).ok());
  ASSERT_TRUE(processes_.Start(Shell("killed", "kill -9 $$")).ok());
  EXPECT_TRUE(Ended("good").succeeded());
  EXPECT_EQ(Ended("bad").exit_code, 7);
  EXPECT_EQ(Ended("killed").exit_signal, SIGKILL);
  EXPECT_FALSE(Ended("killed").succeeded());
}

TEST_F(ProcessesTest, WhatAProcessSaysIsInItsLog) {
  ASSERT_TRUE(processes_.Start(Shell("talker", "echo out; echo err >&2; cat")).ok());
  Ended("talker");  // its standard input is empty
  EXPECT_EQ(Log("talker"), "out\nerr\n");
}

TEST_F(ProcessesTest, WithoutAFolderForLogsAProcessWritesWhereThisOneDoes) {
  Processes plain{{"/bin/sh", ""}};
  testing::internal::CaptureStdout();
  EXPECT_TRUE(plain.Start(Shell("talker", "echo out")).ok());
  while (plain.Observe().front().phase == Phase::kRunning) plain.Wait(Clock::now() + seconds(30));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "out\n");
}

TEST_F(ProcessesTest, AProcessThatIsAskedToEndMayDoItsLastWork) {
  ASSERT_TRUE(
      processes_
          .Start(Shell("polite", "trap 'exit 5' TERM; echo set; while :; do sleep 1 & wait; done"))
          .ok());
  FirstLine("polite");
  processes_.Terminate("polite", seconds(60));
  EXPECT_EQ(Ended("polite").exit_code, 5);
}

TEST_F(ProcessesTest, OneThatDoesNotListenIsKilledWhenItsGraceIsOver) {
  ASSERT_TRUE(
      processes_.Start(Shell("deaf", "trap '' TERM; echo set; while :; do sleep 1; done")).ok());
  FirstLine("deaf");
  processes_.Terminate("deaf", std::chrono::milliseconds(10));
  EXPECT_EQ(Ended("deaf").exit_signal, SIGKILL);
}

TEST_F(ProcessesTest, AnEndReachesWhatTheProcessHasStarted) {
  ASSERT_TRUE(processes_.Start(Shell("parent", "sleep 600 & echo $!; wait")).ok());
  const pid_t child = std::stoi(FirstLine("parent"));
  ASSERT_GT(child, 1);
  processes_.KillAll();
  // The orphan is reaped by the system's first process, soon.
  for (int i = 0; i < 3000 && !Gone(child); ++i) {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string pid, name, state;
    if (stat >> pid >> name >> state && state == "Z") return;
    processes_.Wait(Clock::now() + std::chrono::milliseconds(10));
    ::poll(nullptr, 0, 10);
  }
  EXPECT_TRUE(Gone(child));
}

TEST_F(ProcessesTest, AProgramThatIsNotThereIsReported) {
  Processes backend({"/nowhere/program", folder_.path()});
  const Status status = backend.Start(Shell("none", ""));
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), testing::HasSubstr("/nowhere/program"));
  EXPECT_THAT(backend.Observe(), ElementsAre());
}

TEST_F(ProcessesTest, ANameIsStartedAgainOnlyAfterItsEnd) {
  ASSERT_TRUE(processes_.Start(Shell("trainer", "echo ready; read line; sleep 600")).ok());
  processes_.KillAll();
  ASSERT_TRUE(processes_.Start(Shell("trainer", "exit 3")).ok());
  EXPECT_EQ(Ended("trainer").exit_code, 3);
  EXPECT_EQ(processes_.Observe().size(), 1u);
  ASSERT_TRUE(processes_.Start(Shell("other", "sleep 600")).ok());
  EXPECT_EQ(processes_.Start(Shell("other", "")).code(), StatusCode::kAlreadyExists);
}

TEST_F(ProcessesTest, ASlowProcessRunsAndAStoppedOneDoesNotEvenIfItIsSlow) {
  ASSERT_TRUE(processes_.Start(Shell("worker", "while :; do echo tick; sleep 0.01; done")).ok());
  FirstLine("worker");
  ASSERT_TRUE(processes_.Slow("worker", 4).ok());
  AwaitMoreOf("worker");
  ASSERT_TRUE(processes_.Signal("worker", SIGSTOP).ok());
  // The process may have been in the middle of a line.
  processes_.Wait(Clock::now() + std::chrono::milliseconds(100));
  const std::string stopped = Log("worker");
  processes_.Wait(Clock::now() + std::chrono::milliseconds(100));
  EXPECT_EQ(Log("worker"), stopped);
  ASSERT_TRUE(processes_.Signal("worker", SIGCONT).ok());
  AwaitMoreOf("worker");
  ASSERT_TRUE(processes_.Slow("worker", 1).ok());
  AwaitMoreOf("worker");
  ASSERT_TRUE(processes_.Signal("worker", SIGKILL).ok());
  EXPECT_EQ(Ended("worker").exit_signal, SIGKILL);
  EXPECT_EQ(processes_.Signal("worker", SIGKILL).code(), StatusCode::kNotFound);
  EXPECT_EQ(processes_.Slow("worker", 2).code(), StatusCode::kNotFound);
}

TEST_F(ProcessesTest, ASlowProcessComputesAsMuchSlowerAsItWasTold) {
  ASSERT_TRUE(processes_.Start(Shell("worker", "while :; do :; done")).ok());
  ASSERT_TRUE(processes_.Slow("worker", 10).ok());
  // It may run for a tenth of each period, never more, however busy the machine is.
  const Timepoint begin = Clock::now();
  processes_.Wait(begin + seconds(1));
  ASSERT_TRUE(processes_.Signal("worker", SIGKILL).ok());
  rusage before{}, after{};
  ::getrusage(RUSAGE_CHILDREN, &before);
  Ended("worker");
  ::getrusage(RUSAGE_CHILDREN, &after);
  const auto cpu = [](const rusage& usage) {
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  };
  EXPECT_LT(cpu(after) - cpu(before), 0.5 * ToSeconds(Clock::now() - begin));
}

TEST_F(ProcessesTest, WaitingEndsWhenTheWakeDescriptorIsReadable) {
  ASSERT_TRUE(processes_.Start(Shell("sleeper", "sleep 600")).ok());
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  const Timepoint begin = Clock::now();
  processes_.Wait(begin + seconds(500), ends[0]);
  EXPECT_LT(Clock::now() - begin, seconds(400));
  ::close(ends[0]), ::close(ends[1]);
}

TEST_F(ProcessesTest, NothingOutlivesTheProcessThatStartedIt) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t starter = ::fork();
  ASSERT_GE(starter, 0);
  if (starter == 0) {
    // The worker inherits the pipe: it stays open for as long as the worker lives.
    ::close(ends[0]);
    if (!processes_.Start(Shell("worker", "echo set; exec sleep 600")).ok()) ::_exit(1);
    FirstLine("worker");
    ::kill(::getpid(), SIGKILL);
  }
  ::close(ends[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(starter, &status, 0), starter);
  ASSERT_TRUE(WIFSIGNALED(status));
  char byte;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "the end of the pipe: no process holds it any more";
  ::close(ends[0]);
}

}  // namespace
}  // namespace swarm

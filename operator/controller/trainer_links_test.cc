#include "operator/controller/trainer_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <future>

namespace swarm::controller {
namespace {

/// The trainers of all jobs, as the test plays them.
class Trainers {
 public:
  void Say(const std::string& dial, protocol::JobStatus status) {
    const std::lock_guard lock(mutex_);
    said_[dial].push_back(std::move(status));
  }
  std::optional<protocol::JobStatus> Take(const std::string& dial) {
    const std::lock_guard lock(mutex_);
    auto& waiting = said_[dial];
    if (waiting.empty()) return std::nullopt;
    protocol::JobStatus status = std::move(waiting.front());
    waiting.pop_front();
    return status;
  }
  Result<std::unique_ptr<TrainerConnection>> Connect(const TrainerAddress& address);

  std::atomic<int> connections = 0;

 private:
  std::mutex mutex_;
  std::map<std::string, std::deque<protocol::JobStatus>> said_;
};

class Connection final : public TrainerConnection {
 public:
  Connection(Trainers* trainers, std::string dial) : trainers_(trainers), dial_(std::move(dial)) {}
  std::optional<protocol::JobStatus> Take() override { return trainers_->Take(dial_); }
  Status Send(protocol::Direct) override { return Status(); }

 private:
  Trainers* const trainers_;
  const std::string dial_;
};

Result<std::unique_ptr<TrainerConnection>> Trainers::Connect(const TrainerAddress& address) {
  ++connections;
  return std::unique_ptr<TrainerConnection>(std::make_unique<Connection>(this, address.dial));
}

class TrainerLinksTest : public testing::Test {
 protected:
  static TrainerAddress At(const std::string& dial) { return {"uid", dial, "ca", {"crt", "key"}}; }
  static protocol::JobStatus Training(std::uint64_t step, const std::string& worker = "w0") {
    protocol::JobStatus status;
    status.state = protocol::JobState::kTraining;
    status.step = protocol::Step(step);
    status.stages.push_back({protocol::StageIndex(0), {{.id = protocol::WorkerId(worker)}}});
    return status;
  }
  /// Waits until the links have said that the job changed `count` times in all.
  bool AwaitChanges(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return changes_ >= count; });
  }
  bool AwaitStep(std::uint64_t step) {
    const Timepoint end = Clock::now() + std::chrono::seconds(20);
    while (Clock::now() < end) {
      const auto view = links_.View("ns/job");
      if (view && view->status && view->status->step == protocol::Step(step)) return true;
      std::this_thread::yield();
    }
    return false;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int changes_ = 0;  // guarded
  Trainers trainers_;
  TrainerLinks links_{[this](const TrainerAddress& address) { return trainers_.Connect(address); },
                      [this](const std::string& job) {
                        EXPECT_EQ(job, "ns/job");
                        const std::lock_guard lock(mutex_);
                        ++changes_;
                        changed_.notify_all();
                      },
                      std::chrono::milliseconds(1)};
};

TEST_F(TrainerLinksTest, WhatATrainerSaysIsSeenAndTold) {
  trainers_.Say("a", Training(3));
  links_.Want("ns/job", At("a"));
  ASSERT_TRUE(AwaitChanges(1));
  const auto view = links_.View("ns/job");
  ASSERT_TRUE(view && view->status);
  EXPECT_EQ(view->status->step, protocol::Step(3));
  EXPECT_GE(view->heard, view->wanted_since);
}

TEST_F(TrainerLinksTest, AStepAloneIsNoNews) {
  trainers_.Say("a", Training(3));
  trainers_.Say("a", Training(4));
  links_.Want("ns/job", At("a"));
  ASSERT_TRUE(AwaitStep(4));
  trainers_.Say("a", Training(5, "w1"));
  ASSERT_TRUE(AwaitChanges(2));
  EXPECT_EQ(changes_, 2);
}

TEST_F(TrainerLinksTest, TheSameAddressIsTheSameConnection) {
  trainers_.Say("a", Training(1));
  links_.Want("ns/job", At("a"));
  ASSERT_TRUE(AwaitChanges(1));
  links_.Want("ns/job", At("a"));
  trainers_.Say("a", Training(1, "w1"));
  ASSERT_TRUE(AwaitChanges(2));
  EXPECT_EQ(trainers_.connections, 1);
}

TEST_F(TrainerLinksTest, AnotherAddressIsAnotherTrainer) {
  trainers_.Say("a", Training(1));
  links_.Want("ns/job", At("a"));
  ASSERT_TRUE(AwaitChanges(1));
  links_.Want("ns/job", At("b"));
  ASSERT_TRUE(links_.View("ns/job"));
  EXPECT_FALSE(links_.View("ns/job")->status);
  trainers_.Say("b", Training(2));
  EXPECT_TRUE(AwaitStep(2));
}

TEST_F(TrainerLinksTest, ARenewedCertificateKeepsWhatIsKnown) {
  trainers_.Say("a", Training(1));
  links_.Want("ns/job", At("a"));
  ASSERT_TRUE(AwaitChanges(1));
  TrainerAddress renewed = At("a");
  renewed.self.certificate = "another";
  links_.Want("ns/job", renewed);
  ASSERT_TRUE(links_.View("ns/job")->status);
  trainers_.Say("a", Training(2));
  EXPECT_TRUE(AwaitStep(2));
  EXPECT_EQ(trainers_.connections, 2);
}

TEST_F(TrainerLinksTest, WhoIsForgottenIsNotToldOf) {
  links_.Want("ns/job", At("a"));
  links_.Forget("ns/job");
  EXPECT_FALSE(links_.View("ns/job"));
  EXPECT_EQ(links_.count(), 0u);
  EXPECT_EQ(links_.Send("ns/job", {}).code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace swarm::controller

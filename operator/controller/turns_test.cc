#include "operator/controller/turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <utility>

namespace swarm::controller {
namespace {

/// A question whose API server answers when the test says so.
class Question {
 public:
  /// Runs as the work of a turn.
  void Run(const Status& turn) {
    if (turn.ok()) {
      begins_.set_value();
      answered_.wait();
    }
    ends_.set_value(turn);
  }
  void Answer() {
    if (!std::exchange(has_answer_, true)) answers_.set_value();
  }
  bool Begins() { return begun_.wait_for(std::chrono::seconds(20)) == std::future_status::ready; }
  Status End() { return ended_.get(); }

 private:
  std::promise<void> begins_, answers_;
  std::promise<Status> ends_;
  std::future<void> begun_ = begins_.get_future(), answered_ = answers_.get_future();
  std::future<Status> ended_ = ends_.get_future();
  bool has_answer_ = false;
};

class TurnsTest : public testing::Test {
 protected:
  ~TurnsTest() override {
    for (Question& question : questions_) question.Answer();
  }

  Question& Ask(const std::string& cluster) {
    Question& question = questions_.emplace_back();
    EXPECT_TRUE(Post(cluster, question).ok());
    return question;
  }
  Status Post(const std::string& cluster, Question& question) {
    return turns_->Post(cluster, [this, &question](const Status& turn) {
      {
        const std::lock_guard lock(mutex_);
        most_ = std::max(most_, ++now_);
      }
      question.Run(turn);
      const std::lock_guard lock(mutex_);
      --now_;
    });
  }

  std::deque<Question> questions_;
  std::mutex mutex_;
  int now_ = 0, most_ = 0;  // guarded: questions under way
  std::unique_ptr<Turns> turns_ =
      std::make_unique<Turns>(TurnLimits{.at_once = 2, .waiting = 3});  // last: joins its threads
};

TEST_F(TurnsTest, SeveralOfAClusterAreAskedAtOnceTheOthersInTheOrderOfTheirArrival) {
  Question &first = Ask("west"), &second = Ask("west");
  EXPECT_TRUE(first.Begins() && second.Begins()) << "before either has its answer";
  Question &third = Ask("west"), &fourth = Ask("west"), &fifth = Ask("west");
  second.Answer();
  EXPECT_TRUE(third.Begins());
  third.Answer();
  EXPECT_TRUE(fourth.Begins());
  fourth.Answer();
  EXPECT_TRUE(fifth.Begins());
  fifth.Answer();
  EXPECT_TRUE(fifth.End().ok());
  EXPECT_EQ(most_, 2);
}

TEST_F(TurnsTest, AClusterThatDoesNotAnswerHoldsUpNoOther) {
  Question &first = Ask("slow"), &second = Ask("slow");
  EXPECT_TRUE(first.Begins() && second.Begins());
  Ask("slow");
  Question& other = Ask("west");
  other.Answer();
  EXPECT_TRUE(other.Begins());
  EXPECT_TRUE(other.End().ok());
}

TEST_F(TurnsTest, WhoComesWhenTooManyWaitIsTurnedAwayAndNotThoseOfOtherClusters) {
  Question &first = Ask("west"), &second = Ask("west");
  EXPECT_TRUE(first.Begins() && second.Begins());
  for (int i = 0; i < 3; ++i) Ask("west");
  Question late;
  EXPECT_EQ(Post("west", late).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Ask("east").Begins());
}

TEST_F(TurnsTest, WhatStillWaitsAtTheEndIsToldSo) {
  Question &first = Ask("west"), &second = Ask("west");
  EXPECT_TRUE(first.Begins() && second.Begins());
  Question& waits = Ask("west");
  const auto end = std::async(std::launch::async, [&] { turns_.reset(); });
  EXPECT_EQ(waits.End().code(), StatusCode::kUnavailable);
  first.Answer();
  second.Answer();
  end.wait();
  EXPECT_TRUE(first.End().ok());
}

}  // namespace
}  // namespace swarm::controller

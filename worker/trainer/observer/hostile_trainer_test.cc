// An operator observes trainers that run its users' images. Whatever such a program sends, it
// neither fills the operator's memory nor keeps the operator from hearing other trainers.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "worker/net/grpc/grpc_endpoint.h"
#include "worker/net/testing/recorder.h"
#include "worker/net/wire/wire.h"
#include "worker/trainer/observer/dialled_observer.h"

namespace swarm::trainer {
namespace {

using protocol::JobStatus;
using protocol::WorkerId;

const WorkerId kOperator("operator/a");

JobStatus StatusOf(std::size_t workers) {
  JobStatus status;
  status.state = protocol::JobState::kTraining;
  status.stages.resize(1);
  for (std::size_t w = 0; w < workers; ++w) {
    status.stages[0].workers.push_back({.id = WorkerId("a-job-of-a-user-w" + std::to_string(w)),
                                        .in_flight = 100,
                                        .queued = 10,
                                        .utilization = 0.5,
                                        .bytes_per_second = 1e6,
                                        .microbatches_per_second = 3,
                                        .state = protocol::WorkerState::kReady});
  }
  return status;
}

/// A program at a trainer's place, on a real port. It answers a question with `answer`.
class Trainer {
 public:
  using Answer = std::function<void(net::Endpoint& endpoint)>;

  explicit Trainer(Answer answer) {
    heard_.on_message = [this, answer = std::move(answer)](const WorkerId&, net::Lane,
                                                           const net::Envelope&) {
      answer(*endpoint_);
    };
    endpoint_ =
        std::move(
            net::GrpcEndpoint::Create(
                {.self = kTrainerId, .listen = "127.0.0.1:0", .job = "job-1", .plaintext = true},
                &heard_))
            .value();
  }

  std::string dial() const { return endpoint_->addresses()[0].dial; }
  int hang_ups() const { return heard_.EventCount("down " + kOperator.value); }
  bool WaitForHangUp() { return heard_.WaitForEvent("down " + kOperator.value); }

 private:
  net::Recorder heard_;
  std::unique_ptr<net::Endpoint> endpoint_;
};

Trainer::Answer Says(JobStatus status, std::size_t payload_bytes = 0) {
  return [status = std::move(status), payload_bytes](net::Endpoint& endpoint) {
    const Bytes payload =
        Bytes::Make(payload_bytes, [&](std::byte* data) { std::memset(data, 1, payload_bytes); });
    (void)endpoint.Send(kOperator, net::Lane::kControl, {status, payload});
  };
}

std::unique_ptr<Observer> Observe(const Trainer& trainer,
                                  std::shared_ptr<StatusMemory> memory = nullptr,
                                  Duration interval = std::chrono::milliseconds(10)) {
  auto observer = DialObserver({.self = kOperator,
                                .dial = trainer.dial(),
                                .job_uid = "job-1",
                                .interval = interval,
                                .memory = std::move(memory)});
  EXPECT_TRUE(observer.ok()) << observer.status().ToString();
  return std::move(observer).value();
}

/// The next status; none after a minute.
std::optional<JobStatus> Await(Observer& observer) {
  const Timepoint end = Clock::now() + std::chrono::minutes(1);
  while (Clock::now() < end) {
    if (auto status = observer.Take()) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return std::nullopt;
}

TEST(HostileTrainerTest, TheStatusOfTheLargestJobIsHeard) {
  Trainer trainer(Says(StatusOf(net::kMembersMax)));
  const auto observer = Observe(trainer);
  const auto status = Await(*observer);
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->stages[0].workers.size(), static_cast<std::size_t>(net::kMembersMax));
}

TEST(HostileTrainerTest, AStatusWithAPayloadEndsTheConnection) {
  Trainer trainer(Says(StatusOf(1), 1));
  const auto observer = Observe(trainer);
  EXPECT_TRUE(trainer.WaitForHangUp());
  EXPECT_FALSE(observer->Take().has_value());
}

TEST(HostileTrainerTest, APayloadOfManyMegabytesEndsTheConnection) {
  Trainer trainer(Says(StatusOf(1), 256u << 20));
  const auto observer = Observe(trainer);
  EXPECT_TRUE(trainer.WaitForHangUp());
  EXPECT_FALSE(observer->Take().has_value());
}

TEST(HostileTrainerTest, AMessageAboveTheCapEndsTheConnection) {
  JobStatus status = StatusOf(1);
  status.message.assign(kObservedBytesMax, 'x');
  Trainer trainer(Says(status));
  const auto observer = Observe(trainer);
  EXPECT_TRUE(trainer.WaitForHangUp());
  EXPECT_FALSE(observer->Take().has_value());
}

TEST(HostileTrainerTest, OneThatSendsWhatNobodyAskedForIsHungUpOn) {
  Trainer trainer([](net::Endpoint& endpoint) {
    for (int i = 0; i < 1000; ++i) {
      (void)endpoint.Send(kOperator, net::Lane::kControl, {StatusOf(1), {}});
    }
  });
  const auto observer = Observe(trainer);
  EXPECT_TRUE(trainer.WaitForHangUp());
}

TEST(HostileTrainerTest, AFarewellComesUnasked) {
  int asked = 0;
  JobStatus farewell = StatusOf(1);
  farewell.state = protocol::JobState::kSucceeded;
  Trainer trainer([&](net::Endpoint& endpoint) {
    if (++asked > 20) return;  // a trainer that has ended
    (void)endpoint.Send(kOperator, net::Lane::kControl, {StatusOf(1), {}});
    if (asked == 20) (void)endpoint.Send(kOperator, net::Lane::kControl, {farewell, {}});
  });
  const auto observer = Observe(trainer);
  while (auto status = Await(*observer)) {
    if (status->state == protocol::JobState::kSucceeded) return;
  }
  FAIL() << "the farewell has not come";
}

TEST(HostileTrainerTest, OneThatWasHeldUpMayAnswerAllQuestionsAtOnce) {
  int asked = 0;
  Trainer trainer([&](net::Endpoint& endpoint) {
    if (++asked < 100) return;
    JobStatus status = StatusOf(1);
    status.step = protocol::Step(static_cast<std::uint64_t>(asked));
    for (int answers = asked == 100 ? 100 : 1; answers > 0; --answers) {
      (void)endpoint.Send(kOperator, net::Lane::kControl, {status, {}});
    }
  });
  const auto observer = Observe(trainer);
  std::optional<JobStatus> status;
  do {
    status = Await(*observer);
    ASSERT_TRUE(status.has_value());
  } while (status->step < protocol::Step(110));
  EXPECT_EQ(trainer.hang_ups(), 0);
}

TEST(HostileTrainerTest, LongTextsAreCutBetweenCharacters) {
  JobStatus status = StatusOf(1);
  status.message = "x";
  while (status.message.size() < 100000) status.message += "ö";
  status.waiting_for = "short";
  Trainer trainer(Says(status));
  const auto observer = Observe(trainer);
  const auto heard = Await(*observer);
  ASSERT_TRUE(heard.has_value());
  EXPECT_EQ(heard->message, status.message.substr(0, kObservedTextBytesMax - 1));
  EXPECT_EQ(heard->waiting_for, "short");
}

TEST(HostileTrainerTest, HugeStatusesShareTheirMemoryAndUsualOnesAreHeardAllTheSame) {
  const std::size_t huge = BytesOf(StatusOf(net::kMembersMax));
  const auto memory = std::make_shared<StatusMemory>(3 * huge / 2);
  Trainer first(Says(StatusOf(net::kMembersMax))), second(Says(StatusOf(net::kMembersMax)));
  Trainer usual(Says(StatusOf(20)));
  // Longer than it takes to read a huge status, also where a test is slow.
  const Duration interval = std::chrono::milliseconds(300);
  auto observer = Observe(first, memory, interval);
  ASSERT_TRUE(Await(*observer).has_value());

  const auto late = Observe(second, memory, interval), small = Observe(usual, memory);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Await(*small).has_value());
  EXPECT_FALSE(late->Take().has_value());

  observer.reset();
  EXPECT_TRUE(Await(*late).has_value());
}

}  // namespace
}  // namespace swarm::trainer

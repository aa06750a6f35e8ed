// A worker and a scripted trainer, for orders of events that are rare elsewhere.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>

#include "api/parse.h"
#include "tests/swarm/local_swarm.h"
#include "worker/net/testing/recorder.h"

namespace swarm::tests {
namespace {

using namespace protocol;  // the messages

constexpr std::chrono::seconds kPatience{60};
const WorkerId kWorker("w");
const Term kTerm(1);

/// Keeps the worker's messages, except heartbeats. A Failure of the worker fails the test.
class Trainer : public net::EndpointHandler {
 public:
  explicit Trainer(net::LoopbackNetwork& network)
      : endpoint_(*network.CreateEndpoint(trainer::kTrainerId, this)) {}
  ~Trainer() override { endpoint_.reset(); }

  void OnMessage(const WorkerId&, net::Lane, net::Envelope envelope) override {
    if (std::holds_alternative<Heartbeat>(envelope.message)) return;
    if (const auto* failure = std::get_if<Failure>(&envelope.message)) {
      ADD_FAILURE() << failure->reason;
    }
    const std::lock_guard lock(mutex_);
    heard_.push_back(std::move(envelope.message));
    changed_.notify_all();
  }
  void OnPeerUp(const WorkerId&) override {}
  void OnPeerDown(const WorkerId&, const Status&) override {}

  void Say(Message message) {
    ASSERT_TRUE(endpoint_->Send(kWorker, net::Lane::kControl, {std::move(message), {}}).ok());
  }
  /// The next message of this kind; those of other kinds before it are dropped.
  template <typename M>
  M Await() {
    std::unique_lock lock(mutex_);
    std::optional<M> found;
    const bool came = changed_.wait_for(lock, kPatience, [&] {
      while (!heard_.empty() && !found) {
        if (const auto* message = std::get_if<M>(&heard_.front())) found = *message;
        heard_.pop_front();
      }
      return found.has_value();
    });
    EXPECT_TRUE(came) << "the worker says nothing of the kind";
    return found.value_or(M());
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> heard_;
  std::unique_ptr<net::Endpoint> endpoint_;  // last: it calls what stands above
};

/// Stops the worker's compute thread where it begins a forward, until it is let go.
class Gate {
 public:
  void Enter(chaos::WorkPhase phase) {
    if (phase != chaos::WorkPhase::kForward) return;
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait_for(lock, kPatience, [&] { return arrived_ <= open_; });
  }
  void AwaitArrival(int count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return arrived_ >= count; }));
  }
  int arrived() {
    const std::lock_guard lock(mutex_);
    return arrived_;
  }
  /// The first `count` forwards may pass.
  void Open(int count) {
    const std::lock_guard lock(mutex_);
    open_ = count;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0, open_ = 0;
};

class WorkerTest : public testing::Test {
 protected:
  void Start(std::function<void(chaos::WorkPhase, Step)> at_phase = nullptr) {
    auto worker = StartWorker(network_, {.id = kWorker, .at_phase = std::move(at_phase)});
    ASSERT_TRUE(worker.ok()) << worker.status().ToString();
    worker_ = *std::move(worker);
    const Hello hello = trainer_.Await<Hello>();
    api::SwarmJob job = TinyJob(folder_);
    job.spec.pipeline.boundary.layers.emplace();
    trainer_.Say(Welcome{.term = kTerm, .job_json = api::ToJsonText(job), .stage_count = 1});
    trainer_.Await<Ready>();
    trainer_.Say(Roster{.term = kTerm,
                        .epoch = Epoch(1),
                        .members = {{.id = kWorker, .incarnation = hello.incarnation}}});
  }

  /// The whole model's pass of a microbatch.
  static Forward PassOf(std::uint64_t step, std::uint64_t microbatch) {
    const std::vector<std::int32_t> ids(17, 65);
    Forward frame;
    frame.key = {Generation(0), Step(step), Microbatch(microbatch), StageIndex(0),
                 Attempt{kTerm, 1 + microbatch}};
    frame.version = Version(step);
    frame.hops = {{kWorker, frame.key.attempt}};
    frame.end = StageIndex(1);
    frame.tokens = Bytes::Copy(ids.data(), ids.size() * sizeof(ids[0]));
    frame.sequences = 1;
    frame.tokens_per_sequence = 17;
    return frame;
  }

  /// Until the trainer hears that the microbatch is folded.
  void AwaitFold(std::uint64_t microbatch) {
    for (bool folded = false; !folded;) {
      const Progress progress = trainer_.Await<Progress>();
      if (progress.reports.empty()) return;
      for (const TaskReport& report : progress.reports) {
        folded |= report.event == TaskReport::Event::kFolded &&
                  report.key.microbatch == Microbatch(microbatch);
      }
    }
  }

  std::map<std::string_view, std::uint64_t> Refused() const {
    return worker_->metrics().refused.Read();
  }

  TemporaryFolder folder_;
  net::LoopbackNetwork network_;
  Trainer trainer_{network_};
  std::unique_ptr<stage::Worker> worker_;
};

TEST_F(WorkerTest, AForwardThatWasRevokedWhileItWaitedIsNotComputed) {
  Gate gate;
  Start([&](chaos::WorkPhase phase, Step) { gate.Enter(phase); });
  for (std::uint64_t m = 0; m < 3; ++m) trainer_.Say(PassOf(0, m));
  gate.AwaitArrival(1);
  for (std::uint64_t m = 0; m < 3; ++m) trainer_.Say(Revoke{kTerm, PassOf(0, m).key});
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(trainer_.Await<Revoked>().folded);
  // Other workers have computed them. The sum and the commit do not wait for the two that wait.
  trainer_.Say(Reduce{.term = kTerm, .k = {kTerm, 100}, .participants = {kWorker}});
  gate.Open(100);
  const Reduced reduced = trainer_.Await<Reduced>();
  protocol::Commit commit{.term = kTerm};
  commit.record.groups = {{reduced.group, {kTerm, 100}, reduced.digest}};
  trainer_.Say(commit);
  EXPECT_EQ(trainer_.Await<Committed>().step, Step(0));
  trainer_.Say(PassOf(1, 0));
  AwaitFold(0);
  EXPECT_EQ(gate.arrived(), 2);
}

TEST_F(WorkerTest, TokensThatAreNoIdsAreRefused) {
  Start();
  Forward frame = PassOf(0, 0);
  frame.tokens = Bytes::Copy(std::string(27, 'x'));
  trainer_.Say(frame);
  frame = PassOf(0, 1);
  frame.sequences = 2;
  trainer_.Say(frame);
  trainer_.Say(PassOf(0, 2));
  AwaitFold(2);
  EXPECT_EQ(Refused().at("tokens"), 2u);
}

TEST_F(WorkerTest, WhoOnlyLooksOnIsNotListenedTo) {
  Start();
  net::Recorder recorder;
  const WorkerId observer("observer/1");
  auto endpoint = network_.CreateEndpoint(observer, &recorder);
  ASSERT_TRUE(endpoint.ok());
  (*endpoint)->Connect(kWorker, {});
  ASSERT_TRUE(recorder.WaitForEvent("up w"));
  // Refused before it is looked at: the payload of a first stage is empty.
  Forward frame = PassOf(0, 0);
  frame.kind = TaskKind::kEvaluate;
  ASSERT_TRUE((*endpoint)->Send(kWorker, net::Lane::kData, {frame, Bytes::Copy("x")}).ok());
  while (Refused().at("from an onlooker") == 0) std::this_thread::yield();
  trainer_.Say(PassOf(0, 0));
  AwaitFold(0);
}

TEST_F(WorkerTest, WhoIsSentAwayComesBackWithItsStateAndNothingElse) {
  Start();
  trainer_.Say(PassOf(0, 0));
  AwaitFold(0);
  trainer_.Say(Shutdown{.term = kTerm, .reason = "silent", .rejoin = true});
  EXPECT_EQ(worker_->Wait().code(), StatusCode::kAborted);
  auto kept = worker_->TakeState();
  ASSERT_NE(kept, nullptr);
  const HeldState held = kept->held();
  worker_.reset();
  auto worker = stage::Worker::Start(
      {.id = kWorker, .incarnation = Incarnation(2), .trainer = trainer::kTrainerId},
      [&](net::EndpointHandler* handler) { return network_.CreateEndpoint(kWorker, handler); },
      std::move(kept));
  ASSERT_TRUE(worker.ok()) << worker.status().ToString();
  const Hello hello = trainer_.Await<Hello>();
  EXPECT_FALSE(hello.serving);
  EXPECT_TRUE(hello.offers);
  EXPECT_EQ(hello.offer, held);
  api::SwarmJob job = TinyJob(folder_);
  job.spec.pipeline.boundary.layers.emplace();
  trainer_.Say(Welcome{.term = kTerm,
                       .job_json = api::ToJsonText(job),
                       .stage_count = 1,
                       .version = held.version,
                       .goes_on = true});
  EXPECT_EQ(trainer_.Await<Ready>().state, held.state);
  trainer_.Say(Roster{.term = kTerm,
                      .epoch = Epoch(2),
                      .members = {{.id = kWorker, .incarnation = Incarnation(2)}}});
  trainer_.Say(Reduce{.term = kTerm,
                      .k = {kTerm, 100},
                      .participants = {kWorker},
                      .claims = {StageIndex(0), {Microbatch(0)}}});
  EXPECT_TRUE(trainer_.Await<ReduceRefused>().folded.microbatches.empty());
}

TEST_F(WorkerTest, APeerMayCallBeforeTheEndpointIsInstalled) {
  net::Recorder recorder;
  auto early = network_.CreateEndpoint(WorkerId("v"), &recorder);
  ASSERT_TRUE(early.ok());
  (*early)->Connect(kWorker, {});
  auto worker = stage::Worker::Start({.id = kWorker, .trainer = trainer::kTrainerId},
                                     [&](net::EndpointHandler* handler) {
                                       auto endpoint = network_.CreateEndpoint(kWorker, handler);
                                       EXPECT_TRUE(recorder.WaitForEvent("up w"));
                                       handler->OnPeerUp(WorkerId("v"));
                                       std::this_thread::sleep_for(std::chrono::milliseconds(50));
                                       return endpoint;
                                     });
  ASSERT_TRUE(worker.ok());
  EXPECT_EQ(trainer_.Await<Hello>().id, kWorker);
}

}  // namespace
}  // namespace swarm::tests

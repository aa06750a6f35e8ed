// Trainers and workers as pods have them: no swarmctl, each trainer of a term on a machine of its
// own, one address in front of all of them, and an operator that says which workers leave and move.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/exit.h"
#include "base/host_port.h"
#include "base/metrics/testing/scrape.h"
#include "ctl/run/identity_files.h"
#include "tests/system/system_test.h"
#include "worker/net/grpc/grpc_endpoint.h"
#include "worker/storage/s3/testing/test_s3_server.h"
#include "worker/trainer/log/step_archive.h"
#include "worker/trainer/observer/observer.h"

namespace swarm::tests {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

/// One address in front of changing programs, as a Service is: bytes both ways. Threads: its own.
class Service {
 public:
  Service() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_, generic, size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    EXPECT_EQ(::getsockname(listener_, generic, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  }
  ~Service() {
    thread_.request_stop();
    thread_.join();
    for (const Pair& pair : pairs_) Close(pair);
    ::close(listener_);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  /// New connections go there; those that are open end.
  void PointTo(const std::string& target) {
    target_ = static_cast<std::uint16_t>(std::stoi(target.substr(target.rfind(':') + 1)));
    cut_ = true;
  }

 private:
  struct Pair {
    int a, b;
  };
  static sockaddr_in Loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }
  static void Close(const Pair& pair) {
    ::close(pair.a);
    ::close(pair.b);
  }
  void Accept() {
    const int a = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const int b = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = Loopback(target_);
    if (target_ == 0 ||
        ::connect(b, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      return Close({a, b});
    }
    pairs_.push_back({a, b});
  }
  static bool Copy(int from, int to) {
    char buffer[65536];
    const ssize_t n = ::recv(from, buffer, sizeof buffer, 0);
    for (ssize_t sent = 0; sent < n;) {
      const ssize_t m = ::send(to, buffer + sent, static_cast<std::size_t>(n - sent), MSG_NOSIGNAL);
      if (m <= 0) return false;
      sent += m;
    }
    return n > 0;
  }
  void Run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (cut_.exchange(false)) {
        for (const Pair& pair : pairs_) Close(pair);
        pairs_.clear();
      }
      std::vector<pollfd> ready{{listener_, POLLIN, 0}};
      for (const Pair& pair : pairs_) {
        ready.push_back({pair.a, POLLIN, 0});
        ready.push_back({pair.b, POLLIN, 0});
      }
      if (::poll(ready.data(), ready.size(), 20) <= 0) continue;
      std::vector<Pair> left;
      for (std::size_t i = 0; i < pairs_.size(); ++i) {
        const Pair& pair = pairs_[i];
        const bool open = (ready[2 * i + 1].revents == 0 || Copy(pair.a, pair.b)) &&
                          (ready[2 * i + 2].revents == 0 || Copy(pair.b, pair.a));
        if (open) {
          left.push_back(pair);
        } else {
          Close(pair);
        }
      }
      pairs_ = std::move(left);
      if (ready[0].revents != 0) Accept();
    }
  }

  const int listener_;
  std::uint16_t port_ = 0;
  std::atomic<std::uint16_t> target_ = 0;
  std::atomic<bool> cut_ = false;
  std::vector<Pair> pairs_;  // of the thread
  std::jthread thread_;
};

class SystemPodsTest : public SystemTest {
 protected:
  SystemPodsTest()
      : pods_({std::string(SWARM_BIN_DIR) + "/swarm-worker", folder_.path() / "pods"}) {
    job_.spec.model.config.num_hidden_layers = 2;
    job_.spec.training.accumulation = api::Accumulation::kExact;
    job_.spec.training.maxSteps = kNeverReached;
    job_.spec.pipeline.stages = 2;
    job_.spec.checkpoint = {.uri = Path("bucket"), .intervalSteps = 20};
  }

  /// The trainer of a term, in its own folder unless told otherwise; the service leads to it.
  void StartTrainer(std::uint64_t term, std::vector<std::string> more = {}, std::string out = {}) {
    BeginTrainer(term, std::move(more), std::move(out));
    AwaitTrainer(term);
  }
  void BeginTrainer(std::uint64_t term, std::vector<std::string> more = {}, std::string out = {}) {
    if (out.empty()) out = TrainerName(term);
    ASSERT_TRUE(WriteFile(Path("job.json"), api::ToJsonText(job_)).ok());
    std::filesystem::create_directories(Path(out));
    std::vector<std::string> arguments = ToArguments({.role = WorkerRole::kTrainer,
                                                      .job_uid = "job-1",
                                                      .plaintext = true,
                                                      .job = Path("job.json"),
                                                      .out = Path(out),
                                                      .address_file = AddressFile(term),
                                                      .layout = {2, 2},
                                                      .term = term,
                                                      .resume = true,
                                                      .keep_workers = true});
    arguments.insert(arguments.end(), more.begin(), more.end());
    ASSERT_TRUE(pods_.Start({TrainerName(term), WorkerRole::kTrainer, arguments}).ok());
  }
  void AwaitTrainer(std::uint64_t term) {
    Await("the trainer", [&] { return std::filesystem::exists(AddressFile(term)); });
    service_.PointTo(Content(TrainerName(term) + ".address"));
  }
  void StartWorkers(int begin, int end, const std::vector<std::string>& more = {}) {
    for (int i = begin; i < end; ++i) {
      const std::string name = "w" + std::to_string(i);
      std::vector<std::string> arguments = ToArguments({.role = WorkerRole::kStage,
                                                        .job_uid = "job-1",
                                                        .plaintext = true,
                                                        .id = name,
                                                        .trainer = trainer_,
                                                        .drain_seconds = 20});
      arguments.insert(arguments.end(), more.begin(), more.end());
      ASSERT_TRUE(pods_.Start({name, WorkerRole::kStage, arguments}).ok());
    }
  }
  /// A pod with two workers on the CPU: NAME-0 and NAME-1.
  void StartTwo(const std::string& name) {
    ASSERT_TRUE(pods_
                    .Start({name, WorkerRole::kStage,
                            ToArguments({.role = WorkerRole::kStage,
                                         .metrics_listen = "127.0.0.1:0",
                                         .metrics_address_file = Path("metrics/" + name),
                                         .job_uid = "job-1",
                                         .plaintext = true,
                                         .id = name,
                                         .trainer = service_.address(),
                                         .devices = {"cpu", "cpu"},
                                         .drain_seconds = 20})})
                    .ok());
  }
  void AwaitReady(const std::string& name) {
    Await(name + " to be ready", [&] {
      const std::string address = Content("metrics/" + name);
      return !address.empty() &&
             metrics::Get(address.substr(0, address.find('\n')), "/readyz").find(" 200 OK") !=
                 std::string::npos;
    });
  }
  std::string AddressFile(std::uint64_t term) const { return Path(TrainerName(term) + ".address"); }
  static std::string TrainerName(std::uint64_t term) { return "trainer-" + std::to_string(term); }

  void SignalPod(const std::string& name, int signal) {
    ASSERT_TRUE(pods_.Signal(name, signal).ok()) << name << "\n" << Log(name);
  }
  /// How it ended; a signal as a negative number.
  int EndOf(const std::string& name) {
    int end = 1000;
    Await("the end of " + name, [&] {
      for (const auto& pod : pods_.Observe()) {
        if (pod.name != name || pod.phase != Phase::kExited) continue;
        end = pod.exit_signal != 0 ? -pod.exit_signal : pod.exit_code;
      }
      return end != 1000;
    });
    return end;
  }
  bool Runs(const std::string& name) {
    for (const auto& pod : pods_.Observe()) {
      if (pod.name == name) return pod.phase == Phase::kRunning;
    }
    return false;
  }
  std::string Log(const std::string& name) { return Content("pods/" + name + ".log"); }
  std::size_t LinesOf(const std::string& file, const std::string& word) {
    std::istringstream in(Content(file));
    std::size_t count = 0;
    for (std::string line; std::getline(in, line);) count += line.find(word) != line.npos ? 1 : 0;
    return count;
  }
  void AwaitLines(const std::string& file, const std::string& word, std::size_t count) {
    Await(word + " in " + file, [&] { return LinesOf(file, word) >= count; });
  }
  void AwaitMoreStepsOf(std::uint64_t term, std::string out = {}) {
    const std::string file = (out.empty() ? TrainerName(term) : out) + "/steps.jsonl";
    AwaitLines(file, "loss", LinesOf(file, "loss") + 5);
  }
  /// Ends the job where it is, so that all can be compared.
  void StopTrainer(std::uint64_t term) {
    SignalPod(TrainerName(term), SIGTERM);
    EXPECT_EQ(EndOf(TrainerName(term)), WorkerExit::kStopped) << Log(TrainerName(term));
  }

  /// (step, loss) of each line "step N loss L ..." in the logs of the trainers.
  std::map<std::uint64_t, std::string> LoggedLosses(std::uint64_t terms) {
    std::map<std::uint64_t, std::string> losses;
    for (std::uint64_t term = 1; term <= terms; ++term) {
      std::istringstream in(Log(TrainerName(term)));
      for (std::string line; std::getline(in, line);) {
        const std::size_t at = line.find(" step ");
        if (at == line.npos || line.find(" loss ") == line.npos) continue;
        std::istringstream words(line.substr(at));
        std::string word, loss;
        std::uint64_t step = 0;
        words >> word >> step >> word >> loss;
        const auto [it, fresh] = losses.try_emplace(step, loss);
        EXPECT_EQ(it->second, loss) << "step " << step;
      }
    }
    return losses;
  }
  void ExpectReference(const std::vector<double>& losses) {
    job_.spec.training.maxSteps = losses.size();
    const auto expected = Losses(Reference());
    ASSERT_EQ(expected.size(), losses.size());
    for (std::size_t t = 0; t < losses.size(); ++t) ASSERT_EQ(losses[t], expected[t]) << t;
  }

  Service service_;
  std::string trainer_ = service_.address();  ///< where workers dial it
  Processes pods_;
};

TEST_F(SystemPodsTest, ATrainerOnAnotherMachineTakesOverAndTheCurveIsWhole) {
  StartTrainer(1);
  StartWorkers(0, 4);
  AwaitLines("trainer-1/events.jsonl", "CheckpointWritten", 2);
  AwaitMoreStepsOf(1);
  SignalPod("trainer-1", SIGKILL);
  EXPECT_EQ(EndOf("trainer-1"), -SIGKILL);
  StartTrainer(2);
  AwaitLines("trainer-2/events.jsonl", "TookOver", 1);
  EXPECT_THAT(Content("trainer-2/events.jsonl"), HasSubstr("4 workers of 4"));
  AwaitMoreStepsOf(2);
  StopTrainer(2);
  EXPECT_EQ(LinesOf("trainer-2/events.jsonl", "RolledBack"), 0u);

  // From the logs of the two pods alone, the second of which may have died as well.
  std::vector<double> losses;
  for (const auto& [step, loss] : LoggedLosses(2)) {
    ASSERT_EQ(step, losses.size());
    losses.push_back(std::stod(loss));
  }
  EXPECT_GT(losses.size(), 40u);
  // The log beside the checkpoints has the same. The workers knew the steps that the first trainer
  // had not written there.
  const auto storage = storage::Storage::Open(Path("bucket"));
  ASSERT_TRUE(storage.ok());
  const auto kept = trainer::ReadSteps(**storage);
  ASSERT_TRUE(kept.ok()) << kept.status().ToString();
  EXPECT_EQ(kept->size(), losses.size());
  for (const auto& [step, line] : *kept) {
    EXPECT_EQ(nlohmann::json::parse(line).at("loss").get<double>(), losses.at(step));
  }
  const auto lines = ReadLines(Path("trainer-2/steps.jsonl"));
  EXPECT_EQ(lines.front().at("step"), 0) << "the second has read what the first had left";
  ExpectReference(losses);
}

TEST_F(SystemPodsTest, AJobOverIPv6HasTheLossesOfAnyOther) {
  if (!HasIPv6()) GTEST_SKIP() << "this machine has no IPv6";
  const auto six = [&](const std::string& name) -> std::vector<std::string> {
    return {"--listen=[::1]:0", "--metrics-listen=[::1]:0",
            "--metrics-address-file=" + Path("metrics/" + name)};
  };
  BeginTrainer(1, six("trainer"));
  Await("the trainer", [&] { return std::filesystem::exists(AddressFile(1)); });
  const std::string address = Content("trainer-1.address");
  trainer_ = address.substr(0, address.find('\n'));
  EXPECT_THAT(trainer_, StartsWith("[::1]:"));
  for (int i = 0; i < 4; ++i) StartWorkers(i, i + 1, six("w" + std::to_string(i)));
  for (const char* name : {"trainer", "w0", "w1", "w2", "w3"}) AwaitReady(name);
  AwaitMoreStepsOf(1);
  StopTrainer(1);
  ExpectReference(Losses(Path("trainer-1")));
}

TEST_F(SystemPodsTest, APodOfTwoWorkersLosesOneAndIsLostAndAnotherLeavesInOrder) {
  const std::string events = "trainer-1/events.jsonl";
  StartTrainer(1, {"--balance=None"});  // a move is a leave, too
  for (const char* name : {"p", "q"}) StartTwo(name);
  for (const char* name : {"p", "q"}) AwaitReady(name);
  AwaitMoreStepsOf(1);
  const std::string address = Content("metrics/p");
  const std::string text = metrics::Scrape(address.substr(0, address.find('\n')));
  EXPECT_THAT(text, HasSubstr("worker=\"p-0\""));
  EXPECT_THAT(text, HasSubstr("worker=\"p-1\""));
  EXPECT_EQ(metrics::WhatPromtoolSays(text), "");

  // A worker crashes: the other goes on, and the launcher starts it again.
  const auto before = Programs();
  Signal("p-0", SIGKILL);
  AwaitLines(events, "WorkerLost", 1);
  AwaitLines(events, "p-0 serves stage", 2);
  AwaitReady("p");
  AwaitMoreStepsOf(1);
  EXPECT_EQ(Programs().at("p-1"), before.at("p-1"));
  EXPECT_NE(Programs().at("p-0"), before.at("p-0"));
  EXPECT_EQ(LinesOf(events, "WorkerLost"), 1u);

  // The launcher is killed: its workers are gone, and the job goes on with the other pod.
  SignalPod("p", SIGKILL);
  Await("the end of the pod's workers", [&] {
    const auto programs = Programs();
    return !programs.contains("p") && !programs.contains("p-0") && !programs.contains("p-1");
  });
  AwaitLines(events, "WorkerLost", 3);
  AwaitMoreStepsOf(1);

  // A pod that is told to end leaves in order once there is another.
  StartTwo("r");
  AwaitReady("r");
  SignalPod("q", SIGTERM);
  EXPECT_EQ(EndOf("q"), -SIGTERM) << Log("q");
  EXPECT_EQ(LinesOf(events, "WorkerLeft"), 2u);
  AwaitMoreStepsOf(1);
  EXPECT_TRUE(Runs("r"));
  StopTrainer(1);
  EXPECT_EQ(LinesOf(events, "WorkerLost"), 3u) << Content(events);
  EXPECT_EQ(LinesOf(events, "StageLost"), 0u);
  ExpectReference(Losses(Path("trainer-1")));
}

TEST_F(SystemPodsTest, AStoppedTrainerThatWakesWritesNothing) {
  StartTrainer(1, {}, "shared");
  StartWorkers(0, 4);
  AwaitLines("shared/events.jsonl", "CheckpointWritten", 1);
  SignalPod("trainer-1", SIGSTOP);
  StartTrainer(2, {}, "shared");
  AwaitLines("shared/events.jsonl", "TookOver", 1);
  AwaitMoreStepsOf(2, "shared");
  const std::size_t events = LinesOf("shared/events.jsonl", "WorkerLost");
  SignalPod("trainer-1", SIGCONT);
  EXPECT_EQ(EndOf("trainer-1"), WorkerExit::kSuperseded) << Log("trainer-1");
  EXPECT_THAT(Log("trainer-1"), HasSubstr("a later trainer writes this job's files"));
  AwaitMoreStepsOf(2, "shared");
  StopTrainer(2);
  EXPECT_EQ(LinesOf("shared/events.jsonl", "WorkerLost"), events);
  ExpectReference(Losses(Path("shared")));  // each step once, in order
}

TEST_F(SystemPodsTest, AStoppedTrainerElsewhereIsFencedByTheCheckpoints) {
  job_.spec.checkpoint.intervalSteps = 1;
  StartTrainer(1);
  StartWorkers(0, 4);
  AwaitLines("trainer-1/events.jsonl", "CheckpointWritten", 1);
  SignalPod("trainer-1", SIGSTOP);
  StartTrainer(2);
  AwaitLines("trainer-2/events.jsonl", "TookOver", 1);
  AwaitMoreStepsOf(2);
  // Its workers have gone, so it has nothing to publish. It finds out by a periodic look.
  SignalPod("trainer-1", SIGCONT);
  EXPECT_EQ(EndOf("trainer-1"), WorkerExit::kSuperseded) << Log("trainer-1");
  AwaitMoreStepsOf(2);
  StopTrainer(2);
}

TEST_F(SystemPodsTest, ATrainerThatIsToldToEndLeavesItsWorkersToTheNext) {
  StartTrainer(1);
  StartWorkers(0, 4);
  AwaitMoreStepsOf(1);
  StopTrainer(1);
  EXPECT_THAT(Log("trainer-1"), HasSubstr("it can be resumed"));
  for (const char* name : {"w0", "w1", "w2", "w3"}) EXPECT_TRUE(Runs(name)) << Log(name);
  StartTrainer(2);
  AwaitLines("trainer-2/events.jsonl", "TookOver", 1);
  EXPECT_THAT(Content("trainer-2/events.jsonl"), HasSubstr("4 workers of 4"));
  AwaitMoreStepsOf(2);
  StopTrainer(2);
  ExpectReference(Losses(Path("trainer-2")));
}

TEST_F(SystemPodsTest, AJobThatIsSuspendedGoesOnFromItsCheckpointWithOtherWorkers) {
  StartTrainer(1);
  StartWorkers(0, 4);
  AwaitMoreStepsOf(1);
  StopTrainer(1);
  for (const char* name : {"w0", "w1", "w2", "w3"}) {
    SignalPod(name, SIGTERM);
    EXPECT_EQ(EndOf(name), -SIGTERM);
  }
  const std::size_t done = Losses(Path("trainer-1")).size();
  StartTrainer(2);
  StartWorkers(4, 8);
  AwaitLines("trainer-2/events.jsonl", "TrainingStarted", 1);
  EXPECT_THAT(Content("trainer-2/events.jsonl"), HasSubstr("from version " + std::to_string(done)));
  AwaitMoreStepsOf(2);
  StopTrainer(2);
  ExpectReference(Losses(Path("trainer-2")));
}

TEST_F(SystemPodsTest, WorkersWithoutATrainerWaitAsLongAsTheyMay) {
  StartTrainer(1);
  StartWorkers(0, 4, {"--trainer-patience", "1"});
  AwaitMoreStepsOf(1);
  SignalPod("trainer-1", SIGKILL);
  for (const char* name : {"w0", "w1", "w2", "w3"}) {
    EXPECT_EQ(EndOf(name), WorkerExit::kNoTrainer) << Log(name);
  }
}

class SystemBucketTest : public SystemPodsTest {
 protected:
  SystemBucketTest() {
    ::setenv("AWS_ACCESS_KEY_ID", server_.access_key().c_str(), 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", server_.secret_key().c_str(), 1);
    job_.spec.storage.endpoint = server_.url();
    job_.spec.checkpoint.uri = "s3://bucket/runs/tiny";
  }
  storage::s3::TestS3Server server_;
};

TEST_F(SystemBucketTest, ABucketThatDoesNotAnswerAtTheStartIsWaitedFor) {
  server_.Pause();
  BeginTrainer(1);
  AwaitLines("pods/trainer-1.log", "waiting for the storage", 1);
  server_.Resume();
  AwaitTrainer(1);
  StartWorkers(0, 4);
  AwaitLines("trainer-1/events.jsonl", "CheckpointWritten", 1);
  SignalPod("trainer-1", SIGKILL);
  EXPECT_EQ(EndOf("trainer-1"), -SIGKILL);
  StartTrainer(2);
  AwaitLines("trainer-2/events.jsonl", "TookOver", 1);
  AwaitMoreStepsOf(2);
  StopTrainer(2);
  EXPECT_EQ(ReadLines(Path("trainer-2/steps.jsonl")).front().at("step"), 0);
}

TEST_F(SystemBucketTest, ProbesTellWhoLivesAndWhoServes) {
  const auto flags = [&](const std::string& name) {
    return std::vector<std::string>{"--metrics-listen", "127.0.0.1:0", "--metrics-address-file",
                                    Path(name + ".metrics")};
  };
  const auto answers = [&](const std::string& name, const std::string& page) {
    const std::string address = Content(name + ".metrics");
    return address.empty() ? "" : metrics::Get(address.substr(0, address.find('\n')), page);
  };
  const auto becomes = [&](const std::string& name, const std::string& page, const char* code) {
    Await(name + page + " to be " + code,
          [&] { return answers(name, page).starts_with(std::string("HTTP/1.1 ") + code); });
  };
  server_.Pause();
  BeginTrainer(1, flags("trainer"));
  becomes("trainer", "/healthz", "200");
  becomes("trainer", "/readyz", "503");
  EXPECT_THAT(answers("trainer", "/readyz"), HasSubstr("not serving yet"));
  server_.Resume();
  AwaitTrainer(1);
  becomes("trainer", "/readyz", "200");

  StartWorkers(0, 1, flags("w0"));
  becomes("w0", "/healthz", "200");
  becomes("w0", "/readyz", "503");
  StartWorkers(1, 4);
  becomes("w0", "/readyz", "200");
  EXPECT_THAT(answers("w0", "/metrics"), HasSubstr("swarmjob_worker_commits_total"));
  SignalPod("trainer-1", SIGKILL);
  EXPECT_EQ(EndOf("trainer-1"), -SIGKILL);
  becomes("w0", "/readyz", "200");  // it holds what the next trainer goes on with
}

TEST_F(SystemBucketTest, WhoIsToldToEndWhileItWaitsEnds) {
  server_.Pause();
  BeginTrainer(1);
  AwaitLines("pods/trainer-1.log", "waiting for the storage", 1);
  StopTrainer(1);
}

TEST_F(SystemBucketTest, TheWaitHasAnEnd) {
  server_.Pause();
  BeginTrainer(1, {"--storage-patience", "0"});
  EXPECT_EQ(EndOf("trainer-1"), WorkerExit::kStorageUnavailable);
  EXPECT_THAT(Log("trainer-1"), HasSubstr("the storage has not answered for"));
}

TEST_F(SystemBucketTest, ABucketThatRefusesIsToldAtOnce) {
  job_.spec.checkpoint.uri = "s3://bucket/forbidden/tiny";
  BeginTrainer(1);
  EXPECT_EQ(EndOf("trainer-1"), WorkerExit::kStorageRefused);
  EXPECT_THAT(Log("trainer-1"), HasSubstr("s3://bucket/forbidden/tiny"));
  EXPECT_THAT(Log("trainer-1"), HasSubstr("403"));
}

TEST_F(SystemBucketTest, WhatTheOutageKeptBackIsWrittenAfterIt) {
  StartTrainer(1);
  StartWorkers(0, 4);
  AwaitLines("trainer-1/events.jsonl", "CheckpointWritten", 1);
  server_.Pause();
  AwaitLines("trainer-1/events.jsonl", "CheckpointFailed", 1);
  AwaitMoreStepsOf(1);
  server_.Resume();
  AwaitLines("trainer-1/events.jsonl", "CheckpointWritten",
             LinesOf("trainer-1/events.jsonl", "CheckpointWritten") + 1);
  StopTrainer(1);
  const auto storage = storage::Storage::Open(job_.spec.checkpoint.uri, job_.spec.storage);
  ASSERT_TRUE(storage.ok());
  const auto kept = trainer::ReadSteps(**storage);
  ASSERT_TRUE(kept.ok()) << kept.status().ToString();
  EXPECT_EQ(kept->size(), Losses(Path("trainer-1")).size());
}

/// The operator's side: asks and directs.
class SystemDirectTest : public SystemPodsTest {
 protected:
  std::unique_ptr<trainer::Observer> Connect(const std::string& id) {
    auto observer = trainer::Observer::Start(
        {{"cluster", service_.address(), ""}}, std::chrono::milliseconds(50),
        [&](net::EndpointHandler* handler) -> Result<std::unique_ptr<net::Endpoint>> {
          ASSIGN_OR_RETURN(
              auto endpoint,
              net::GrpcEndpoint::Create(
                  {.self = net::WorkerId(id), .listen = "", .job = "job-1", .plaintext = true},
                  handler));
          return std::unique_ptr<net::Endpoint>(std::move(endpoint));
        });
    EXPECT_TRUE(observer.ok()) << observer.status().ToString();
    return *std::move(observer);
  }
  /// Until the trainer says something that fits.
  protocol::JobStatus AwaitStatus(trainer::Observer& observer, const std::string& what,
                                  const std::function<bool(const protocol::JobStatus&)>& fits) {
    protocol::JobStatus status;
    Await(what, [&] {
      if (auto heard = observer.Take()) status = *std::move(heard);
      return fits(status);
    });
    return status;
  }
  protocol::DirectReply Tell(trainer::Observer& observer, const protocol::Direct& direct) {
    std::optional<protocol::DirectReply> reply;
    Await("an answer", [&] {
      if (reply && reply->number == direct.number) return true;
      (void)observer.Send(direct);  // without a connection, again soon
      reply = observer.TakeReply();
      return reply && reply->number == direct.number;
    });
    return reply.value_or(protocol::DirectReply());
  }
};

TEST_F(SystemDirectTest, AnOperatorDrainsAndMovesAndNoStepIsLost) {
  StartTrainer(1);
  StartWorkers(0, 5);
  const auto operator_ = Connect("operator/a");
  const auto ready_of = [](const protocol::JobStatus& status, std::size_t stage) {
    if (status.stages.size() <= stage) return std::vector<protocol::WorkerId>();
    std::vector<protocol::WorkerId> ready;
    for (const auto& worker : status.stages[stage].workers) {
      if (worker.state == protocol::WorkerState::kReady) ready.push_back(worker.id);
    }
    return ready;
  };
  auto status = AwaitStatus(*operator_, "five workers that are ready", [&](const auto& s) {
    return s.state == protocol::JobState::kTraining &&
           ready_of(s, 0).size() + ready_of(s, 1).size() == 5 && s.balance.by_operator;
  });
  EXPECT_EQ(status.term.value, 1u);
  const std::size_t larger = ready_of(status, 0).size() > ready_of(status, 1).size() ? 0 : 1;
  const protocol::WorkerId mover = ready_of(status, larger).front();
  const protocol::StageIndex to(1 - larger);
  const auto moved = Tell(*operator_, {.leader_term = 3, .number = 1, .moves = {{mover, to}}});
  EXPECT_TRUE(moved.accepted) << moved.why;
  status = AwaitStatus(*operator_, "the move", [&](const auto& s) {
    const auto ready = ready_of(s, to.value);
    return std::find(ready.begin(), ready.end(), mover) != ready.end();
  });
  EXPECT_EQ(status.counts.moves, 1u);
  EXPECT_TRUE(Runs(mover.value)) << "it has begun anew, and is the same pod";

  const auto drained = Tell(*operator_, {.leader_term = 3, .number = 2, .drain = {mover}});
  EXPECT_TRUE(drained.accepted) << drained.why;
  EXPECT_EQ(EndOf(mover.value), WorkerExit::kOk) << Log(mover.value);

  const auto other = Connect("operator/b");
  const auto stale =
      Tell(*other, {.leader_term = 2, .number = 3, .drain = {ready_of(status, 0)[0]}});
  EXPECT_FALSE(stale.accepted);
  EXPECT_EQ(stale.leader_term, 3u);
  const auto observer = Connect("observer/1");
  EXPECT_FALSE(Tell(*observer, {.leader_term = 9, .number = 4}).accepted);

  status = AwaitStatus(*operator_, "a status", [](const auto& s) { return s.counts.leaves == 1; });
  EXPECT_EQ(status.counts.evictions, 0u);
  AwaitMoreStepsOf(1);
  StopTrainer(1);
  ExpectReference(Losses(Path("trainer-1")));
}

TEST_F(SystemDirectTest, LossesAreToldWithTheirKind) {
  StartTrainer(1);
  StartWorkers(0, 4);
  const auto observer = Connect("observer/1");
  AwaitStatus(*observer, "training",
              [](const auto& s) { return s.state == protocol::JobState::kTraining; });
  SignalPod("w1", SIGKILL);
  const auto status =
      AwaitStatus(*observer, "the loss", [](const auto& s) { return !s.evicted.empty(); });
  EXPECT_EQ(status.evicted[0].worker.value, "w1");
  EXPECT_EQ(status.evicted[0].cause, protocol::EvictionCause::kDisconnected);
  EXPECT_NEAR(status.evicted[0].time, static_cast<double>(::time(nullptr)), 30);
  AwaitStatus(*observer, "the recovery", [](const auto& s) { return s.counts.recoveries == 1; });
  StopTrainer(1);
}

}  // namespace
}  // namespace swarm::tests

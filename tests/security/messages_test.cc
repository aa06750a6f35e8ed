// The table of docs/security.md holds: which messages of the protocol a trainer and a worker take
// from whom, over TLS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "tests/security/access_table.h"
#include "tests/security/callers.h"
#include "tests/swarm/local_swarm.h"
#include "worker/net/grpc/grpc_endpoint.h"
#include "worker/net/grpc/relay/relay_hello.h"
#include "worker/net/testing/recorder.h"
#include "worker/net/wire/wire.h"

namespace swarm::security {
namespace {

using net::WorkerId;
using protocol::Message;

const WorkerId kWorker("here");

/// As whom a program of the role speaks.
WorkerId NameOf(const std::string& role) {
  static const std::map<std::string, std::string> kNames{
      {"worker", "worker-0"},     {"revoked worker", "joined-1"}, {"trainer", "trainer"},
      {"observer", "observer/1"}, {"operator", "operator/1"},     {"home", "home"},
      {"satellite", "west"},      {"earlier satellite", "west"},  {"revoked satellite", "east"}};
  const auto found = kNames.find(role);
  return WorkerId(found == kNames.end() ? "joined-0" : found->second);
}

bool Await(const std::function<bool()>& condition) {
  const Timepoint deadline = Clock::now() + std::chrono::minutes(1);
  while (!condition() && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

net::GrpcOptions OptionsOf(const Callers& callers, const WorkerId& id,
                           const identity::KeyPair& pair) {
  net::GrpcOptions options;
  options.self = id;
  options.job = kJob;
  options.tls_pem = net::TlsPem{callers.job.pair().certificate, pair.certificate, pair.key};
  return options;
}

/// Opens both lanes of a connection, as a program of the role. Whether the server accepts them.
bool Opens(const Callers& callers, const std::string& role, const std::string& address) {
  net::StreamHello hello;
  hello.job = kJob;
  hello.id = NameOf(role);
  hello.incarnation = 5;
  hello.connection = 1;
  net::RawCaller control(address, net::RawCredentials(callers.PairOf(role)));
  net::RawCaller data(address, net::RawCredentials(callers.PairOf(role)));
  (void)control.WriteHello(hello);
  hello.lane = net::Lane::kData;
  (void)data.WriteHello(hello);
  return control.Read().has_value();
}

/// Whether the trainer joins a call of a program of the role with that of a worker that waits.
bool IsJoined(const Callers& callers, const std::string& role, const std::string& address) {
  const WorkerId called("called");
  net::RawCaller waiting(
      address,
      net::RawCredentials(*callers.job.Issue("x", identity::WorkerUri(kJob, called.value))),
      net::kRelayMethod);
  (void)waiting.Write(net::EncodeRelayHello({kJob, called, {}}));
  net::RawCaller caller(address, net::RawCredentials(callers.PairOf(role)), net::kRelayMethod);
  if (!caller.Write(net::EncodeRelayHello({kJob, NameOf(role), called}))) return false;
  (void)waiting.Write("welcome");
  return caller.Read() == "welcome";
}

/// A program of a role that is let in.
class Caller {
 public:
  Caller(const Callers& callers, const std::string& role, const WorkerId& server,
         const std::string& address)
      : server_(server) {
    net::GrpcOptions options = OptionsOf(callers, NameOf(role), *callers.PairOf(role));
    options.listen.clear();
    auto made = net::GrpcEndpoint::Create(options, &heard);
    SWARM_CHECK(made.ok(), made.status().ToString());
    endpoint_ = *std::move(made);
    endpoint_->Connect(server, {{"cluster", address, ""}});
    EXPECT_TRUE(heard.WaitForEvent("up " + server.value)) << role;
  }

  void Say(const Message& message) {
    const Status said = endpoint_->Send(server_, net::Lane::kControl, {message, {}});
    EXPECT_TRUE(said.ok()) << said.ToString();
  }
  /// What has come of this kind.
  template <typename M>
  std::vector<M> Heard() const {
    std::vector<M> found;
    for (const auto& arrival : heard.arrivals()) {
      if (const M* m = std::get_if<M>(&arrival.envelope.message)) found.push_back(*m);
    }
    return found;
  }
  /// The answer to an order that orders nothing: behind those to all that was said before.
  protocol::DirectReply AskForNothing() {
    Say(protocol::Direct{.leader_term = 1, .number = 9});
    EXPECT_TRUE(Await([this] { return !Heard<protocol::DirectReply>().empty(); }));
    const auto replies = Heard<protocol::DirectReply>();
    return replies.empty() ? protocol::DirectReply() : replies.back();
  }

  net::Recorder heard;

 private:
  const WorkerId server_;
  std::unique_ptr<net::GrpcEndpoint> endpoint_;  // last: it calls `heard`
};

class TrainerUnderTest {
 public:
  explicit TrainerUnderTest(const Callers& callers) {
    std::ofstream(folder_ / "revoked") << "joined-1\n";
    trainer::TrainerOptions options;
    options.job = tests::TinyJob(folder_);
    options.job_uid = kJob;
    options.replicas = {1};
    options.out_dir = folder_ / "out";
    auto made = trainer::Trainer::Start(
        options, [&](net::EndpointHandler* handler) -> Result<std::unique_ptr<net::Endpoint>> {
          auto wire = OptionsOf(callers, trainer::kTrainerId, *callers.PairOf("trainer"));
          wire.listen = "127.0.0.1:0";
          wire.relays = true;
          wire.revocations = std::make_shared<net::Revocations>(wire.job, folder_ / "revoked");
          ASSIGN_OR_RETURN(auto endpoint, net::GrpcEndpoint::Create(wire, handler));
          return std::unique_ptr<net::Endpoint>(std::move(endpoint));
        });
    SWARM_CHECK(made.ok(), made.status().ToString());
    trainer = *std::move(made);
  }
  std::string address() const { return trainer->addresses()[0].dial; }

 private:
  TemporaryFolder folder_;

 public:
  std::unique_ptr<trainer::Trainer> trainer;
};

class WorkerUnderTest {
 public:
  explicit WorkerUnderTest(const Callers& callers) {
    std::ofstream(folder_ / "revoked") << "joined-1\n";
    stage::WorkerOptions options;
    options.id = kWorker;
    options.trainer = trainer::kTrainerId;
    auto made = stage::Worker::Start(
        options, [&](net::EndpointHandler* handler) -> Result<std::unique_ptr<net::Endpoint>> {
          auto wire = OptionsOf(callers, kWorker,
                                *callers.job.Issue("x", identity::WorkerUri(kJob, kWorker.value)));
          wire.listen = "127.0.0.1:0";
          wire.revocations = std::make_shared<net::Revocations>(wire.job, folder_ / "revoked");
          ASSIGN_OR_RETURN(auto endpoint, net::GrpcEndpoint::Create(wire, handler));
          address = endpoint->addresses()[0].dial;
          return std::unique_ptr<net::Endpoint>(std::move(endpoint));
        });
    SWARM_CHECK(made.ok(), made.status().ToString());
    worker = *std::move(made);
  }
  bool has_ended() const {
    return worker->ended().wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  std::uint64_t Refused(std::string_view reason) const {
    const auto counts = worker->metrics().refused.Read();
    const auto found = counts.find(reason);
    return found == counts.end() ? 0 : found->second;
  }
  /// How it took an order of a trainer to end, behind all that was said before.
  bool Obeys(Caller& caller) {
    const auto refused = [this] {
      return Refused("control from a peer") + Refused("from an onlooker");
    };
    const std::uint64_t before = refused();
    caller.Say(protocol::Shutdown{.term = protocol::Term(99), .reason = "a test says so"});
    EXPECT_TRUE(Await([&] { return has_ended() || refused() > before; }));
    return has_ended();
  }

 private:
  TemporaryFolder folder_;

 public:
  std::string address;
  std::unique_ptr<stage::Worker> worker;
};

/// Whether the trainer does for a program of the role what the row is about.
bool TrainerTakes(const std::string& what, const Callers& callers, const std::string& role) {
  if (what == "Relay.Join") return IsJoined(callers, role, TrainerUnderTest(callers).address());
  if (TrainerUnderTest at(callers); !Opens(callers, role, at.address())) return false;
  if (what == "Transport.Exchange") return true;
  TrainerUnderTest at(callers);
  Caller caller(callers, role, trainer::kTrainerId, at.address());
  if (what.starts_with("Direct")) return caller.AskForNothing().accepted;
  if (what.starts_with("Observe")) {
    caller.Say(protocol::Observe{});
    caller.AskForNothing();
    return !caller.Heard<protocol::JobStatus>().empty();
  }
  EXPECT_TRUE(what.starts_with("all others")) << what;
  caller.Say(protocol::Hello{.id = NameOf(role), .incarnation = protocol::Incarnation(1)});
  caller.AskForNothing();
  return !caller.Heard<protocol::Welcome>().empty();
}

bool WorkerTakes(const std::string& what, const Callers& callers, const std::string& role) {
  if (WorkerUnderTest at(callers); !Opens(callers, role, at.address)) return false;
  if (what == "Transport.Exchange") return true;
  WorkerUnderTest at(callers);
  Caller caller(callers, role, kWorker, at.address);
  if (what.starts_with("orders")) return at.Obeys(caller);
  if (what.starts_with("data by a detour")) {
    const auto header = net::EncodeHeader(protocol::ReduceChunk{});
    caller.Say(protocol::Relayed{WorkerId("another"), kWorker, *header});
    at.Obeys(caller);
    return at.worker->traffic().messages_refused == 0;
  }
  EXPECT_TRUE(what.starts_with("data")) << what;
  caller.Say(protocol::PeerBeat{});
  at.Obeys(caller);
  return at.Refused("from an onlooker") == 0;
}

void ExpectTable(const std::string& server, const std::string& heading,
                 bool (*takes)(const std::string&, const Callers&, const std::string&)) {
  const Callers callers;
  for (const Access& row : AccessTo(server, heading)) {
    for (const std::string& role : AllRoles()) {
      EXPECT_EQ(takes(row.what, callers, role), row.allowed.contains(role))
          << row.what << " by " << role;
    }
  }
}

TEST(MessagesTest, WhoMayConnectIsAsTheTableSays) {
  ExpectTable("trainer", "Calls", TrainerTakes);
  ExpectTable("worker", "Calls", WorkerTakes);
}

TEST(MessagesTest, ATrainerTakesFromEachRoleWhatTheTableSays) {
  ExpectTable("trainer", "Messages of the protocol", TrainerTakes);
}

TEST(MessagesTest, AWorkerTakesFromEachRoleWhatTheTableSays) {
  ExpectTable("worker", "Messages of the protocol", WorkerTakes);
}

/// One of each kind.
template <std::size_t... kIndexes>
std::vector<Message> OfEachKind(std::index_sequence<kIndexes...>) {
  return {Message(std::in_place_index<kIndexes>)...};
}
std::vector<Message> OfEachKind() {
  return OfEachKind(std::make_index_sequence<std::variant_size_v<Message>>());
}

TEST(MessagesTest, NothingThatAnOnlookerSaysEndsAJobOrGivesItAPart) {
  const Callers callers;
  for (const std::string role : {"observer", "operator"}) {
    TrainerUnderTest at(callers);
    Caller caller(callers, role, trainer::kTrainerId, at.address());
    for (const Message& message : OfEachKind()) {
      if (!std::holds_alternative<protocol::Direct>(message)) caller.Say(message);
    }
    // A trainer of a later term would end this one, and a wrong job any.
    caller.Say(protocol::Hello{
        .id = NameOf(role), .incarnation = protocol::Incarnation(1), .term = protocol::Term(1000)});
    caller.Say(protocol::Holding{.term = protocol::Term(1000)});
    caller.Say(
        protocol::Failure{.reason = "x", .failure_class = protocol::FailureClass::kBadConfig});
    caller.AskForNothing();
    EXPECT_TRUE(caller.Heard<protocol::Welcome>().empty());
    EXPECT_TRUE(caller.Heard<protocol::Shutdown>().empty());
    const auto status = at.trainer->StatusWithin(std::chrono::seconds(60));
    ASSERT_TRUE(status);
    EXPECT_EQ(status->state, protocol::JobState::kWaiting);
  }
}

TEST(MessagesTest, NothingThatAnOnlookerSaysReachesAWorker) {
  const Callers callers;
  for (const std::string role : {"observer", "operator"}) {
    WorkerUnderTest at(callers);
    Caller caller(callers, role, kWorker, at.address);
    for (const Message& message : OfEachKind()) caller.Say(message);
    EXPECT_TRUE(Await([&] { return at.Refused("from an onlooker") == OfEachKind().size(); }));
    EXPECT_FALSE(at.has_ended());
  }
}

}  // namespace
}  // namespace swarm::security

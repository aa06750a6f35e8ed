// The HTTP beneath the client: limits of time and size, connections, TLS.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "base/identity/authority.h"
#include "operator/kube/config/config.h"
#include "operator/kube/testing/api_server_test.h"
#include "operator/kube/transport/exchange.h"

namespace swarm::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

std::shared_ptr<HttpTransport> Transport(const CpprestOptions& options) {
  auto transport = MakeCpprestTransport(options);
  EXPECT_TRUE(transport.ok()) << transport.status().ToString();
  return *transport;
}

Result<HttpResponse> Get(HttpTransport& transport, const std::string& target,
                         const SendLimits& limits = {}) {
  return transport.Send({"GET", target, {}, ""}, limits, {});
}

TEST(TransportTest, ARequestArrivesAsItWasMadeAndSoDoesItsAnswer) {
  ScriptedServer server;
  server.ThenAnswer(201, "made", {{"X-Thing", "a"}});
  const auto transport = Transport({.server = server.url()});
  const auto answer =
      transport->Send({"PATCH",
                       "/apis/x/v1/y?fieldManager=me&labelSelector=a%3Db%2Cc",
                       {{"content-type", "application/apply-patch+yaml"}, {"user-agent", "test/1"}},
                       "{\"a\":1}"},
                      {}, {});
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->head.status, 201);
  EXPECT_EQ(answer->head.headers.at("x-thing"), "a");
  EXPECT_EQ(answer->body, "made");
  const SeenRequest seen = server.seen()[0];
  EXPECT_EQ(seen.method, "PATCH");
  EXPECT_EQ(seen.target, "/apis/x/v1/y?fieldManager=me&labelSelector=a%3Db%2Cc");
  EXPECT_EQ(seen.headers.at("content-type"), "application/apply-patch+yaml");
  EXPECT_EQ(seen.headers.at("user-agent"), "test/1");
  EXPECT_EQ(seen.body, "{\"a\":1}");
}

TEST(TransportTest, TheServersUrlMayHaveAPath) {
  ScriptedServer server;
  server.ThenAnswer(200, "");
  const auto transport = Transport({.server = server.url() + "/clusters/one"});
  EXPECT_TRUE(Get(*transport, "/api/v1/pods?limit=5").ok());
  EXPECT_EQ(server.seen()[0].target, "/clusters/one/api/v1/pods?limit=5");
  EXPECT_EQ(transport->host(), server.host());
}

TEST(TransportTest, ARedirectIsAnAnswerAndIsNotFollowed) {
  ScriptedServer thief;
  ScriptedServer server;
  server.ThenAnswer(302, "", {{"Location", thief.url() + "/steal"}});
  const auto transport = Transport({.server = server.url()});
  const auto answer =
      transport->Send({"GET", "/a", {{"authorization", "Bearer secret"}}, ""}, {}, {});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->head.status, 302);
  EXPECT_EQ(thief.connections(), 0);
}

TEST(TransportTest, ALimitOfTimeHolds) {
  ScriptedServer server;
  const auto transport = Transport({.server = server.url()});
  const auto answer = Get(*transport, "/silent", {.timeout = milliseconds(30)});
  EXPECT_EQ(answer.status().code(), StatusCode::kDeadlineExceeded);
}

TEST(TransportTest, ALimitOfTimeHoldsWithinABody) {
  ScriptedServer server;
  server.Then([](const SeenRequest&, Connection& peer) {
    peer.BeginChunks();
    peer.Chunk("a");
    peer.Hold();
  });
  const auto transport = Transport({.server = server.url()});
  const auto answer = Get(*transport, "/slow", {.timeout = milliseconds(100)});
  EXPECT_EQ(answer.status().code(), StatusCode::kDeadlineExceeded);
}

TEST(TransportTest, AStopEndsARequest) {
  ScriptedServer server;
  std::stop_source stop;
  server.Then([&](const SeenRequest&, Connection& peer) {
    stop.request_stop();
    peer.Hold();
  });
  const auto transport = Transport({.server = server.url()});
  const auto answer = transport->Send({"GET", "/a", {}, ""}, {}, stop.get_token());
  EXPECT_EQ(answer.status().code(), StatusCode::kCancelled);
}

TEST(TransportTest, ABodyAboveTheLimitIsRefused) {
  ScriptedServer server;
  server.ThenAnswer(200, std::string(200'000, 'x')).ThenAnswer(200, "small");
  const auto transport = Transport({.server = server.url()});
  EXPECT_EQ(Get(*transport, "/a", {.body_bytes_max = 100'000}).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_TRUE(Get(*transport, "/a", {.body_bytes_max = 100'000}).ok());
}

TEST(TransportTest, AConnectionThatIsCutOrRefusedIsUnavailable) {
  std::string nobody;
  {
    ScriptedServer server;
    nobody = server.url();
    server.Then([](const SeenRequest&, Connection& peer) {
      peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
      peer.Cut();
    });
    const auto transport = Transport({.server = server.url()});
    EXPECT_EQ(Get(*transport, "/a").status().code(), StatusCode::kUnavailable);
  }
  EXPECT_EQ(Get(*Transport({.server = nobody}), "/a").status().code(), StatusCode::kUnavailable);
}

TEST(TransportTest, ConnectionsAreUsedAgain) {
  ScriptedServer server;
  server.Otherwise([](const SeenRequest&, Connection& peer) { peer.Answer(200, "x"); });
  const auto transport = Transport({.server = server.url()});
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(Get(*transport, "/").ok());
  // A connection becomes free soon after its answer is complete, not at once.
  EXPECT_LT(server.connections(), 50);
}

TEST(TransportTest, AConnectionThatTheServerHasClosedMeanwhileIsReplaced) {
  ScriptedServer server;
  for (int i = 0; i < 5; ++i) {
    server.ThenAnswer(200, "stays").Then([](const SeenRequest&, Connection& peer) {
      peer.Answer(200, "goes");
      peer.Cut();
    });
  }
  const auto transport = Transport({.server = server.url()});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Get(*transport, "/stays" + std::to_string(i)).value().body, "stays");
    EXPECT_EQ(Get(*transport, "/goes" + std::to_string(i)).value().body, "goes");
  }
}

TEST(TransportTest, BytesOfAStreamComeBeforeItsEnd) {
  ScriptedServer server;
  server.Then([](const SeenRequest&, Connection& peer) {
    peer.BeginChunks();
    peer.Chunk("first");
    peer.Hold();
  });
  const auto transport = Transport({.server = server.url()});
  std::string got;
  const StreamSink sink{[](const HttpHead& head) { return head.status == 200; },
                        [&](std::string_view bytes) {
                          got = bytes;
                          return false;
                        }};
  EXPECT_TRUE(transport->Stream({"GET", "/", {}, ""}, {}, sink, {}).ok());
  EXPECT_EQ(got, "first");
}

TEST(TransportTest, AProxyIsAskedInTheServersStead) {
  ScriptedServer proxy;
  proxy.ThenAnswer(200, "by proxy");
  const auto transport =
      Transport({.server = "http://kubernetes.invalid:8080", .proxy = proxy.url()});
  const auto answer = Get(*transport, "/api");
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->body, "by proxy");
  EXPECT_EQ(proxy.seen()[0].target, "http://kubernetes.invalid:8080/api");
}

TEST(TransportTest, AProxyThatRefusesIsAnErrorAndHearsOnlyWhereWeGo) {
  ScriptedServer proxy;
  proxy.ThenAnswer(407, "");
  const std::string address = "http://me:p%40ss@" + proxy.host();
  const auto transport = Transport({.server = "https://kubernetes.invalid",
                                    .tls = [] { return TlsMaterial{}; },
                                    .proxy = address});
  const auto answer =
      transport->Send({"GET", "/api/secret", {{"authorization", "Bearer secret"}}, ""}, {}, {});
  EXPECT_EQ(answer.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(answer.status().message(), Not(HasSubstr("p@ss")));
  ASSERT_EQ(proxy.seen().size(), 1u);
  const SeenRequest seen = proxy.seen()[0];
  EXPECT_EQ(seen.method + " " + seen.target, "CONNECT kubernetes.invalid:443");
  EXPECT_EQ(seen.headers.at("proxy-authorization"), "Basic bWU6cEBzcw==");  // me:p@ss
  EXPECT_EQ(seen.headers.count("authorization"), 0u);
}

TEST(TransportTest, AProxyThatIsNoUrlIsRefusedWithoutItsPassword) {
  const Status status =
      MakeCpprestTransport({.server = "https://h", .proxy = "http://me:secret@h h:1"}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), Not(HasSubstr("secret")));
}

TEST(TransportTest, AUrlThatIsNoneIsRefused) {
  EXPECT_EQ(MakeCpprestTransport({.server = "not a url"}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(TransportTest, AnIPv6AddressIsRefusedWithWhatToDo) {
  const Status status = MakeCpprestTransport({.server = "https://[fd00::1]:6443"}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("give the server a name"));
}

class TlsTest : public ::testing::Test {
 protected:
  static identity::JobAuthority Authority() {
    auto authority = identity::JobAuthority::Create("1-2-3");
    EXPECT_TRUE(authority.ok());
    return std::move(authority).value();
  }
  static ServerIdentity IdentityOf(const identity::JobAuthority& authority) {
    const auto pair = authority.Issue("server", identity::TrainerUri("1-2-3"));
    EXPECT_TRUE(pair.ok());
    return {pair->certificate, pair->key, ""};
  }
  static TlsSource Trust(const identity::JobAuthority& authority) {
    return [ca = authority.pair().certificate] { return TlsMaterial{.ca = ca}; };
  }
};

TEST_F(TlsTest, AServerWithACertificateOfOurAuthorityIsTrusted) {
  const auto authority = Authority();
  ScriptedServer server(IdentityOf(authority));
  server.ThenAnswer(200, "secret");
  const auto transport = Transport({.server = server.url(), .tls = Trust(authority)});
  const auto answer = Get(*transport, "/");
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->body, "secret");
}

TEST_F(TlsTest, AServerOfAnotherAuthorityHearsNothingFromUs) {
  ScriptedServer server(IdentityOf(Authority()));
  const auto transport = Transport({.server = server.url(), .tls = Trust(Authority())});
  EXPECT_EQ(Get(*transport, "/").status().code(), StatusCode::kUnavailable);
  const auto nobody = Transport({.server = server.url(), .tls = [] { return TlsMaterial{}; }});
  EXPECT_EQ(Get(*nobody, "/").status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(server.seen().empty());
}

TEST_F(TlsTest, TheAuthoritiesOfTheMachineAreTrustedOnlyOnDemand) {
  const auto authority = Authority();
  const TemporaryFolder folder;
  // Where OpenSSL looks for them.
  ::setenv("SSL_CERT_FILE", folder.Put("ca.crt", authority.pair().certificate).c_str(), 1);
  ScriptedServer server(IdentityOf(authority));
  server.ThenAnswer(200, "hello");
  const auto ours = Transport({.server = server.url(), .tls = Trust(Authority())});
  EXPECT_EQ(Get(*ours, "/").status().code(), StatusCode::kUnavailable);
  const auto machines = Transport(
      {.server = server.url(), .tls = [] { return TlsMaterial{.machine_authorities = true}; }});
  EXPECT_TRUE(Get(*machines, "/").ok());
  ::unsetenv("SSL_CERT_FILE");
}

TEST_F(TlsTest, TheServersCertificateMustHaveTheNameThatIsAskedFor) {
  const auto authority = Authority();
  ScriptedServer server(IdentityOf(authority));
  server.ThenAnswer(200, "hello");
  const auto named = [&](const std::string& name) {
    return Transport({.server = server.url(), .tls = Trust(authority), .tls_server_name = name});
  };
  EXPECT_EQ(Get(*named("elsewhere.example"), "/").status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(server.seen().empty());
  const auto answer = Get(*named("localhost"), "/");
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->body, "hello");
}

// What a proxy does after CONNECT: passes bytes on, both ways, until both ends are closed.
void Tunnel(std::uint16_t port, Connection& peer) {
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  peer.Send("HTTP/1.1 200 Connection established\r\n\r\n");
  {
    const std::jthread back([&] {
      std::array<char, 4096> bytes;
      ssize_t got = 0;
      while ((got = recv(server, bytes.data(), bytes.size(), 0)) > 0) {
        peer.Send({bytes.data(), static_cast<std::size_t>(got)});
      }
    });
    std::array<char, 4096> bytes;
    std::size_t got = 0;
    while ((got = peer.Receive(bytes.data(), bytes.size())) > 0) {
      send(server, bytes.data(), got, MSG_NOSIGNAL);
    }
    shutdown(server, SHUT_RDWR);
  }
  close(server);
  peer.Cut();
}

TEST_F(TlsTest, AProxyTunnelsWhatItCannotRead) {
  const auto authority = Authority();
  ScriptedServer server(IdentityOf(authority));
  server.ThenAnswer(200, "one").ThenAnswer(200, "two");
  ScriptedServer proxy;
  // A tunnel for each connection: the second request may come before the first one's is free.
  proxy.Otherwise([](const SeenRequest& request, Connection& peer) {
    Tunnel(static_cast<std::uint16_t>(std::stoi(request.target.substr(10))), peer);
  });
  const auto transport =
      Transport({.server = server.url(), .tls = Trust(authority), .proxy = proxy.url()});
  EXPECT_EQ(Get(*transport, "/one").value().body, "one");
  EXPECT_EQ(Get(*transport, "/two").value().body, "two");
  EXPECT_EQ(proxy.seen().at(0).method + " " + proxy.seen().at(0).target,
            "CONNECT " + server.host());
}

TEST_F(TlsTest, AnybodyIsTrustedOnlyOnDemand) {
  ScriptedServer server(IdentityOf(Authority()));
  server.ThenAnswer(200, "hello");
  const auto transport =
      Transport({.server = server.url(), .tls = [] { return TlsMaterial{.insecure = true}; }});
  EXPECT_TRUE(Get(*transport, "/").ok());
}

TEST_F(TlsTest, OurCertificateIsShown) {
  const auto authority = Authority();
  ServerIdentity identity = IdentityOf(authority);
  identity.client_ca = authority.pair().certificate;
  ScriptedServer server(identity);
  server.ThenAnswer(200, "welcome");
  const auto without = Transport({.server = server.url(), .tls = Trust(authority)});
  EXPECT_FALSE(Get(*without, "/").ok());
  const auto ours = authority.Issue("operator", identity::OperatorUri("1-2-3"));
  const auto with =
      Transport({.server = server.url(), .tls = [&] {
                   return TlsMaterial{authority.pair().certificate, ours->certificate, ours->key};
                 }});
  EXPECT_TRUE(Get(*with, "/").ok());
}

TEST_F(TlsTest, AnAuthorityThatWasReplacedIsTrustedFromTheNextConnectionOn) {
  const auto before = Authority();
  const auto after = Authority();
  const TemporaryFolder folder;
  folder.Put("ca.crt", before.pair().certificate);
  folder.Put("namespace", "ns");
  folder.Put("token", "t");
  ScriptedServer server(IdentityOf(before));
  server
      .Then([](const SeenRequest&, Connection& peer) {
        peer.Answer(200, "one");
        peer.Cut();
      })
      .ThenAnswer(200, "two");
  FakeTiming timing;
  const auto config =
      InClusterConfig(folder.path(), [](const char*) { return std::string("1"); }, timing);
  ASSERT_TRUE(config.ok());
  const auto transport = Transport({.server = server.url(), .tls = config->tls});
  EXPECT_TRUE(Get(*transport, "/").ok());
  server.UseIdentity(IdentityOf(after));
  folder.Put("ca.crt", after.pair().certificate);
  const auto answer = Get(*transport, "/");
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->body, "two");
}

TEST(ExchangeTest, AboveItsBoundTheSenderWaitsUntilTheReaderHasTaken) {
  Exchange exchange(4);
  int room = 0;
  const auto on_room = [&](bool wanted) { room += wanted ? 1 : 100; };
  const Timepoint later = Clock::now() + seconds(10);
  exchange.Put("abcd", on_room);
  EXPECT_EQ(room, 1);
  exchange.Put("e", on_room);
  EXPECT_EQ(room, 1);
  EXPECT_EQ(exchange.WaitForBytes(later, {}).value(), "abcde");
  EXPECT_EQ(room, 2);
}

TEST(ExchangeTest, ASenderThatWaitsIsToldWhenNobodyWantsMore) {
  Exchange exchange(1);
  int told = 0;
  exchange.Put("abc", [&](bool wanted) { told += wanted ? 1 : 100; });
  exchange.Abandon();
  EXPECT_EQ(told, 100);
  exchange.Put("d", [&](bool wanted) { told += wanted ? 1 : 100; });
  EXPECT_EQ(told, 200);
}

TEST(ExchangeTest, WhatCameBeforeAFailureIsHandedOver) {
  Exchange exchange(100);
  const Timepoint later = Clock::now() + seconds(10);
  exchange.Put("good", [](bool) {});
  exchange.OnEnd(Unavailable("cut"));
  EXPECT_EQ(exchange.WaitForBytes(later, {}).value(), "good");
  EXPECT_EQ(exchange.WaitForBytes(later, {}).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace swarm::kube

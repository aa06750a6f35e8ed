// Which peers are accepted, and how certificates are replaced.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/host_port.h"
#include "base/testing/temporary_folder.h"
#include "worker/net/grpc/certificate.h"
#include "worker/net/grpc/credentials.h"
#include "worker/net/grpc/grpc_endpoint.h"
#include "worker/net/grpc/testing/raw_caller.h"
#include "worker/net/grpc/testing/test_authority.h"
#include "worker/net/testing/recorder.h"

namespace swarm::net {
namespace {

const WorkerId kA("a"), kB("b");
constexpr char kJob[] = "job-1";

GrpcOptions OptionsOf(const WorkerId& self, const TlsFiles& files) {
  GrpcOptions options;
  options.self = self;
  options.listen = "127.0.0.1:0";
  options.job = kJob;
  options.tls = files;
  return options;
}

std::string ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() { MakeEndpoint(OptionsOf(kA, FilesOf(kA))); }

  void MakeEndpoint(const GrpcOptions& options) {
    endpoint_.reset();
    auto created = GrpcEndpoint::Create(options, &heard_);
    EXPECT_TRUE(created.ok()) << created.status().ToString();
    endpoint_ = std::move(created).value();
    address_ = endpoint_->addresses()[0].dial;
  }

  TlsFiles FilesOf(const WorkerId& id) {
    return authority_.Issue(folder_.path() / id.value, IdentityUri(kJob, id));
  }

  /// The answer to a program with `files`, which calls `expected` there, when it says `hello`.
  Status CallWith(const TlsFiles& files, const WorkerId& its_id, const StreamHello& hello,
                  const WorkerId& expected = kA) {
    const auto credentials = Credentials::Create(OptionsOf(its_id, files));
    EXPECT_TRUE(credentials.ok()) << credentials.status().ToString();
    RawCaller caller(address_, (*credentials)->ForDialling(expected));
    caller.WriteHello(hello);
    return caller.ReadToEnd();
  }

  static StreamHello HelloOf(const WorkerId& id) {
    StreamHello hello;
    hello.job = kJob;
    hello.id = id;
    hello.incarnation = 5;
    hello.connection = 1;
    return hello;
  }

  void ExpectNobodyCame() {
    EXPECT_TRUE(heard_.events().empty());
    EXPECT_EQ(endpoint_->traffic().messages_received, 0u);
  }

  TemporaryFolder folder_;
  TestAuthority authority_;
  Recorder heard_;
  std::unique_ptr<GrpcEndpoint> endpoint_;
  std::string address_;
};

TEST_F(TlsTest, AnotherAuthorityIsRefused) {
  const TestAuthority other;
  const TlsFiles files = other.Issue(folder_.path() / "evil", IdentityUri(kJob, kB));
  // It trusts the endpoint's authority, but the endpoint does not trust it.
  std::filesystem::copy_file(folder_.path() / "a" / "ca.crt", files.ca,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_FALSE(CallWith(files, kB, HelloOf(kB)).ok());
  ExpectNobodyCame();
}

TEST_F(TlsTest, ACertificateOfAnotherJobIsRefused) {
  const TlsFiles files = authority_.Issue(folder_.path() / "other", IdentityUri("job-2", kB));
  GrpcOptions options = OptionsOf(kB, files);
  options.job = "job-2";
  Recorder heard;
  auto other = GrpcEndpoint::Create(options, &heard);
  ASSERT_TRUE(other.ok()) << other.status().ToString();
  // Neither as caller (which the endpoint's verifier checks in the handshake) ...
  const auto credentials = Credentials::Create(options);
  RawCaller caller(address_, (*credentials)->ForDialling(kA));
  EXPECT_NE(caller.ReadToEnd().message().find("names spiffe://swarmjob.local/job/job-1/worker/a"),
            std::string::npos);
  // ... nor as the called program.
  const auto ours = Credentials::Create(OptionsOf(kA, FilesOf(kA)));
  RawCaller call_of_other((*other)->addresses()[0].dial, (*ours)->ForDialling(kB));
  const Status status = call_of_other.ReadToEnd();
  EXPECT_NE(status.message().find("names spiffe://swarmjob.local/job/job-2/worker/b"),
            std::string::npos)
      << status.message();
  ExpectNobodyCame();
}

TEST_F(TlsTest, AnIdThatTheCertificateDoesNotNameIsRefused) {
  const Status status = CallWith(FilesOf(kB), kB, HelloOf(WorkerId("c")));
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_NE(
      status.message().find("its certificate names spiffe://swarmjob.local/job/job-1/worker/b"),
      std::string::npos)
      << status.message();
  EXPECT_EQ(CallWith(FilesOf(kB), kB, HelloOf(WorkerId("trainer"))).code(),
            StatusCode::kPermissionDenied);
  ExpectNobodyCame();
}

TEST_F(TlsTest, AllAddressesAreThoseOfBothFamilies) {
  std::vector<std::string> hosts{"127.0.0.1"};
  if (HasIPv6()) hosts.emplace_back("::1");
  for (const char* listen : {"0.0.0.0:0", "[::]:0"}) {
    GrpcOptions options = OptionsOf(kA, FilesOf(kA));
    options.listen = listen;
    MakeEndpoint(options);
    const std::uint16_t port = ReadHostPort(address_)->port;
    for (const std::string& host : hosts) {
      Recorder heard;
      const auto peer = GrpcEndpoint::Create(OptionsOf(kB, FilesOf(kB)), &heard);
      ASSERT_TRUE(peer.ok()) << peer.status().ToString();
      (*peer)->Connect(kA, {{"cluster", ToString({host, port}), ""}});
      EXPECT_TRUE(heard.WaitForEvent("up a")) << listen << " from " << host;
    }
  }
}

TEST_F(TlsTest, ThePodsAddressIsAdvertisedWithTheBracketsOfItsFamily) {
  GrpcOptions options = OptionsOf(kA, FilesOf(kA));
  options.advertise = "fd00::7:7000";  // what $(POD_IP):7000 becomes
  MakeEndpoint(options);
  EXPECT_EQ(address_, "[fd00::7]:7000");
}

TEST_F(TlsTest, TheWorkersOfAPodHaveThePodsCertificate) {
  Recorder heard;
  auto one = GrpcEndpoint::Create(OptionsOf(WorkerId("b-0"), FilesOf(kB)), &heard);
  auto two = GrpcEndpoint::Create(OptionsOf(WorkerId("b-1"), FilesOf(kB)), &heard);
  ASSERT_TRUE(one.ok() && two.ok()) << one.status().ToString() << two.status().ToString();
  (*one)->Connect(kA, endpoint_->addresses());
  EXPECT_TRUE(heard_.WaitForEvent("up b-0"));
  endpoint_->Connect(WorkerId("b-1"), (*two)->addresses());
  EXPECT_TRUE(heard_.WaitForEvent("up b-1"));
}

TEST_F(TlsTest, ACertificateIsThatOfItsOwnPodOnly) {
  const auto uris = [](const std::string& id) { return IdentityUris(kJob, WorkerId(id)); };
  const auto worker = [](const std::string& id) {
    return "spiffe://swarmjob.local/job/job-1/worker/" + id;
  };
  EXPECT_EQ(uris("b-10"), (std::vector{worker("b-10"), worker("b")}));
  EXPECT_EQ(uris("a-b-0"), (std::vector{worker("a-b-0"), worker("a-b")}));
  for (const std::string id : {"b", "b-", "b-01", "b-1000", "b-1x", "b--x", "b-w7", "-1"}) {
    EXPECT_EQ(uris(id), std::vector{worker(id)}) << id;
  }
  EXPECT_EQ(uris("trainer-1"), (std::vector{worker("trainer-1"), worker("trainer")}));
  EXPECT_EQ(uris("observer/x-1"), std::vector{IdentityUri(kJob, WorkerId("observer"))});
  // The worker b-1 of its own is not the pod, nor another worker of it.
  for (const std::string other : {"b", "b-2"}) {
    EXPECT_EQ(CallWith(FilesOf(WorkerId("b-1")), WorkerId("b-1"), HelloOf(WorkerId(other))).code(),
              StatusCode::kPermissionDenied);
  }
  ExpectNobodyCame();
}

TEST_F(TlsTest, WhoeverAnswersInThePeersPlaceIsRefused) {
  // The program at the address of "a" is not "c".
  const Status status = CallWith(FilesOf(kB), kB, HelloOf(kB), WorkerId("c"));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("not spiffe://swarmjob.local/job/job-1/worker/c"),
            std::string::npos)
      << status.message();
  ExpectNobodyCame();
}

TEST_F(TlsTest, AnExpiredCertificateIsRefused) {
  const TlsFiles files = authority_.Issue(folder_.path() / "late", IdentityUri(kJob, kB), 3590);
  EXPECT_FALSE(CallWith(files, kB, HelloOf(kB)).ok());
  ExpectNobodyCame();
}

TEST_F(TlsTest, ACallerWithoutCertificateIsRefused) {
  std::ifstream file(folder_.path() / "a" / "ca.crt");
  grpc::SslCredentialsOptions options;
  options.pem_root_certs.assign(std::istreambuf_iterator<char>(file), {});
  RawCaller caller(address_, grpc::SslCredentials(options));
  EXPECT_FALSE(caller.ReadToEnd().ok());
  ExpectNobodyCame();
}

TEST_F(TlsTest, PlaintextIsRefused) {
  RawCaller caller(address_, grpc::InsecureChannelCredentials());
  caller.WriteHello(HelloOf(kB));
  EXPECT_EQ(caller.ReadToEnd().code(), StatusCode::kUnavailable);
  ExpectNobodyCame();
}

TEST_F(TlsTest, TheTrainerAndObserversHaveNamesOfTheirOwn) {
  EXPECT_EQ(IdentityUri("j", WorkerId("trainer")), "spiffe://swarmjob.local/job/j/trainer");
  EXPECT_EQ(IdentityUri("j", WorkerId("observer/7")), "spiffe://swarmjob.local/job/j/observer");
  EXPECT_EQ(IdentityUri("j", WorkerId("operator/a-1")), "spiffe://swarmjob.local/job/j/operator");
  EXPECT_EQ(IdentityUri("j", WorkerId("observers")),
            "spiffe://swarmjob.local/job/j/worker/observers");
  EXPECT_EQ(IdentityUri("j", WorkerId("operators")),
            "spiffe://swarmjob.local/job/j/worker/operators");
  EXPECT_EQ(IdentityUri("j", WorkerId("pod/0 ü")),
            "spiffe://swarmjob.local/job/j/worker/pod%2F0%20%C3%BC");
}

TEST_F(TlsTest, AnObserverIsNoOperator) {
  const WorkerId observer("observer"), impostor("operator");
  EXPECT_EQ(CallWith(FilesOf(observer), observer, HelloOf(impostor)).code(),
            StatusCode::kPermissionDenied);
  ExpectNobodyCame();
}

TEST_F(TlsTest, AnEndpointThatOnlyDialsTalksBothWaysAndHasNoAddress) {
  GrpcOptions options = OptionsOf(kB, FilesOf(kB));
  options.listen.clear();
  Recorder heard;
  auto dialler = GrpcEndpoint::Create(options, &heard);
  ASSERT_TRUE(dialler.ok()) << dialler.status().ToString();
  EXPECT_TRUE((*dialler)->addresses().empty());
  (*dialler)->Connect(kA, endpoint_->addresses());
  ASSERT_TRUE(heard.WaitForEvent("up a"));
  ASSERT_TRUE((*dialler)->Send(kA, Lane::kControl, {protocol::Observe{}, {}}).ok());
  ASSERT_TRUE(heard_.WaitForMessages(1));
  ASSERT_TRUE(endpoint_->Send(kB, Lane::kControl, {protocol::JobStatus{}, {}}).ok());
  EXPECT_TRUE(heard.WaitForMessages(1));
}

TEST_F(TlsTest, ARevokedWorkerLosesItsConnectionAndGetsNoOther) {
  GrpcOptions options = OptionsOf(kA, FilesOf(kA));
  const std::filesystem::path file = folder_.path() / "revoked";
  options.revocations = std::make_shared<Revocations>(options.job, file);
  MakeEndpoint(options);
  Recorder heard_by_b, heard_by_c;
  auto pod = GrpcEndpoint::Create(OptionsOf(WorkerId("b-0"), FilesOf(kB)), &heard_by_b);
  const WorkerId c("c");
  auto other = GrpcEndpoint::Create(OptionsOf(c, FilesOf(c)), &heard_by_c);
  ASSERT_TRUE(pod.ok() && other.ok());
  (*pod)->Connect(kA, endpoint_->addresses());
  (*other)->Connect(kA, endpoint_->addresses());
  ASSERT_TRUE(heard_.WaitForEvent("up b-0") && heard_.WaitForEvent("up c"));

  std::ofstream(file) << "x\nb\n";
  EXPECT_TRUE(heard_.WaitForEvent("down b-0"));
  EXPECT_NE(heard_.last_reason().message().find("worker/b was revoked"), std::string::npos)
      << heard_.last_reason().ToString();
  // Neither a new process of it, nor a call of ours.
  EXPECT_EQ(CallWith(FilesOf(kB), kB, HelloOf(kB)).code(), StatusCode::kPermissionDenied);
  endpoint_->Connect(WorkerId("b-0"), (*pod)->addresses());
  EXPECT_EQ(heard_.EventCount("down c"), 0);
  // Who was revoked once stays so, whatever becomes of the file.
  std::ofstream(file) << "c\n";
  EXPECT_TRUE(heard_.WaitForEvent("down c"));
  EXPECT_EQ(CallWith(FilesOf(kB), kB, HelloOf(kB)).code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(heard_.EventCount("up b-0"), 1);
}

TEST_F(TlsTest, AWorkerWhosePodIsGoneLosesItsConnectionAndGetsNoOther) {
  GrpcOptions options = OptionsOf(kA, FilesOf(kA));
  options.revocations = std::make_shared<Revocations>(options.job, /*file=*/"");
  MakeEndpoint(options);
  const WorkerId gone("tiny-w0"), there("tiny-w1");
  Recorder heard_by_gone, heard_by_there;
  auto thief = GrpcEndpoint::Create(OptionsOf(gone, FilesOf(gone)), &heard_by_gone);
  auto other = GrpcEndpoint::Create(OptionsOf(there, FilesOf(there)), &heard_by_there);
  ASSERT_TRUE(thief.ok() && other.ok());
  (*thief)->Connect(kA, endpoint_->addresses());
  (*other)->Connect(kA, endpoint_->addresses());
  ASSERT_TRUE(heard_.WaitForEvent("up tiny-w0") && heard_.WaitForEvent("up tiny-w1"));

  options.revocations->Retire({"tiny-w", 2, {1}});
  EXPECT_TRUE(heard_.WaitForEvent("down tiny-w0"));
  EXPECT_NE(heard_.last_reason().message().find("worker/tiny-w0 was revoked: its pod is gone"),
            std::string::npos)
      << heard_.last_reason().ToString();
  EXPECT_EQ(CallWith(FilesOf(gone), gone, HelloOf(gone)).code(), StatusCode::kPermissionDenied);
  endpoint_->Connect(gone, (*thief)->addresses());
  EXPECT_EQ(heard_.EventCount("down tiny-w1"), 0);
  EXPECT_EQ(heard_.EventCount("up tiny-w0"), 1);
}

TEST_F(TlsTest, FilesThatCannotBeUsedAreNamed) {
  Recorder heard;
  const auto create = [&](const TlsFiles& files) {
    return GrpcEndpoint::Create(OptionsOf(kB, files), &heard).status();
  };
  const TlsFiles good = FilesOf(kB);
  EXPECT_TRUE(create(good).ok());
  TlsFiles files = good;
  files.ca = "/nowhere/ca.crt";
  EXPECT_EQ(create(files).code(), StatusCode::kNotFound);
  files = good;
  files.key = FilesOf(kA).key;
  EXPECT_EQ(create(files).code(), StatusCode::kInvalidArgument);
  files = good;
  files.certificate = good.key;
  EXPECT_NE(create(files).message().find("holds no certificate"), std::string::npos);
  EXPECT_NE(create(FilesOf(kA)).message().find("names spiffe://swarmjob.local/job/job-1/worker/a"),
            std::string::npos);
  GrpcOptions neither = OptionsOf(kB, good);
  neither.tls.reset();
  EXPECT_EQ(GrpcEndpoint::Create(neither, &heard).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(TlsTest, FilesThatDoNotFitTogetherAreNotTaken) {
  const TlsFiles files = FilesOf(kB);
  CheckedCertificates checked(files, {IdentityUri(kJob, kB)});
  ASSERT_TRUE(checked.Refresh().ok());
  const std::string first = ContentOf(checked.identity_path());
  EXPECT_NE(first.find("CERTIFICATE"), std::string::npos);
  EXPECT_NE(first.find("PRIVATE KEY"), std::string::npos);

  std::ofstream(files.key).close();  // as during a copy of a new file
  EXPECT_EQ(checked.Refresh().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ContentOf(checked.identity_path()), first);
  (void)authority_.Issue(folder_.path() / "b", IdentityUri(kJob, kA));
  EXPECT_EQ(checked.Refresh().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ContentOf(checked.identity_path()), first);

  const std::string path = checked.identity_path();
  (void)FilesOf(kB);
  EXPECT_TRUE(checked.Refresh().ok());
  EXPECT_NE(ContentOf(path), first);
}

// ---- the handshake itself ----

struct Handshake {
  std::string version;  ///< empty: there was none
  std::uint64_t serial = 0;
};

/// Shakes hands with the server at `address` by OpenSSL alone, in `version` at the most.
Handshake ShakeHands(const std::string& address, const TlsFiles& files, int version) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  SSL_CTX_set_max_proto_version(context.get(), version);
  SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str());
  SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), SSL_free);
  SSL_set_alpn_protos(ssl.get(), reinterpret_cast<const unsigned char*>("\x02h2"), 3);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  Handshake result;
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) {
    SSL_set_fd(ssl.get(), fd);
    if (SSL_connect(ssl.get()) == 1) {
      result.version = SSL_get_version(ssl.get());
      const std::unique_ptr<X509, decltype(&X509_free)> certificate(
          SSL_get1_peer_certificate(ssl.get()), X509_free);
      ASN1_INTEGER_get_uint64(&result.serial, X509_get0_serialNumber(certificate.get()));
    }
  }
  close(fd);
  return result;
}

TEST_F(TlsTest, OnlyTls13IsSpoken) {
  const TlsFiles files = FilesOf(kB);
  EXPECT_EQ(ShakeHands(address_, files, TLS1_3_VERSION).version, "TLSv1.3");
  EXPECT_EQ(ShakeHands(address_, files, TLS1_2_VERSION).version, "");
}

TEST_F(TlsTest, ThatWhichIsHeldInMemoryIsAsGoodAsFiles) {
  const TlsFiles files = FilesOf(kB);
  GrpcOptions options = OptionsOf(kB, files);
  options.tls.reset();
  options.tls_pem = TlsPem{ContentOf(files.ca), ContentOf(files.certificate), ContentOf(files.key)};
  Recorder b_heard;
  auto b = GrpcEndpoint::Create(options, &b_heard);
  ASSERT_TRUE(b.ok()) << b.status().ToString();
  (*b)->Connect(kA, endpoint_->addresses());
  EXPECT_TRUE(b_heard.WaitForEvent("up a"));

  options.self = WorkerId("c");
  EXPECT_EQ(GrpcEndpoint::Create(options, &b_heard).status().code(), StatusCode::kInvalidArgument);
  options.tls = files;
  EXPECT_EQ(GrpcEndpoint::Create(options, &b_heard).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(TlsTest, ReplacedFilesAreUsedByNewConnectionsWhileOldOnesGoOn) {
  // As Kubernetes does it: the files lie behind a link that is moved in one step.
  const auto link = folder_.path() / "current";
  (void)authority_.Issue(folder_.path() / "1", IdentityUri(kJob, kA));
  (void)authority_.Issue(folder_.path() / "2", IdentityUri(kJob, kA));
  std::filesystem::create_symlink("1", link);
  MakeEndpoint(OptionsOf(kA, {link / "ca.crt", link / "tls.crt", link / "tls.key"}));
  Recorder b_heard;
  auto b = std::move(GrpcEndpoint::Create(OptionsOf(kB, FilesOf(kB)), &b_heard)).value();
  b->Connect(kA, endpoint_->addresses());
  ASSERT_TRUE(b_heard.WaitForEvent("up a"));

  const std::uint64_t old_serial = ShakeHands(address_, FilesOf(kB), TLS1_3_VERSION).serial;
  std::filesystem::create_symlink("2", folder_.path() / "next");
  std::filesystem::rename(folder_.path() / "next", link);
  std::uint64_t serial = old_serial;
  const Timepoint deadline = Clock::now() + std::chrono::minutes(1);
  while (serial == old_serial && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    serial = ShakeHands(address_, FilesOf(kB), TLS1_3_VERSION).serial;
  }
  EXPECT_NE(serial, old_serial);
  EXPECT_NE(serial, 0u);

  ASSERT_TRUE(b->Send(kA, Lane::kControl, {protocol::Observe{}, {}}).ok());
  EXPECT_TRUE(heard_.WaitForMessages(1));
  EXPECT_EQ(b_heard.EventCount("down a"), 0);
  Recorder c_heard;
  const WorkerId c_id("c");
  auto c = std::move(GrpcEndpoint::Create(OptionsOf(c_id, FilesOf(c_id)), &c_heard)).value();
  c->Connect(kA, endpoint_->addresses());
  EXPECT_TRUE(c_heard.WaitForEvent("up a"));
}

}  // namespace
}  // namespace swarm::net

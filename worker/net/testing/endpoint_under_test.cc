#include "worker/net/testing/endpoint_under_test.h"

#include "base/testing/temporary_folder.h"
#include "worker/net/faulty/faulty_endpoint.h"
#include "worker/net/grpc/credentials.h"
#include "worker/net/grpc/grpc_endpoint.h"
#include "worker/net/grpc/testing/test_authority.h"
#include "worker/net/loopback/loopback.h"
#include "worker/net/pod/pod_endpoint.h"
#include "worker/net/testing/recorder.h"

namespace swarm::net {
namespace {

class LoopbackUnderTest final : public NetworkUnderTest {
 public:
  Result<std::unique_ptr<Endpoint>> Make(const WorkerId& self, EndpointHandler* handler,
                                         const EndpointLimits& limits) override {
    return network_.CreateEndpoint(
        self, handler,
        {limits.control_window_bytes, limits.data_window_bytes, limits.payload_bytes_max});
  }
  std::string nowhere() const override { return "loopback:nobody"; }

 private:
  LoopbackNetwork network_;
};

void SetLimits(const EndpointLimits& limits, GrpcOptions* options) {
  options->control_window_bytes = limits.control_window_bytes;
  options->data_window_bytes = limits.data_window_bytes;
  options->payload_bytes_max = limits.payload_bytes_max;
}

class GrpcUnderTest final : public NetworkUnderTest {
 public:
  explicit GrpcUnderTest(bool plaintext) : plaintext_(plaintext) {}

  Result<std::unique_ptr<Endpoint>> Make(const WorkerId& self, EndpointHandler* handler,
                                         const EndpointLimits& limits) override {
    GrpcOptions options;
    options.self = self;
    options.listen = "127.0.0.1:0";
    options.job = "job-1";
    options.plaintext = plaintext_;
    if (!plaintext_) {
      options.tls = authority_.Issue(folder_.path() / self.value, IdentityUri(options.job, self));
    }
    SetLimits(limits, &options);
    auto created = GrpcEndpoint::Create(options, handler);
    if (!created.ok()) return created.status();
    return std::unique_ptr<Endpoint>(std::move(created).value());
  }
  std::string nowhere() const override { return "127.0.0.1:1"; }

 private:
  const bool plaintext_;
  TemporaryFolder folder_;
  TestAuthority authority_;
};

/// Nobody can dial the endpoints: they meet at a relay.
class RelayUnderTest final : public NetworkUnderTest {
 public:
  RelayUnderTest() {
    GrpcOptions options = OptionsOf(WorkerId("trainer"));
    options.listen = "127.0.0.1:0";
    options.relays = true;
    relay_ = std::move(GrpcEndpoint::Create(options, &relay_heard_)).value();
  }

  Result<std::unique_ptr<Endpoint>> Make(const WorkerId& self, EndpointHandler* handler,
                                         const EndpointLimits& limits) override {
    GrpcOptions options = OptionsOf(self);
    options.relay = RelayAt{WorkerId("trainer"), relay_->addresses()};
    SetLimits(limits, &options);
    ASSIGN_OR_RETURN(auto endpoint, GrpcEndpoint::Create(options, handler));
    return std::unique_ptr<Endpoint>(std::move(endpoint));
  }
  std::string nowhere() const override { return "127.0.0.1:1"; }

 private:
  GrpcOptions OptionsOf(const WorkerId& self) const {
    GrpcOptions options{.self = self, .listen = "", .job = "job-1"};
    options.tls = authority_.Issue(folder_.path() / self.value, IdentityUri(options.job, self));
    return options;
  }

  TemporaryFolder folder_;
  TestAuthority authority_;
  Recorder relay_heard_;
  std::unique_ptr<GrpcEndpoint> relay_;
};

/// A decorator without faults must not be noticed.
class FaultlessUnderTest final : public NetworkUnderTest {
 public:
  explicit FaultlessUnderTest(std::unique_ptr<NetworkUnderTest> inner) : inner_(std::move(inner)) {}

  Result<std::unique_ptr<Endpoint>> Make(const WorkerId& self, EndpointHandler* handler,
                                         const EndpointLimits& limits) override {
    return FaultyEndpoint::Create({.self = self}, handler, [&](EndpointHandler* outer) {
      return inner_->Make(self, outer, limits);
    });
  }
  std::string nowhere() const override { return inner_->nowhere(); }

 private:
  const std::unique_ptr<NetworkUnderTest> inner_;
};

/// All endpoints are in one pod.
class PodUnderTest final : public NetworkUnderTest {
 public:
  Result<std::unique_ptr<Endpoint>> Make(const WorkerId& self, EndpointHandler* handler,
                                         const EndpointLimits& limits) override {
    ASSIGN_OR_RETURN(auto part, PodMemory::Open(memory_->fd(), made_++ % kWorkers));
    return PodEndpoint::Create(
        std::move(part), {WorkerId("a"), WorkerId("b"), WorkerId("c")}, handler,
        [&](EndpointHandler* outer) { return inner_.Make(self, outer, limits); });
  }
  std::string nowhere() const override { return inner_.nowhere(); }

 private:
  static constexpr std::size_t kWorkers = 4;
  const std::shared_ptr<PodMemory> memory_ =
      std::move(PodMemory::Create(kWorkers, /*part_bytes=*/4u << 20)).value();
  std::size_t made_ = 0;
  GrpcUnderTest inner_{/*plaintext=*/true};
};

}  // namespace

std::vector<const char*> NetworksUnderTest() {
  return {"Loopback",      "GrpcPlaintext", "GrpcTls",  "FaultlessLoopback",
          "FaultlessGrpc", "PodGrpc",       "GrpcRelay"};
}

std::unique_ptr<NetworkUnderTest> MakeNetwork(std::string_view name) {
  if (name == "GrpcPlaintext") return std::make_unique<GrpcUnderTest>(true);
  if (name == "GrpcRelay") return std::make_unique<RelayUnderTest>();
  if (name == "PodGrpc") return std::make_unique<PodUnderTest>();
  if (name == "GrpcTls") return std::make_unique<GrpcUnderTest>(false);
  if (name == "FaultlessGrpc") {
    return std::make_unique<FaultlessUnderTest>(std::make_unique<GrpcUnderTest>(true));
  }
  if (name == "FaultlessLoopback") {
    return std::make_unique<FaultlessUnderTest>(std::make_unique<LoopbackUnderTest>());
  }
  return std::make_unique<LoopbackUnderTest>();
}

}  // namespace swarm::net

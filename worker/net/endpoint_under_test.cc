#include "worker/net/endpoint_under_test.h"

#include "worker/net/loopback/loopback.h"

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

}  // namespace

std::vector<const char*> NetworksUnderTest() { return {"Loopback"}; }

std::unique_ptr<NetworkUnderTest> MakeNetwork(std::string_view name) {
  return std::make_unique<LoopbackUnderTest>();
}

}  // namespace swarm::net

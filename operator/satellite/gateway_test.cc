#include "operator/satellite/gateway.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace swarm::satellite {
namespace {

using nlohmann::json;

/// As the chart makes it, and a cloud's controller completes it with `ingress`.
kube::Object Service(const json& ingress) {
  const json metrics{{"name", "metrics"}, {"port", 8080}};
  const json workers{{"name", "workers"}, {"port", 7444}, {"targetPort", "workers"}};
  return std::make_shared<const json>(
      json{{"spec", {{"type", "LoadBalancer"}, {"ports", json::array({metrics, workers})}}},
           {"status", {{"loadBalancer", {{"ingress", ingress}}}}}});
}

TEST(GatewayTest, ItsAddressIsThatOfTheLoadBalancerAndThePortOfWorkers) {
  EXPECT_EQ(GatewayAddress(Service({{{"ip", "203.0.113.9"}}})), "203.0.113.9:7444");
  EXPECT_EQ(GatewayAddress(Service({{{"ip", "2001:db8::9"}}})), "[2001:db8::9]:7444");
  EXPECT_EQ(GatewayAddress(Service({{{"hostname", "gw.lb.example"}}})), "gw.lb.example:7444");
}

TEST(GatewayTest, ItHasNoAddressBeforeItsLoadBalancerHas) {
  EXPECT_EQ(GatewayAddress(Service(json::array())), "");
  EXPECT_EQ(GatewayAddress(std::make_shared<const json>(json::object())), "");
}

TEST(GatewayTest, WhatASatelliteSaysIsTakenOnlyAsHostAndPort) {
  for (const char* good : {"gw.example:7444", "203.0.113.9:1", "[2001:db8::9]:7444"}) {
    EXPECT_TRUE(IsGatewayAddress(good)) << good;
  }
  for (const char* bad : {"", "gw.example", "gw.example:0", "gw.example:70000", ":7444",
                          "2001:db8::9:7444", "gw.example/name:7444"}) {
    EXPECT_FALSE(IsGatewayAddress(bad)) << bad;
  }
}

}  // namespace
}  // namespace swarm::satellite

#include "ctl/cluster/home_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace swarm::ctl {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// As the chart makes it, and a cloud's controller completes it with `ingress`.
kube::Object Service(const std::string& type, const json& ingress = json::array()) {
  const json port{{"name", "satellites"}, {"port", 7443}, {"nodePort", 30443}};
  const json metrics{{"name", "metrics"}, {"port", 8080}};
  return std::make_shared<const json>(
      json{{"metadata", {{"name", "operator-satellites"}, {"namespace", "swarmjob"}}},
           {"spec", {{"type", type}, {"ports", json::array({metrics, port})}}},
           {"status", {{"loadBalancer", {{"ingress", ingress}}}}}});
}

kube::Object Other() {
  const json port{{"name", "workers"}, {"port", 7444}};
  const json ingress{{"ip", "203.0.113.10"}};
  return std::make_shared<const json>(
      json{{"metadata", {{"name", "operator-gateway"}, {"namespace", "swarmjob"}}},
           {"spec", {{"type", "LoadBalancer"}, {"ports", json::array({port})}}},
           {"status", {{"loadBalancer", {{"ingress", json::array({ingress})}}}}}});
}

std::string Found(const json& ingress) {
  const auto found = HomeAddress({Other(), Service("LoadBalancer", json::array({ingress}))});
  return found.ok() ? *found : found.status().ToString();
}

TEST(HomeAddressTest, ItIsThatOfTheLoadBalancerBeforeTheOperator) {
  EXPECT_EQ(Found({{"ip", "203.0.113.9"}}), "203.0.113.9:7443");
  EXPECT_EQ(Found({{"ip", "2001:db8::9"}}), "[2001:db8::9]:7443");
  EXPECT_EQ(Found({{"hostname", "home.lb.example"}}), "home.lb.example:7443");
}

TEST(HomeAddressTest, ALoadBalancerWithoutAnAddressIsWaitedFor) {
  const auto found = HomeAddress({Service("LoadBalancer")});
  EXPECT_EQ(found.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(found.status().message(), HasSubstr("swarmjob/operator-satellites"));
  EXPECT_THAT(found.status().message(), HasSubstr("no address yet"));
}

TEST(HomeAddressTest, WithoutALoadBalancerTheAddressIsAskedFor) {
  const auto node = HomeAddress({Service("NodePort")});
  EXPECT_EQ(node.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(node.status().message(), HasSubstr("--home HOST:30443"));
  EXPECT_THAT(HomeAddress({Service("ClusterIP")}).status().message(),
              HasSubstr("--home HOST:7443"));
}

TEST(HomeAddressTest, OtherServicesAreNotTaken) {
  EXPECT_EQ(HomeAddress({Other()}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(HomeAddress({}).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace swarm::ctl

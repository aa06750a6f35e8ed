// What a satellite does for home, and what it refuses.
#include "operator/satellite/gate.h"

#include <gmock/gmock.h>

#include "operator/kube/object/resource.h"

namespace swarm::satellite {
namespace {

using kube::CollectionPath;
using kube::ObjectPath;
using testing::HasSubstr;

bool May(const std::string& method, const std::string& target, const std::string& body = "",
         const std::set<std::string>& namespaces = {}) {
  return CheckRequest({method, target, {}, body}, namespaces).ok();
}

std::string Named(const std::string& name) { return R"({"metadata":{"name":")" + name + "\"}}"; }

TEST(GateTest, HomeLooksAfterPodsAndSeesNodes) {
  const kube::Resource pods = kube::resources::Pods();
  EXPECT_TRUE(May("GET", CollectionPath(kube::resources::Nodes(), "") + "?watch=true"));
  EXPECT_TRUE(May("GET", CollectionPath(pods, "")));
  EXPECT_TRUE(May("GET", CollectionPath(pods, "team") + "?labelSelector=a%3Db"));
  EXPECT_TRUE(May("GET", ObjectPath(pods, {"team", "tiny-w1"})));
  EXPECT_TRUE(May("POST", CollectionPath(pods, "team"), Named("tiny-w1")));
  EXPECT_TRUE(May("DELETE", ObjectPath(pods, {"team", "tiny-w1"})));
}

TEST(GateTest, HomeWritesWhatAJobNeedsBesideItsPods) {
  const kube::Resource secrets = kube::resources::Secrets();
  EXPECT_TRUE(May("POST", CollectionPath(secrets, "team"), Named("tiny-w1-identity")));
  EXPECT_TRUE(May("GET", ObjectPath(secrets, {"team", "tiny-w1-identity"})));
  EXPECT_TRUE(May("PATCH", ObjectPath(secrets, {"team", "tiny-w1-identity"})));
  EXPECT_TRUE(May("PATCH", ObjectPath(kube::resources::ConfigMaps(), {"team", "tiny-outpost"})));
  EXPECT_TRUE(May("PATCH", ObjectPath(kube::resources::Services(), {"team", "tiny-trainer"})));
  EXPECT_TRUE(
      May("PATCH", ObjectPath(kube::resources::EndpointSlices(), {"team", "tiny-trainer"})));
  EXPECT_TRUE(May("PATCH", ObjectPath(kube::resources::NetworkPolicies(), {"team", "tiny"})));
  const kube::Resource budgets = kube::resources::PodDisruptionBudgets();
  EXPECT_TRUE(May("POST", CollectionPath(budgets, "team"), Named("tiny-workers")));
  EXPECT_TRUE(May("GET", ObjectPath(budgets, {"team", "tiny-workers"})));
  EXPECT_TRUE(May("PATCH", ObjectPath(budgets, {"team", "tiny-workers"})));
}

TEST(GateTest, HomeReadsNoOtherSecretAndChangesNothingElse) {
  const kube::Resource secrets = kube::resources::Secrets();
  EXPECT_FALSE(May("GET", CollectionPath(secrets, "team")));
  EXPECT_FALSE(May("GET", ObjectPath(secrets, {"team", "database"})));
  for (const std::string name : {"-identity", "-w1-identity", "tiny-w-identity", "tiny-wx-identity",
                                 "team-identity", "tiny-trainer-1-identity"}) {
    EXPECT_FALSE(May("GET", ObjectPath(secrets, {"team", name}))) << name;
  }
  EXPECT_FALSE(May("POST", CollectionPath(secrets, "team"), Named("database")));
  EXPECT_FALSE(May("POST", CollectionPath(secrets, "team"), "no JSON"));
  EXPECT_FALSE(May("DELETE", ObjectPath(secrets, {"team", "tiny-w1-identity"})));
  EXPECT_FALSE(May("PATCH", ObjectPath(kube::resources::ConfigMaps(), {"team", "settings"})));
  const kube::Resource budgets = kube::resources::PodDisruptionBudgets();
  EXPECT_FALSE(May("PATCH", ObjectPath(budgets, {"team", "database"})));
  EXPECT_FALSE(May("POST", CollectionPath(budgets, "team"), Named("database")));
  EXPECT_FALSE(May("DELETE", ObjectPath(budgets, {"team", "tiny-workers"})));
  EXPECT_FALSE(May("DELETE", CollectionPath(kube::resources::Pods(), "team")));
  EXPECT_FALSE(May("PATCH", ObjectPath(kube::resources::Pods(), {"team", "tiny-w1"})));
  EXPECT_FALSE(May("DELETE", ObjectPath(kube::resources::Nodes(), {"", "node-1"})));
  EXPECT_FALSE(May("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/team/roles"));
}

TEST(GateTest, HomeHasTokensOfItsPodsJudgedAndNoOthers) {
  const std::string reviews =
      CollectionPath({"authentication.k8s.io", "v1", "tokenreviews", false}, "");
  const auto of = [](const std::string& audiences) {
    return R"({"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"ey.J")" +
           audiences + "}}";
  };
  const std::string good = of(R"(,"audiences":["swarmjob.dev/enrol/1-2-3"])");
  EXPECT_TRUE(May("POST", reviews, good));
  EXPECT_TRUE(May("POST", reviews + "?fieldManager=swarm-operator", good));
  EXPECT_TRUE(May("POST", reviews, good, {"team"})) << "tokens belong to no namespace";
  EXPECT_FALSE(May("GET", reviews, good));
  EXPECT_FALSE(May("POST", reviews + "/x", good));
  EXPECT_FALSE(May("POST", "/apis/authentication.k8s.io/v1/namespaces/team/tokenreviews", good));
  EXPECT_FALSE(May("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", good));
  EXPECT_FALSE(May("POST", reviews, of("")));
  EXPECT_FALSE(May("POST", reviews, of(R"(,"audiences":["https://kubernetes.default.svc"])")));
  EXPECT_FALSE(May("POST", reviews, of(R"(,"audiences":["swarmjob.dev/enrol/1","vault"])")));
  EXPECT_FALSE(May("POST", reviews, "no JSON"));
}

TEST(GateTest, PathsThatCouldMeanSomethingElseAreRefused) {
  const std::string pods = CollectionPath(kube::resources::Pods(), "team");
  for (const std::string& target :
       {std::string(), std::string("/"), std::string("/metrics"), pods + "/tiny-w1/exec",
        pods + "/tiny-w1/../x", pods + "//", pods + "/%2e%2e", "/" + pods,
        std::string("/api/v1/namespaces/team"), std::string("/api/v1/nodes/n/proxy"),
        std::string("/api/v1/nodes/n/proxy/pods"), "http://elsewhere" + pods}) {
    EXPECT_FALSE(May("GET", target)) << target;
  }
}

TEST(GateTest, ASatelliteOfSomeNamespacesServesThoseAlone) {
  const std::set<std::string> namespaces = {"team"};
  const kube::Resource pods = kube::resources::Pods();
  EXPECT_TRUE(May("GET", CollectionPath(pods, "team"), "", namespaces));
  EXPECT_FALSE(May("GET", CollectionPath(pods, "other"), "", namespaces));
  EXPECT_FALSE(May("GET", CollectionPath(pods, ""), "", namespaces));
  const Status refused =
      CheckRequest({"DELETE", ObjectPath(pods, {"other", "tiny-w1"}), {}, ""}, namespaces);
  EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(refused.message(), HasSubstr("DELETE v1/pods tiny-w1 in the namespace other"));
}

}  // namespace
}  // namespace swarm::satellite

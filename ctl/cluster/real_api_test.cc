// swarmctl against a real API server, as a user of kubectl has configured it.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/identity/authority.h"
#include "base/testing/temporary_folder.h"
#include "operator/kube/testing/api_server_under_test.h"
#include "operator/names/names.h"
#include "operator/satellite/account_secret.h"
#include "worker/processes/processes.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class SwarmctlOnKubernetesTest : public kube::ApiServerUnderTest {
 protected:
  void PutPod(const std::string& name, const std::string& role) {
    const json pod{
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata", {{"name", name}, {"namespace", ns_}, {"labels", {{names::kRoleLabel, role}}}}},
        {"spec", {{"containers", json::array({{{"name", "c"}, {"image", "none"}}})}}}};
    const auto made = client_->Create(kube::resources::Pods(), pod);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
  }
  /// Home's Service of satellites as the chart makes it, before a load balancer, and its authority.
  void PutHome(const json& ingress) {
    const kube::ObjectName name{ns_, "satellites"};
    const json port{{"name", "satellites"}, {"port", 7443}};
    const json service{{"apiVersion", "v1"},
                       {"kind", "Service"},
                       {"metadata", {{"name", name.name}, {"namespace", ns_}}},
                       {"spec", {{"type", "LoadBalancer"}, {"ports", json::array({port})}}}};
    ASSERT_TRUE(client_->Create(kube::resources::Services(), service).ok());
    const json status{{"status", {{"loadBalancer", {{"ingress", json::array({ingress})}}}}}};
    const auto given = client_->Patch(kube::resources::Services(), name, kube::PatchType::kMerge,
                                      status, {.subresource = "status"});
    ASSERT_TRUE(given.ok()) << given.status().ToString();
    const auto authority = identity::JobAuthority::Create("0b6a");
    ASSERT_TRUE(authority.ok());
    const json content{{satellite::kAuthorityCertificate, authority->pair().certificate},
                       {satellite::kAccount, satellite::ToText(satellite::Account())}};
    const json secret{{"apiVersion", "v1"},
                      {"kind", "Secret"},
                      {"metadata", {{"name", satellite::kHomeSecret}, {"namespace", ns_}}},
                      {"stringData", content}};
    ASSERT_TRUE(client_->Create(kube::resources::Secrets(), secret).ok());
  }
  bool HasPod(const std::string& name) {
    return client_->Get(kube::resources::Pods(), {ns_, name}).ok();
  }

  /// The first file has the cluster and contexts, the second the users, each with a plugin.
  void WriteKubeconfigs() {
    folder_.Put("clusters/ca.crt", plane_->authority());
    const json here{{"server", plane_->url()}, {"certificate-authority", "ca.crt"}};
    const json cluster{{"name", "here"}, {"cluster", here}};
    const json clusters{{"current-context", "stranger"},
                        {"contexts", json::array({Context("admin"), Context("stranger")})},
                        {"clusters", json::array({cluster})}};
    folder_.Put("clusters/config", clusters.dump());
    const json users{
        {"current-context", "admin"},
        {"users", json::array({User("admin", kube::ControlPlane::kAdminToken),
                               User("stranger", kube::ControlPlane::kStrangerToken)})}};
    folder_.Put("users/config", users.dump());
    folder_.Put("users/login", R"(#!/bin/sh
printf '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1",
         "status": {"token": "%s"}}' "$TOKEN"
)");
    std::filesystem::permissions(folder_ / "users/login", std::filesystem::perms::owner_all);
    const std::string list = (folder_ / "clusters/config") + ":" + (folder_ / "users/config");
    ::setenv("KUBECONFIG", list.c_str(), 1);
  }
  json Context(const std::string& user) const {
    const json context{{"cluster", "here"}, {"user", user}, {"namespace", ns_}};
    return {{"name", user}, {"context", context}};
  }
  static json User(const std::string& name, const std::string& token) {
    const json variable{{"name", "TOKEN"}, {"value", token}};
    const json exec{{"apiVersion", "client.authentication.k8s.io/v1beta1"},
                    {"command", "./login"},
                    {"env", json::array({variable})}};
    return {{"name", name}, {"user", {{"exec", exec}}}};
  }

  int Swarmctl(std::vector<std::string> arguments) {
    EXPECT_TRUE(swarmctl_.Start({"swarmctl", WorkerRole::kStage, std::move(arguments)}).ok());
    const Timepoint deadline = Clock::now() + std::chrono::minutes(2);
    while (swarmctl_.Observe().front().phase == Phase::kRunning && Clock::now() < deadline) {
      swarmctl_.Wait(deadline);
    }
    EXPECT_EQ(swarmctl_.Observe().front().phase, Phase::kExited) << "it did not end";
    return swarmctl_.Observe().front().exit_code;
  }
  std::string Output() const { return folder_.Get("logs/swarmctl.log"); }

  TemporaryFolder folder_;
  Processes swarmctl_{{std::string(SWARM_BIN_DIR) + "/swarmctl", folder_.path() / "logs"}};
};

TEST_F(SwarmctlOnKubernetesTest, AUserOfTwoFilesAContextAndAPluginDrainsAWorker) {
  PutPod("job-w0", names::kWorkerRole);
  WriteKubeconfigs();
  EXPECT_EQ(Swarmctl({"drain", "job-w0"}), 2) << "the current context is that of a stranger";
  EXPECT_THAT(Output(), HasSubstr("stranger"));
  EXPECT_TRUE(HasPod("job-w0"));
  EXPECT_EQ(Swarmctl({"drain", "job-w0", "--context", "admin"}), 0) << Output();
  EXPECT_FALSE(HasPod("job-w0"));
  EXPECT_THAT(Output(), Not(HasSubstr(kube::ControlPlane::kAdminToken)));
}

TEST_F(SwarmctlOnKubernetesTest, ATokenNamesTheLoadBalancerBeforeHome) {
  WriteKubeconfigs();
  EXPECT_EQ(Swarmctl({"satellite", "token", "west", "--context", "admin"}), 2);
  EXPECT_THAT(Output(), HasSubstr("install it with satellites.enabled=true"));
  PutHome({{"ip", "203.0.113.9"}});
  EXPECT_EQ(Swarmctl({"satellite", "token", "west", "--context", "admin"}), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("cluster west will dial home at 203.0.113.9:7443\nsj1_"));
  EXPECT_EQ(Swarmctl({"satellite", "list", "--context", "admin"}), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("west  has not come yet; its token is good until 20"));
}

}  // namespace
}  // namespace swarm::ctl

// swarmctl against a real API server, as a user of kubectl has configured it.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "api/format/yaml.h"
#include "api/status_json.h"
#include "base/files.h"
#include "base/identity/authority.h"
#include "base/identity/trust.h"
#include "base/testing/temporary_folder.h"
#include "operator/kube/testing/api_server_under_test.h"
#include "operator/kube/timing/timing.h"
#include "operator/machines/account.h"
#include "operator/names/names.h"
#include "operator/satellite/account_secret.h"
#include "worker/enrol/token.h"
#include "worker/processes/processes.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

const kube::Resource kDefinitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions", false};

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
  /// A SwarmJob that takes machines, and what home publishes for those who make tokens.
  void PutJob(const std::string& name) {
    const std::string root = SWARM_SOURCE_DIR;
    const json definition = *api::YamlToJson(*ReadFile(root + "/crds/swarmjob.yaml"));
    ASSERT_TRUE(client_->Apply(kDefinitions, definition).ok());
    json object = *api::YamlToJson(*ReadFile(root + "/examples/tiny-llama.yaml"));
    object["metadata"] = {{"name", name}, {"namespace", ns_}};
    object["spec"]["workers"]["machinePools"] = json::array({{{"name", "friends"}}});
    Result<kube::Object> made = Unavailable("the definition is not served yet");
    for (int tries = 0; tries < 100 && !made.ok(); ++tries) {
      made = client_->Create(kube::resources::SwarmJobs(), object);
      if (!made.ok()) kube::SystemTiming().Sleep(std::chrono::milliseconds(100), {});
    }
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    const auto authority = identity::JobAuthority::Create("0b6a");
    ASSERT_TRUE(authority.ok());
    fingerprint_ = *identity::Fingerprint(authority->pair().certificate, "ca");
    const json home{{"apiVersion", "v1"},
                    {"kind", "ConfigMap"},
                    {"metadata", {{"name", satellite::kHomeConfigMap}, {"namespace", ns_}}},
                    {"data", {{satellite::kAuthorityCertificate, authority->pair().certificate}}}};
    ASSERT_TRUE(client_->Create(kube::resources::ConfigMaps(), home).ok());
  }
  /// Notes in the status of the job that a machine has joined with this token.
  void ListMachine(const std::string& job, std::uint64_t ordinal, const std::string& token) {
    api::SwarmJobStatus status;
    status.nextWorkerOrdinal = ordinal + 1;
    status.machines = {{ordinal, "friends", token, {}}};
    json object = **client_->Get(kube::resources::SwarmJobs(), {ns_, job});
    object["status"] = api::StatusToJson(status);
    const auto written =
        client_->Update(kube::resources::SwarmJobs(), object, {.subresource = "status"});
    ASSERT_TRUE(written.ok()) << written.status().ToString();
  }
  machines::Account Account(const std::string& job) {
    const auto secret =
        client_->Get(kube::resources::Secrets(), {ns_, names::TokensSecretName(job)});
    EXPECT_TRUE(secret.ok()) << secret.status().ToString();
    return *machines::ParseAccount(kube::SecretText(**secret, machines::kAccount));
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

  std::string fingerprint_;  // of home's authority
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
  EXPECT_NE(Swarmctl({"satellite", "token", "home", "--context", "admin"}), 0);
  EXPECT_THAT(Output(), HasSubstr("home is the name of this cluster"));
  EXPECT_EQ(Swarmctl({"satellite", "token", "west", "--context", "admin"}), 2);
  EXPECT_THAT(Output(), HasSubstr("install it with satellites.enabled=true"));
  PutHome({{"ip", "203.0.113.9"}});
  EXPECT_EQ(Swarmctl({"satellite", "token", "west", "--context", "admin"}), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("cluster west will dial home at 203.0.113.9:7443\nsj1_"));
  EXPECT_EQ(Swarmctl({"satellite", "list", "--context", "admin"}), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("west  has not come yet; its token is good until 20"));
}

TEST_F(SwarmctlOnKubernetesTest, TheOwnerOfAJobDecidesWhichMachinesJoinIt) {
  WriteKubeconfigs();
  PutJob("tiny");
  const auto token = [this](std::vector<std::string> words) {
    words.insert(words.begin(), "token");
    words.insert(words.end(), {"--context", "admin"});
    return Swarmctl(words);
  };
  const std::vector<std::string> at_home{"--operator-namespace", ns_, "--home", "203.0.113.9:7443"};
  const auto create = [&](const std::string& pool) {
    std::vector<std::string> words{"create", "tiny", "--pool", pool, "--uses", "2"};
    words.insert(words.end(), at_home.begin(), at_home.end());
    return token(words);
  };
  EXPECT_EQ(create("default"), 2);
  EXPECT_THAT(Output(), HasSubstr("spec.workers.machinePools has friends"));
  ASSERT_EQ(create("friends"), 0) << Output();
  const std::string command = "swarmctl join ", output = Output();
  std::string word = output.substr(output.rfind(command) + command.size());
  word.erase(word.find('\n'));
  const auto read = enrol::ParseJoinToken(word);
  ASSERT_TRUE(read.ok()) << Output();
  EXPECT_EQ(read->address, "203.0.113.9:7443");
  EXPECT_EQ(read->fingerprint, fingerprint_);
  const auto id = machines::ParseTokenId(read->id);
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(id->job_uid, kube::UidOf(**client_->Get(kube::resources::SwarmJobs(), {ns_, "tiny"})));
  EXPECT_EQ(Account("tiny").tokens.at(id->name).secret_digest, identity::Sha256(read->secret));

  ListMachine("tiny", 4, id->name);
  ASSERT_EQ(create("friends"), 0) << Output();
  EXPECT_EQ(token({"list", "tiny"}), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr(id->name + "  pool friends, good for "));
  EXPECT_THAT(Output(), HasSubstr("and 2 machines; joined with it: tiny-w4\n"));
  EXPECT_EQ(token({"revoke", "tiny", "tiny-w4"}), 0) << Output();
  EXPECT_TRUE(Account("tiny").revoked.contains(4));
  EXPECT_EQ(token({"revoke", "tiny", id->name}), 0) << Output();
  EXPECT_EQ(Account("tiny").tokens.size(), 1u) << "the other one stays";
  EXPECT_EQ(token({"revoke", "tiny", "nothing"}), 2);
  EXPECT_EQ(token({"list", "nowhere"}), 2);
  EXPECT_THAT(Output(), HasSubstr("has no SwarmJob of this name"));
}

}  // namespace
}  // namespace swarm::ctl

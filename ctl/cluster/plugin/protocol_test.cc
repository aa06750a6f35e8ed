// The talk with a credential plugin, without a plugin.
#include "ctl/cluster/plugin/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/base64.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kV1 = "client.authentication.k8s.io/v1";
const std::string kV1Beta1 = "client.authentication.k8s.io/v1beta1";

kube::ExecPlugin Plugin(const std::string& version, const std::string& mode) {
  kube::ExecPlugin plugin;
  plugin.api_version = version;
  plugin.command = "aws";
  plugin.interactive_mode = mode;
  return plugin;
}

TEST(PluginProtocolTest, APluginReadsInputWhereItMayAndATerminalIsThere) {
  for (const std::string& version : {kV1, kV1Beta1}) {
    for (const bool terminal : {false, true}) {
      EXPECT_FALSE(ReadsInput(Plugin(version, "Never"), terminal).value());
      EXPECT_EQ(ReadsInput(Plugin(version, "IfAvailable"), terminal).value(), terminal);
    }
    EXPECT_TRUE(ReadsInput(Plugin(version, "Always"), true).value());
  }
  EXPECT_TRUE(ReadsInput(Plugin(kV1Beta1, ""), true).value()) << "what v1beta1 means by nothing";
}

TEST(PluginProtocolTest, APluginThatCannotBeTalkedToIsRefusedWithWhatToDo) {
  const Status alone = ReadsInput(Plugin(kV1, "Always"), false).status();
  EXPECT_EQ(alone.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(alone.message(), HasSubstr("terminal"));
  const Status silent = ReadsInput(Plugin(kV1, ""), true).status();
  EXPECT_EQ(silent.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(silent.message(), HasSubstr("interactiveMode"));
  const Status old =
      ReadsInput(Plugin("client.authentication.k8s.io/v1alpha1", "Never"), true).status();
  EXPECT_EQ(old.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(old.message(), AllOf(HasSubstr("v1alpha1"), HasSubstr("update-kubeconfig")));
}

TEST(PluginProtocolTest, ThePluginIsToldOfTheClusterOnlyIfItWantsTo) {
  kube::ExecPlugin plugin = Plugin(kV1, "Never");
  kube::KubeCluster cluster;
  cluster.server = "https://h:6443";
  EXPECT_EQ(json::parse(ExecInfo(plugin, cluster, "CA", false)),
            json::parse(R"({"apiVersion": "client.authentication.k8s.io/v1",
                            "kind": "ExecCredential", "spec": {"interactive": false}})"));
  plugin.wants_cluster = true;
  EXPECT_EQ(json::parse(ExecInfo(plugin, cluster, "", true))["spec"],
            json::parse(R"({"interactive": true, "cluster": {"server": "https://h:6443"}})"));
  cluster.tls_server_name = "inside";
  cluster.insecure = true;
  cluster.proxy = "http://p:1";
  cluster.plugin_config = R"({"audience": "a"})";
  EXPECT_EQ(json::parse(ExecInfo(plugin, cluster, "CA", true))["spec"]["cluster"],
            (json{{"server", "https://h:6443"},
                  {"tls-server-name", "inside"},
                  {"insecure-skip-tls-verify", true},
                  {"certificate-authority-data", EncodeBase64("CA")},
                  {"proxy-url", "http://p:1"},
                  {"config", {{"audience", "a"}}}}));
}

// As `aws eks get-token` prints it.
TEST(PluginProtocolTest, ATokenAndItsEndAreRead) {
  const auto credential = ReadCredential(R"({"kind": "ExecCredential",
    "apiVersion": "client.authentication.k8s.io/v1beta1", "spec": {},
    "status": {"expirationTimestamp": "1970-01-01T01:00:00Z", "token": "k8s-aws-v1.abc"}})",
                                         kV1Beta1);
  ASSERT_TRUE(credential.ok()) << credential.status().ToString();
  EXPECT_EQ(credential->token, "k8s-aws-v1.abc");
  EXPECT_EQ(credential->expires, api::WallTime(std::chrono::hours(1)));
}

TEST(PluginProtocolTest, ACertificateIsPem) {
  const auto credential = ReadCredential(R"({"kind": "ExecCredential",
    "apiVersion": "client.authentication.k8s.io/v1",
    "status": {"clientCertificateData": "CERT", "clientKeyData": "KEY"}})",
                                         kV1);
  ASSERT_TRUE(credential.ok()) << credential.status().ToString();
  EXPECT_EQ(credential->certificate + credential->key, "CERTKEY");
  EXPECT_EQ(credential->expires, std::nullopt);
}

TEST(PluginProtocolTest, AWrongAnswerIsRefusedWithoutItsSecrets) {
  const auto refused = [](const std::string& status) {
    const Status said = ReadCredential(R"({"kind": "ExecCredential",
      "apiVersion": "client.authentication.k8s.io/v1", "status": )" +
                                           status + "}",
                                       kV1)
                            .status();
    EXPECT_EQ(said.code(), StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(said.message(), Not(HasSubstr("secret")));
    return said.message();
  };
  EXPECT_THAT(refused("{}"), HasSubstr("neither a token nor a client certificate"));
  EXPECT_THAT(refused("null"), HasSubstr("neither a token nor a client certificate"));
  EXPECT_THAT(refused(R"({"token": "secret", "clientKeyData": "secret"})"), HasSubstr("key"));
  EXPECT_THAT(refused(R"({"token": "secret", "expirationTimestamp": "soon"})"),
              HasSubstr("expirationTimestamp"));
  for (const char* text : {"", "secret", "[]", R"({"kind": "Secret", "token": "secret"})"}) {
    const Status said = ReadCredential(text, kV1).status();
    EXPECT_EQ(said.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(said.message(), Not(HasSubstr("secret")));
  }
  EXPECT_THAT(ReadCredential(R"({"kind": "ExecCredential", "apiVersion": ")" + kV1Beta1 +
                                 R"(", "status": {"token": "secret"}})",
                             kV1)
                  .status()
                  .message(),
              AllOf(HasSubstr("v1beta1"), Not(HasSubstr("secret"))));
}

}  // namespace
}  // namespace swarm::ctl

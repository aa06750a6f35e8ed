// What is read from one or more kubeconfig files, without any file.
#include "operator/kube/kubeconfig/kubeconfig.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base64.h"

namespace swarm::kube {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

constexpr const char* kWork = R"(
current-context: work
contexts:
- {name: work, context: {cluster: shared, user: me, namespace: team}}
clusters:
- {name: shared, cluster: {server: 'https://office/', certificate-authority: ca.crt}}
)";
constexpr const char* kHome = R"(
current-context: home
contexts:
- {name: home, context: {cluster: shared, user: me}}
- {name: work, context: {cluster: other, user: me, namespace: never}}
clusters:
- {name: shared, cluster: {server: 'https://home', insecure-skip-tls-verify: true}}
users:
- {name: me, user: {tokenFile: secrets/token, client-certificate: /abs/me.crt, client-key: me.key}}
)";

Result<KubeContext> Two(const std::string& context = "") {
  return ChooseContext({{"/office/config", kWork}, {"/home/me/.kube/config", kHome}}, context);
}

/// One file whose only context has this user.
Result<KubeContext> WithUser(const std::string& user) {
  return ChooseContext({{"/k/config", R"(
current-context: c
contexts: [{name: c, context: {cluster: c, user: me}}]
clusters: [{name: c, cluster: {server: 'https://h'}}]
users: [{name: me, user: {)" + user + "}}]"}},
                       "");
}
std::string Refusal(const std::string& user) {
  const auto context = WithUser(user);
  EXPECT_EQ(context.status().code(), StatusCode::kInvalidArgument) << user;
  return context.status().message();
}

TEST(KubeconfigTest, TheFirstFileThatHasANameDecidesAboutTheWholeEntry) {
  const auto context = Two();
  ASSERT_TRUE(context.ok()) << context.status().ToString();
  EXPECT_EQ(context->ns, "team");
  EXPECT_EQ(context->cluster.server, "https://office");
  EXPECT_FALSE(context->cluster.insecure) << "a field of the second file's entry";
}

TEST(KubeconfigTest, AContextMayTakeItsClusterAndItsUserFromOtherFiles) {
  const auto context = Two("home");
  ASSERT_TRUE(context.ok()) << context.status().ToString();
  EXPECT_EQ(context->ns, "default");
  EXPECT_EQ(context->cluster.server, "https://office");
}

TEST(KubeconfigTest, PathsCountFromTheFileTheyStandIn) {
  const auto context = Two();
  ASSERT_TRUE(context.ok()) << context.status().ToString();
  EXPECT_EQ(context->cluster.authority.file, "/office/ca.crt");
  EXPECT_EQ(context->user.token_file, "/home/me/.kube/secrets/token");
  EXPECT_EQ(context->user.certificate.file, "/abs/me.crt");
  EXPECT_EQ(context->user.key.file, "/home/me/.kube/me.key");
  const auto here = ChooseContext({{"config", kWork}, {"other", kHome}}, "");
  EXPECT_EQ(here.value().cluster.authority.file, "ca.crt");
}

TEST(KubeconfigTest, AFileWithoutCurrentContextLeavesItToTheNext) {
  const auto context = ChooseContext(
      {{"/empty", ""}, {"/null", "current-context: ''\nusers: null"}, {"/h", kHome}}, "");
  ASSERT_TRUE(context.ok()) << context.status().ToString();
  EXPECT_TRUE(context->cluster.insecure);
}

TEST(KubeconfigTest, AUserWithoutAnythingDecidesToo) {
  const auto context =
      ChooseContext({{"/a", "users: [{name: me}]"}, {"/w", kWork}, {"/h", kHome}}, "");
  ASSERT_TRUE(context.ok()) << context.status().ToString();
  EXPECT_EQ(context->user.token_file, "");
}

TEST(KubeconfigTest, DataStandsInTheFileAndComesBeforeAPath) {
  const auto context =
      WithUser("client-certificate-data: " + EncodeBase64("CERT") +
               ", client-certificate: no.crt, client-key-data: " + EncodeBase64("KEY"));
  ASSERT_TRUE(context.ok()) << context.status().ToString();
  EXPECT_EQ(context->user.certificate, (PemPlace{"CERT", ""}));
  EXPECT_EQ(context->user.key, (PemPlace{"KEY", ""}));
}

TEST(KubeconfigTest, APluginIsReadAsCloudsWriteIt) {
  const auto context = ChooseContext({{"/home/me/.kube/config", R"(
current-context: eks
contexts: [{name: eks, context: {cluster: eks, user: eks}}]
clusters:
- name: eks
  cluster:
    server: https://0123.gr7.eu-central-1.eks.amazonaws.com
    tls-server-name: inside
    proxy-url: http://proxy:3128
    extensions:
    - {name: other, extension: 1}
    - {name: client.authentication.k8s.io/exec, extension: {audience: a}}
users:
- name: eks
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: aws
      args: [--region, eu-central-1, eks, get-token, --cluster-name, one]
      env: [{name: AWS_PROFILE, value: work}]
      interactiveMode: IfAvailable
      provideClusterInfo: true
      installHint: install the AWS CLI
)"}},
                                     "");
  ASSERT_TRUE(context.ok()) << context.status().ToString();
  EXPECT_EQ(context->cluster.tls_server_name, "inside");
  EXPECT_EQ(context->cluster.proxy, "http://proxy:3128");
  EXPECT_EQ(context->cluster.plugin_config, R"({"audience":"a"})");
  const ExecPlugin& plugin = context->user.plugin.value();
  EXPECT_EQ(plugin.api_version, "client.authentication.k8s.io/v1beta1");
  EXPECT_EQ(plugin.command, "aws");
  EXPECT_THAT(plugin.arguments,
              ElementsAre("--region", "eu-central-1", "eks", "get-token", "--cluster-name", "one"));
  EXPECT_THAT(plugin.environment, ElementsAre(Pair("AWS_PROFILE", "work")));
  EXPECT_EQ(plugin.interactive_mode, "IfAvailable");
  EXPECT_EQ(plugin.install_hint, "install the AWS CLI");
  EXPECT_TRUE(plugin.wants_cluster);
}

TEST(KubeconfigTest, APluginsPathCountsFromItsFileAndANameDoesNot) {
  const auto command = [](const std::string& text) {
    return WithUser("exec: {command: " + text + ", args: null, env: null}")
        .value()
        .user.plugin.value()
        .command;
  };
  EXPECT_EQ(command("aws"), "aws");
  EXPECT_EQ(command("./bin/login"), "/k/./bin/login");
  EXPECT_EQ(command("/opt/login"), "/opt/login");
}

TEST(KubeconfigTest, WhatIsMissingIsNamedBesideWhatIsThere) {
  const Status context = Two("nowhere").status();
  EXPECT_EQ(context.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(context.message(),
              AllOf(HasSubstr("/office/config, /home/me/.kube/config"),
                    HasSubstr("no context named 'nowhere'"), HasSubstr("work, home")));
  EXPECT_THAT(ChooseContext({{"/office/config", kWork}}, "").status().message(),
              HasSubstr("no user named 'me'; there are none"));
  EXPECT_THAT(ChooseContext({{"/k", "contexts: []"}}, "").status().message(),
              HasSubstr("--context"));
}

TEST(KubeconfigTest, AnErrorOfAnEntryNamesItsFile) {
  EXPECT_THAT(Refusal("client-key: k"), HasSubstr("user 'me' in /k/config"));
}

TEST(KubeconfigTest, WhatIsNotSupportedIsRefusedByNameWithWhatToDo) {
  EXPECT_THAT(Refusal("auth-provider: {name: gcp}"),
              AllOf(HasSubstr("auth-provider 'gcp'"), HasSubstr("gcloud container clusters")));
  EXPECT_THAT(Refusal("auth-provider: {name: azure}"), HasSubstr("kubelogin convert-kubeconfig"));
  EXPECT_THAT(Refusal("auth-provider: {name: oidc, config: {refresh-token: secret}}"),
              AllOf(HasSubstr("auth-provider 'oidc'"), Not(HasSubstr("secret"))));
  EXPECT_THAT(Refusal("username: me, password: secret"),
              AllOf(HasSubstr("kubectl create token"), Not(HasSubstr("secret"))));
  EXPECT_THAT(Refusal("token: t, as: admin"), HasSubstr("'as'"));
  EXPECT_THAT(Refusal("exec: {args: [a]}"), HasSubstr("exec has no command"));
  EXPECT_THAT(Refusal("exec: {command: a, args: [1]}"), HasSubstr("exec.args"));
}

}  // namespace
}  // namespace swarm::kube

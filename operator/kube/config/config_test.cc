#include "operator/kube/config/config.h"

#include <gmock/gmock.h>

#include "base/base64.h"
#include "operator/kube/testing/api_server_test.h"

namespace swarm::kube {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Environment Variables(std::map<std::string, std::string> variables) {
  return [variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
}

class ConfigTest : public ::testing::Test {
 protected:
  Result<Config> Kubeconfig(const std::string& cluster, const std::string& user,
                            const KubeconfigOptions& options = {}) {
    const auto file = folder_.Put("config", R"(apiVersion: v1
kind: Config
current-context: mine
contexts:
- name: other
  context: {cluster: other, user: other}
- name: mine
  context: {cluster: here, user: me, namespace: team}
clusters:
- name: here
  cluster: {)" + cluster + R"(}
users:
- name: me
  user: {)" + user + "}\n");
    return FindConfig(file, options, Variables({}), timing_);
  }
  std::string Refused(const std::string& cluster, const std::string& user) {
    const Status status = Kubeconfig(cluster, user).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  }

  static constexpr const char* kServer = "server: 'https://10.0.0.1:6443'";
  TemporaryFolder folder_;
  FakeTiming timing_;
};

TEST_F(ConfigTest, APodFindsEverythingInItsServiceAccount) {
  folder_.Put("token", "secret\n");
  folder_.Put("ca.crt", "PEM");
  folder_.Put("namespace", "swarm-system");
  const auto environment = Variables({{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                                      {"KUBERNETES_SERVICE_PORT", "443"},
                                      {"HTTPS_PROXY", "http://proxy:3128"}});
  const auto config = InClusterConfig(folder_.path(), environment, timing_);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->server, "https://10.96.0.1:443");
  EXPECT_EQ(config->ns, "swarm-system");
  EXPECT_EQ(config->credentials->Authorization().value(), "Bearer secret");
  EXPECT_EQ(config->tls().ca, "PEM");
  EXPECT_EQ(config->proxy, "");
}

TEST_F(ConfigTest, AServerWithAnIPv6AddressIsDialledByName) {
  for (const char* file : {"token", "ca.crt", "namespace"}) folder_.Put(file, "x");
  const auto config = InClusterConfig(
      folder_.path(),
      Variables({{"KUBERNETES_SERVICE_HOST", "fd00::1"}, {"KUBERNETES_SERVICE_PORT", "443"}}),
      timing_);
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->server, "https://kubernetes.default.svc:443");
}

TEST_F(ConfigTest, OutsideOfAPodAKubeconfigIsNeeded) {
  const Status status = FindConfig("", {}, Variables({}), timing_).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("kubeconfig"));
}

TEST_F(ConfigTest, TheAuthorityIsReadAnewAndKeptWhileItCannotBeRead) {
  for (const char* file : {"token", "namespace"}) folder_.Put(file, "x");
  folder_.Put("ca.crt", "old");
  const auto config = InClusterConfig(
      folder_.path(),
      Variables({{"KUBERNETES_SERVICE_HOST", "h"}, {"KUBERNETES_SERVICE_PORT", "1"}}), timing_);
  folder_.Put("ca.crt", "new");
  EXPECT_EQ(config->tls().ca, "new");
  std::filesystem::remove(folder_.path() / "ca.crt");
  EXPECT_EQ(config->tls().ca, "new");
}

TEST_F(ConfigTest, TheCurrentContextCountsUnlessAnotherIsNamed) {
  const auto config = Kubeconfig(kServer, "token: abc");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->server, "https://10.0.0.1:6443");
  EXPECT_EQ(config->ns, "team");
  EXPECT_EQ(config->credentials->Authorization().value(), "Bearer abc");
  const Status other = Kubeconfig(kServer, "token: abc", {.context = "other"}).status();
  EXPECT_THAT(other.message(), HasSubstr("no cluster named 'other'"));
}

TEST_F(ConfigTest, CertificatesStandInTheFileOrBesideIt) {
  folder_.Put("client.key", "KEY");
  const auto config =
      Kubeconfig(std::string(kServer) + ", certificate-authority-data: " + EncodeBase64("CA"),
                 "client-certificate-data: " + EncodeBase64("CERT") + ", client-key: client.key");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->tls(), (TlsMaterial{"CA", "CERT", "KEY", false}));
  folder_.Put("client.key", "NEW KEY");
  EXPECT_EQ(config->tls().key, "NEW KEY");
  EXPECT_EQ(config->credentials->Authorization().value(), "");
}

TEST_F(ConfigTest, ATokenFileIsReadAgain) {
  folder_.Put("token", "one");
  const auto config = Kubeconfig(kServer, "tokenFile: token");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->credentials->Authorization().value(), "Bearer one");
  folder_.Put("token", "two");
  timing_.Advance(seconds(60));
  EXPECT_EQ(config->credentials->Authorization().value(), "Bearer two");
}

TEST_F(ConfigTest, TrustingAnybodyNeedsAFlag) {
  const std::string cluster = std::string(kServer) + ", insecure-skip-tls-verify: true";
  EXPECT_THAT(Refused(cluster, "token: a"), HasSubstr("--allow-insecure"));
  const auto config = Kubeconfig(cluster, "token: a", {.allow_insecure = true});
  ASSERT_TRUE(config.ok());
  EXPECT_TRUE(config->tls().insecure);
}

TEST_F(ConfigTest, WhatIsNotSupportedIsRefusedByName) {
  EXPECT_THAT(Refused(kServer, "exec: {command: aws}"), HasSubstr("kubectl create token"));
  EXPECT_THAT(Refused(kServer, "auth-provider: {name: gcp}"), HasSubstr("auth-provider"));
  EXPECT_THAT(Refused(kServer, "username: me, password: x"), HasSubstr("passwords"));
  EXPECT_THAT(Refused(kServer, "client-key-data: " + EncodeBase64("K")), HasSubstr("together"));
  EXPECT_THAT(Refused("server: 'ftp://x'", "token: a"), HasSubstr("ftp://x"));
  EXPECT_THAT(Refused(std::string(kServer) + ", certificate-authority-data: '%%%'", "token: a"),
              HasSubstr("base64"));
}

TEST_F(ConfigTest, WhatIsNoKubeconfigIsRefused) {
  for (const char* text : {"", "[]", "a: b", "{", "current-context: x\ncontexts: 3"}) {
    const auto file = folder_.Put("config", text);
    EXPECT_EQ(FindConfig(file, {}, Variables({}), timing_).status().code(),
              StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_EQ(FindConfig(folder_ / "none", {}, Variables({}), timing_).status().code(),
            StatusCode::kNotFound);
}

TEST_F(ConfigTest, KubeconfigListsFilesOfWhichSomeMayBeMissing) {
  folder_.Put("ca.crt", "CA");
  const std::string context = folder_.Put("context", R"(
current-context: mine
contexts: [{name: mine, context: {cluster: here, user: me, namespace: team}}])");
  const std::string rest = folder_.Put("deep/rest", R"(
clusters: [{name: here, cluster: {server: 'https://h', certificate-authority: ../ca.crt}}]
users: [{name: me, user: {token: abc}}])");
  const std::string list = ":" + (folder_ / "missing") + ":" + context + ":" + rest;
  const auto config = FindConfig("", {}, Variables({{"KUBECONFIG", list}}), timing_);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->server, "https://h");
  EXPECT_EQ(config->ns, "team");
  EXPECT_EQ(config->tls().ca, "CA");
  EXPECT_EQ(config->credentials->Authorization().value(), "Bearer abc");
}

TEST_F(ConfigTest, TheFileInTheHomeFolderIsReadOnlyOnDemandAndIfNothingElseIsGiven) {
  const auto home = [&](const std::string& server) {
    return R"(
current-context: c
contexts: [{name: c, context: {cluster: c, user: c}}]
clusters: [{name: c, cluster: {server: ')" +
           server + R"('}}]
users: [{name: c, user: {}}])";
  };
  folder_.Put(".kube/config", home("https://home"));
  const std::string listed = folder_.Put("listed", home("https://listed"));
  const std::string named = folder_.Put("named", home("https://named"));
  const auto environment = Variables({{"HOME", folder_.path()}});
  const auto both = Variables({{"HOME", folder_.path()}, {"KUBECONFIG", listed}});
  const KubeconfigOptions at_home{.home = true};
  EXPECT_EQ(FindConfig("", at_home, environment, timing_).value().server, "https://home");
  EXPECT_EQ(FindConfig("", at_home, both, timing_).value().server, "https://listed");
  EXPECT_EQ(FindConfig(named, at_home, both, timing_).value().server, "https://named");
  EXPECT_EQ(FindConfig("", {}, environment, timing_).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(ConfigTest, WhereNoFileExistsTheErrorNamesThoseThatWereLookedFor) {
  const auto missing = Variables({{"KUBECONFIG", "/no/such:/nor/this"}});
  const Status status = FindConfig("", {}, missing, timing_).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("/no/such, /nor/this"));
  EXPECT_THAT(FindConfig("", {.context = "mine"}, missing, timing_).status().message(),
              HasSubstr("'mine'"));
}

TEST_F(ConfigTest, WithoutAnAuthorityThoseOfTheMachineAreTrusted) {
  EXPECT_TRUE(Kubeconfig(kServer, "token: a").value().tls().machine_authorities);
  const std::string own = ", certificate-authority-data: " + EncodeBase64("CA");
  EXPECT_FALSE(Kubeconfig(kServer + own, "token: a").value().tls().machine_authorities);
}

TEST_F(ConfigTest, NoTokenIsSentInTheClear) {
  const auto config = Kubeconfig("server: 'http://10.0.0.1:8080'", "token: secret");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->credentials->Authorization().value(), "");
}

TEST_F(ConfigTest, APluginMakesWhatTheUserDoesNotHave) {
  const KubeconfigOptions options{
      .plugin = [](const ExecPlugin& plugin, const KubeCluster& cluster,
                   const std::string& authority) -> Result<PluginIdentity> {
        return PluginIdentity{FixedToken(plugin.command + " of " + cluster.server), [authority] {
                                return ClientCertificate{"CERT under " + authority, "KEY"};
                              }};
      }};
  const std::string cluster = kServer + (", certificate-authority-data: " + EncodeBase64("CA"));
  const auto config = Kubeconfig(cluster, "exec: {command: aws}", options);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->credentials->Authorization().value(), "Bearer aws of https://10.0.0.1:6443");
  EXPECT_EQ(config->tls().certificate, "CERT under CA");
  EXPECT_EQ(config->tls().key, "KEY");
  const auto token = Kubeconfig(cluster, "exec: {command: aws}, token: mine", options);
  EXPECT_EQ(token.value().credentials->Authorization().value(), "Bearer mine");
  EXPECT_EQ(token.value().tls().certificate, "");
}

TEST_F(ConfigTest, TheClustersProxyComesBeforeThatOfTheEnvironment) {
  const auto environment = Variables({{"HTTPS_PROXY", "proxy.corp:3128"}});
  const auto file = [&](const std::string& more) {
    return folder_.Put("config", R"(
current-context: c
contexts: [{name: c, context: {cluster: c, user: c}}]
clusters: [{name: c, cluster: {server: 'https://h', tls-server-name: inside)" +
                                     more + R"(}}]
users: [{name: c, user: {}}])");
  };
  const auto plain = FindConfig(file(""), {}, environment, timing_);
  EXPECT_EQ(plain.value().proxy, "http://proxy.corp:3128");
  EXPECT_EQ(plain.value().tls_server_name, "inside");
  EXPECT_EQ(FindConfig(file(", proxy-url: 'http://own:1'"), {}, environment, timing_).value().proxy,
            "http://own:1");
  const Status socks =
      FindConfig(file(", proxy-url: 'socks5://me:secret@own:1'"), {}, environment, timing_)
          .status();
  EXPECT_EQ(socks.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(socks.message(), AllOf(HasSubstr("socks5://"), HasSubstr("proxy-url")));
  EXPECT_THAT(socks.message(), Not(HasSubstr("secret")));
}

TEST(ProxyTest, TheEnvironmentNamesTheProxyByScheme) {
  const auto environment =
      Variables({{"HTTPS_PROXY", "http://secure:1"}, {"http_proxy", "http://plain:2"}});
  EXPECT_EQ(ProxyFor("https://api.example.com", environment), "http://secure:1");
  EXPECT_EQ(ProxyFor("http://api.example.com:8080/x", environment), "http://plain:2");
  EXPECT_EQ(ProxyFor("https://127.0.0.1:6443", environment), "");
  EXPECT_EQ(ProxyFor("https://localhost:6443", environment), "");
  EXPECT_EQ(ProxyFor("https://[::1]:6443", environment), "");
  EXPECT_EQ(ProxyFor("https://api.example.com", Variables({})), "");
}

TEST(ProxyTest, NoProxyNamesHostsDomainsAndNetworks) {
  const auto environment = Variables(
      {{"HTTPS_PROXY", "http://p"}, {"NO_PROXY", "exact.org, .example.com,10.0.0.0/8,bad/99"}});
  for (const char* host :
       {"exact.org", "sub.exact.org", "api.example.com", "10.1.2.3", "10.255.0.1:6443"}) {
    EXPECT_EQ(ProxyFor(std::string("https://") + host, environment), "") << host;
  }
  // As for Go's programs, a domain that begins with a dot has only the hosts below it.
  for (const char* host :
       {"inexact.org", "example.org", "example.com", "11.0.0.1", "10.example.net"}) {
    EXPECT_EQ(ProxyFor(std::string("https://") + host, environment), "http://p") << host;
  }
  const auto none = Variables({{"HTTPS_PROXY", "http://p"}, {"no_proxy", "*"}});
  EXPECT_EQ(ProxyFor("https://a", none), "");
}

TEST(ProxyTest, NoProxyMayNamePortsAndIpv6) {
  const auto environment = Variables(
      {{"HTTPS_PROXY", "http://p"}, {"NO_PROXY", "h:6443,fd00::/8,[2001:db8::1]:443,*.W"}});
  for (const char* host : {"H:6443", "[fd12::1]:6443", "[2001:db8::1]", "a.w"}) {
    EXPECT_EQ(ProxyFor(std::string("https://") + host, environment), "") << host;
  }
  for (const char* host : {"h", "h:443", "[fe80::1]", "[2001:db8::1]:6443", "w"}) {
    EXPECT_EQ(ProxyFor(std::string("https://") + host, environment), "http://p") << host;
  }
}

}  // namespace
}  // namespace swarm::kube

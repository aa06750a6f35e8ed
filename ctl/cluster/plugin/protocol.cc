#include "ctl/cluster/plugin/protocol.h"

#include <nlohmann/json.hpp>

#include "base/base64.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;

constexpr std::string_view kV1 = "client.authentication.k8s.io/v1";
constexpr std::string_view kV1Beta1 = "client.authentication.k8s.io/v1beta1";

std::string Field(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

json ClusterInfo(const kube::KubeCluster& cluster, const std::string& authority) {
  json info{{"server", cluster.server}};
  if (!cluster.tls_server_name.empty()) info["tls-server-name"] = cluster.tls_server_name;
  if (cluster.insecure) info["insecure-skip-tls-verify"] = true;
  if (!authority.empty()) info["certificate-authority-data"] = EncodeBase64(authority);
  if (!cluster.proxy.empty()) info["proxy-url"] = cluster.proxy;
  if (!cluster.plugin_config.empty()) info["config"] = json::parse(cluster.plugin_config);
  return info;
}

}  // namespace

Result<bool> ReadsInput(const kube::ExecPlugin& plugin, bool terminal) {
  if (plugin.api_version != kV1 && plugin.api_version != kV1Beta1) {
    return InvalidArgument("its apiVersion '" + plugin.api_version +
                           "' is not spoken, only client.authentication.k8s.io/v1 and /v1beta1:"
                           " write the entry anew with the cloud's program, for example"
                           " `aws eks update-kubeconfig`");
  }
  const std::string& mode = plugin.interactive_mode;
  if (mode == "Never") return false;
  if (mode == "IfAvailable" || (mode.empty() && plugin.api_version == kV1Beta1)) return terminal;
  if (mode == "Always") {
    if (terminal) return true;
    return FailedPrecondition(
        "it must ask its user (interactiveMode: Always), and standard input is no terminal: call"
        " this from a terminal, or use the token of a service account (`kubectl create token`)");
  }
  return InvalidArgument("its interactiveMode is '" + mode +
                         "'; write Never, IfAvailable or Always, which v1 requires");
}

std::string ExecInfo(const kube::ExecPlugin& plugin, const kube::KubeCluster& cluster,
                     const std::string& authority, bool reads_input) {
  json spec{{"interactive", reads_input}};
  if (plugin.wants_cluster) spec["cluster"] = ClusterInfo(cluster, authority);
  return json{{"apiVersion", plugin.api_version}, {"kind", "ExecCredential"}, {"spec", spec}}
      .dump();
}

Result<PluginCredential> ReadCredential(std::string_view output, const std::string& api_version) {
  const json answer = json::parse(output, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object() || Field(answer, "kind") != "ExecCredential") {
    return InvalidArgument("its answer is no ExecCredential in JSON");
  }
  if (const std::string version = Field(answer, "apiVersion"); version != api_version) {
    return InvalidArgument("it answers in apiVersion '" + version + "', and the kubeconfig says '" +
                           api_version + "': write the entry anew with the cloud's program");
  }
  const auto found = answer.find("status");
  const json status = found != answer.end() && found->is_object() ? *found : json::object();
  PluginCredential credential{Field(status, "token"), Field(status, "clientCertificateData"),
                              Field(status, "clientKeyData"), std::nullopt};
  if (credential.certificate.empty() != credential.key.empty()) {
    return InvalidArgument("its answer has a client certificate without key, or a key without one");
  }
  if (credential.token.empty() && credential.certificate.empty()) {
    return InvalidArgument("its answer has neither a token nor a client certificate");
  }
  if (const std::string expires = Field(status, "expirationTimestamp"); !expires.empty()) {
    credential.expires = api::ParseTime(expires);
    if (!credential.expires) return InvalidArgument("its expirationTimestamp is no time");
  }
  return credential;
}

}  // namespace swarm::ctl

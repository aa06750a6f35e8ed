#include "ctl/cluster/satellite_command.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/identity/trust.h"
#include "ctl/cluster/cluster.h"
#include "operator/satellite/account_secret.h"
#include "worker/enrol/token.h"

namespace swarm::ctl {
namespace {

constexpr int kTokenIdBytes = 4;  // a name for people
constexpr int kSecretBytes = 16;

/// Where nothing has this name, the reason is known.
Status Explained(const Status& status, const kube::ObjectName& secret) {
  if (status.code() != StatusCode::kNotFound) return status;
  return FailedPrecondition("no operator in the namespace " + secret.ns +
                            " expects satellites: install it with satellites.enabled=true, and"
                            " name its namespace with --namespace");
}

Result<std::string> MakeToken(const SatelliteOptions& options, Cluster* cluster) {
  const kube::ObjectName name{cluster->ns, satellite::kHomeSecret};
  const auto secret = cluster->client->Get(kube::resources::Secrets(), name);
  RETURN_IF_ERROR(Explained(secret.status(), name));
  ASSIGN_OR_RETURN(
      const std::string fingerprint,
      identity::Fingerprint(satellite::TextIn(**secret, satellite::kAuthorityCertificate),
                            "the authority in the Secret " + name.ToString()));
  ASSIGN_OR_RETURN(const std::string id, identity::MakeSecret(kTokenIdBytes));
  ASSIGN_OR_RETURN(const std::string word, identity::MakeSecret(kSecretBytes));
  const auto expires =
      std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now()) +
      std::chrono::duration_cast<std::chrono::seconds>(options.lifetime);
  RETURN_IF_ERROR(
      satellite::ChangeAccount(*cluster->client, name, [&](satellite::Account* account) {
        account->tokens[id] = {identity::Sha256(word), options.name, expires};
        return Status();
      }));
  return enrol::ToText({options.home, fingerprint, id, word});
}

}  // namespace

ExitCode CreateSatelliteToken(const SatelliteOptions& options, std::FILE* out, std::FILE* err) {
  auto cluster = Connect(options.cluster, err, {});
  if (!cluster.ok()) return Refuse(cluster.status(), err);
  const auto token = MakeToken(options, &*cluster);
  if (!token.ok()) return Refuse(token.status(), err);
  std::fprintf(out, "%s\n", token->c_str());
  return ExitCode::kOk;
}

ExitCode RevokeSatellite(const SatelliteOptions& options, std::FILE* out, std::FILE* err) {
  auto cluster = Connect(options.cluster, err, {});
  if (!cluster.ok()) return Refuse(cluster.status(), err);
  const kube::ObjectName name{cluster->ns, satellite::kHomeSecret};
  const Status changed =
      satellite::ChangeAccount(*cluster->client, name, [&](satellite::Account* account) {
        std::erase_if(account->tokens,
                      [&](const auto& token) { return token.second.cluster == options.name; });
        account->revoked.insert(options.name);
        return Status();
      });
  if (!changed.ok()) return Refuse(Explained(changed, name), err);
  std::fprintf(out, "the satellite of cluster %s is out when it next connects\n",
               options.name.c_str());
  return ExitCode::kOk;
}

}  // namespace swarm::ctl

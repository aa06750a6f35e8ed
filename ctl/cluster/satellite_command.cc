#include "ctl/cluster/satellite_command.h"

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "api/format/wall_time.h"
#include "base/identity/trust.h"
#include "ctl/cluster/cluster.h"
#include "ctl/cluster/home_of_cluster.h"
#include "operator/names/names.h"
#include "operator/satellite/account_secret.h"
#include "worker/enrol/token.h"

namespace swarm::ctl {
namespace {

constexpr int kTokenIdBytes = 4;  // a name for people
constexpr int kSecretBytes = 16;

Result<std::string> MakeToken(const SatelliteOptions& options, Cluster* cluster, std::FILE* err) {
  if (options.name == names::kHomeCluster) {
    return InvalidArgument("home is the name of this cluster; give the satellite another one");
  }
  std::string home = options.home;
  if (home.empty()) {
    ASSIGN_OR_RETURN(home, AwaitHomeAddress(*cluster->client, cluster->ns, err));
    std::fprintf(err, "cluster %s will dial home at %s\n", options.name.c_str(), home.c_str());
  }
  const kube::ObjectName name{cluster->ns, satellite::kHomeSecret};
  ASSIGN_OR_RETURN(const kube::Object secret,
                   AwaitFromHome(*cluster->client, kube::resources::Secrets(), name, err));
  ASSIGN_OR_RETURN(
      const std::string fingerprint,
      identity::Fingerprint(kube::SecretText(*secret, satellite::kAuthorityCertificate),
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
  return enrol::ToText({home, fingerprint, id, word});
}

std::string At(satellite::WallTime time) { return api::FormatTime(api::WholeSeconds(time)); }

/// What home knows of each cluster, in words.
std::map<std::string, std::string> InWords(const satellite::Account& account,
                                           satellite::WallTime now) {
  std::map<std::string, std::string> words;
  for (const auto& [cluster, times] : account.enrolments) words[cluster] = "has not come yet";
  for (const auto& [cluster, connection] : account.connections) {
    words[cluster] = (connection.up ? "connected since " : "away since ") + At(connection.since);
    if (!connection.gateway.empty()) words[cluster] += ", gateway at " + connection.gateway;
  }
  for (const std::string& cluster : account.revoked) words[cluster] = "revoked";
  for (const auto& [id, token] : account.tokens) {
    std::string& text = words[token.cluster];
    text += (text.empty() ? "has not come yet; its token " : "; a new token ") +
            std::string(now < token.expires ? "is good until " : "has expired at ") +
            At(token.expires);
  }
  return words;
}

}  // namespace

ExitCode ListSatellites(const SatelliteOptions& options, std::FILE* out, std::FILE* err) {
  auto cluster = Connect(options.cluster, err, {});
  if (!cluster.ok()) return Refuse(cluster.status(), err);
  const kube::ObjectName name{cluster->ns, satellite::kHomeSecret};
  const auto account = satellite::ReadAccount(*cluster->client, name);
  if (account.status().code() == StatusCode::kNotFound) return Refuse(NobodyExpects(name.ns), err);
  if (!account.ok()) return Refuse(account.status(), err);
  const auto words = InWords(*account, std::chrono::system_clock::now());
  if (words.empty()) {
    std::fprintf(err, "no cluster has a token; `swarmctl satellite token` makes one\n");
  }
  for (const auto& [each, text] : words) {
    std::fprintf(out, "%s  %s\n", each.c_str(), text.c_str());
  }
  return ExitCode::kOk;
}

ExitCode CreateSatelliteToken(const SatelliteOptions& options, std::FILE* out, std::FILE* err) {
  auto cluster = Connect(options.cluster, err, {});
  if (!cluster.ok()) return Refuse(cluster.status(), err);
  const auto token = MakeToken(options, &*cluster, err);
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
  if (changed.code() == StatusCode::kNotFound) return Refuse(NobodyExpects(name.ns), err);
  if (!changed.ok()) return Refuse(changed, err);
  std::fprintf(out, "the satellite of cluster %s is out when it next connects\n",
               options.name.c_str());
  return ExitCode::kOk;
}

}  // namespace swarm::ctl

#include "operator/satellite/account.h"

#include <nlohmann/json.hpp>

namespace swarm::satellite {
namespace {

using nlohmann::json;

WallTime FromUnixSeconds(const json& seconds) {
  return WallTime(std::chrono::seconds(seconds.get<std::int64_t>()));
}

std::int64_t UnixSeconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

}  // namespace

std::string ToText(const Account& account) {
  json tokens = json::object();
  for (const auto& [id, token] : account.tokens) {
    tokens[id] = {{"secretDigest", token.secret_digest},
                  {"cluster", token.cluster},
                  {"expires", UnixSeconds(token.expires)}};
  }
  json connections = json::object();
  for (const auto& [cluster, connection] : account.connections) {
    connections[cluster] = {{"up", connection.up},
                            {"since", UnixSeconds(connection.since)},
                            {"gateway", connection.gateway}};
  }
  return json{{"tokens", tokens},
              {"revoked", account.revoked},
              {"enrolments", account.enrolments},
              {"connections", connections}}
      .dump();
}

Result<Account> ParseAccount(const std::string& text) {
  try {
    const json object = json::parse(text);
    Account account{.tokens = {}, .revoked = object.at("revoked").get<std::set<std::string>>()};
    for (const auto& [id, token] : object.at("tokens").items()) {
      account.tokens[id] = {token.at("secretDigest"), token.at("cluster"),
                            FromUnixSeconds(token.at("expires"))};
    }
    // Absent in an account of an earlier release.
    if (object.contains("enrolments")) object.at("enrolments").get_to(account.enrolments);
    if (object.contains("connections")) {
      for (const auto& [cluster, connection] : object.at("connections").items()) {
        account.connections[cluster] = {connection.at("up"),
                                        FromUnixSeconds(connection.at("since")),
                                        connection.value("gateway", "")};
      }
    }
    return account;
  } catch (const json::exception& error) {
    return InvalidArgument(std::string("no account of satellites: ") + error.what());
  }
}

Result<std::string> UseToken(const std::string& id, const std::string& secret_digest, WallTime now,
                             Account* account) {
  const auto token = account->tokens.find(id);
  if (token == account->tokens.end() || token->second.secret_digest != secret_digest) {
    return Status(StatusCode::kUnauthenticated,
                  "home has given no such token, or it was used already");
  }
  if (now >= token->second.expires) {
    return PermissionDenied(
        "the token has expired; make another one with"
        " `swarmctl satellite token`");
  }
  std::string cluster = token->second.cluster;
  account->tokens.erase(token);
  account->revoked.erase(cluster);
  ++account->enrolments[cluster];
  return cluster;
}

void NoteConnections(const std::map<std::string, std::string>& connected,
                     const std::set<std::string>& seen, bool all_have_come, WallTime now,
                     Account* account) {
  now = std::chrono::floor<std::chrono::seconds>(now);
  const auto turn = [now](Connection& connection, bool up) {
    if (connection.up != up) connection.since = now;
    connection.up = up;
  };
  for (const auto& [cluster, gateway] : connected) {
    Connection& connection = account->connections[cluster];
    turn(connection, true);
    connection.gateway = gateway;
  }
  for (auto& [cluster, connection] : account->connections) {
    const bool may_come = !all_have_come && !seen.contains(cluster);
    if (!connected.contains(cluster) && !may_come) turn(connection, false);
  }
}

std::string SeatOf(const Account& account, const std::string& cluster) {
  const auto times = account.enrolments.find(cluster);
  return times == account.enrolments.end() ? cluster
                                           : cluster + "/" + std::to_string(times->second);
}

Result<std::string> ClusterAt(const std::string& seat, const Account& account) {
  std::string cluster = seat.substr(0, seat.find('/'));
  if (account.revoked.contains(cluster)) {
    return PermissionDenied("the satellite of cluster " + cluster + " was revoked");
  }
  if (!cluster.empty() && seat == SeatOf(account, cluster)) return cluster;
  return PermissionDenied("another satellite of cluster " + cluster +
                          " has enrolled since; one with this certificate needs a new token, of"
                          " `swarmctl satellite token`");
}

}  // namespace swarm::satellite

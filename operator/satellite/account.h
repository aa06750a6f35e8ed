// What home knows of its satellites: tokens that are not used yet, clusters that are out, and which
// are connected. Pure: the caller passes in the time, and keeps the text between two calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "base/status.h"

namespace swarm::satellite {

using WallTime = std::chrono::system_clock::time_point;

/// Lets the satellite of one cluster in, once.
struct Token {
  std::string secret_digest;  ///< identity::Sha256 of the secret
  std::string cluster;        ///< the name that the cluster gets
  WallTime expires{};         ///< whole seconds
  bool operator==(const Token&) const = default;
};

/// Whether a satellite is connected, as home last saw it.
struct Connection {
  bool up = false;
  WallTime since{};          ///< whole seconds
  std::string gateway = {};  ///< host:port of its cluster's gateway, as last heard; empty: none
  bool operator==(const Connection&) const = default;
};

struct Account {
  std::map<std::string, Token> tokens;  ///< by id
  std::set<std::string> revoked;        ///< clusters
  /// By cluster: how often its satellite has enrolled. Certificates of earlier times count no more.
  std::map<std::string, std::uint64_t> enrolments = {};
  std::map<std::string, Connection> connections = {};  ///< by cluster; those that have come once
  bool operator==(const Account&) const = default;
};

/// JSON. Errors of ParseAccount: kInvalidArgument.
std::string ToText(const Account& account);
Result<Account> ParseAccount(const std::string& text);

/// The cluster whose satellite shows this secret. The token is used up, the cluster is no longer
/// out, and certificates that it had before count no more. Errors: kUnauthenticated (there is no
/// such token; which part is wrong is not told), kPermissionDenied (it has expired).
Result<std::string> UseToken(const std::string& id, const std::string& secret_digest, WallTime now,
                             Account* account);

/// Notes which clusters are connected, with the gateways that they name (empty: none), and which
/// have gone since `account` was written. Those that are not among `seen` may be about to come,
/// since home has just begun, so none of them has gone, unless `all_have_come`.
void NoteConnections(const std::map<std::string, std::string>& connected,
                     const std::set<std::string>& seen, bool all_have_come, WallTime now,
                     Account* account);

/// What the certificate of the cluster's satellite names now: the cluster, and "/N" behind its Nth
/// token. Without a token since there are numbers, the cluster alone.
std::string SeatOf(const Account& account, const std::string& cluster);

/// The cluster of a satellite whose certificate names this seat. Errors: kPermissionDenied (it was
/// revoked, or has enrolled again since).
Result<std::string> ClusterAt(const std::string& seat, const Account& account);

}  // namespace swarm::satellite

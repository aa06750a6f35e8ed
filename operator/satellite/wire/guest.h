// A satellite's end: it enrols at home, and carries out home's requests to the API server of its
// cluster.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include "base/identity/pem.h"
#include "operator/kube/config/credentials.h"
#include "operator/satellite/wire/messages.h"

namespace swarm::satellite {

/// Home, and how to know that it is home.
struct HomeAddress {
  std::string address;      ///< host:port
  std::string fingerprint;  ///< of the authority that has signed home's certificate
};

/// By a satellite without a certificate. Errors: those of Reception::Enrol; kUnauthenticated (the
/// server is not home), kUnavailable and kDeadlineExceeded (no answer).
Result<EnrolReply> Enrol(const HomeAddress& home, const EnrolRequest& request);
/// For the next certificate. Errors: as Enrol.
Result<EnrolReply> Renew(const HomeAddress& home, const identity::KeyPair& identity,
                         const std::string& request);

struct GuestOptions {
  HomeAddress home;
  identity::KeyPair identity;
  std::shared_ptr<kube::HttpTransport> transport;  ///< to the API server of this cluster
  std::shared_ptr<kube::Credentials> credentials;  ///< for it; null: none
  /// Whether a request of home may be carried out. Thread-safe.
  std::function<Status(const kube::HttpRequest&)> check;
  /// host:port at which the pods of this cluster prove to home which ones they are; empty: nowhere.
  std::string proof_home;
  /// host:port at which the other clusters reach the gateway of this one; empty: none is known.
  std::string gateway;
  /// Home's leader has named itself. An error ends the connection: it is not followed. On a thread
  /// of gRPC, as on_jobs.
  std::function<Status(std::uint64_t leader_term)> on_welcome;
  /// All jobs of home, by UID.
  std::function<void(std::set<std::string> uids)> on_jobs;
};

/// Serves home over one connection, until it ends or `stop` is requested, and returns why it has
/// ended. Blocks. Errors: kPermissionDenied (home does not want this satellite), kUnauthenticated
/// (the server is not home), kUnavailable, and those of on_welcome.
Status ServeHome(const GuestOptions& options, std::stop_token stop);

}  // namespace swarm::satellite

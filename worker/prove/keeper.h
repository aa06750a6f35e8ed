// Keeps the identity of a pod that proves which one it is (worker/enrol/proof.h): makes its key,
// gets the certificate from home, and the next one before it ends. The files are those that the
// programs of the pod read again by themselves.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "base/identity/pem.h"
#include "base/status.h"
#include "base/time.h"
#include "worker/enrol/proof.h"
#include "worker/enrol/service/messages.h"

namespace swarm::prove {

struct KeeperOptions {
  enrol::ProofPlace place;
  std::string job_uid;
  std::string worker;                           ///< the id of the pod
  std::filesystem::path ca, certificate, key;   ///< files that get the identity
  Duration patience = std::chrono::minutes(4);  ///< with home, for the first certificate
};

/// Asks home once (enrol::Client::Prove).
using AskHome = std::function<Result<enrol::ProveReply>(const enrol::ProveRequest& request)>;
/// That of a pod: over the network.
AskHome AskAt(const enrol::ProofPlace& place);

class Keeper {
 public:
  /// Returns when the files are there. Tries again what may work later; also what home refuses,
  /// since a home that has just begun does not know all its pods yet. Errors: the last one, once
  /// the patience is over; kCancelled (`stop`); those of writing the files.
  static Result<std::unique_ptr<Keeper>> Start(const KeeperOptions& options, AskHome ask,
                                               std::stop_token stop);
  /// The files stay.
  ~Keeper();

 private:
  Keeper(const KeeperOptions& options, AskHome ask) : options_(options), ask_(std::move(ask)) {}
  /// Once: returns how long the certificate is valid.
  Result<Duration> Renew();
  Status First(const std::stop_token& stop);
  void Keep(const std::stop_token& stop);
  /// False: `stop` was requested.
  bool Wait(Duration pause, const std::stop_token& stop);

  const KeeperOptions options_;
  const AskHome ask_;
  Duration validity_{};  // of the first certificate; then of the thread
  std::mutex mutex_;
  std::condition_variable_any wakes_;
  std::jthread thread_;  // last: uses the others
};

}  // namespace swarm::prove

// The cache of the Workloads that belong to SwarmJobs. It is filled when the first job with a queue
// asks for it, so a cluster without Kueue, or without such a job, costs nothing and needs no right.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "operator/kube/watch/reflector.h"

namespace swarm::controller {

/// Owns a thread for each namespace that is named, or one. Thread-safe.
class Workloads {
 public:
  /// Called with the key ("ns/name") of a job whose Workload has changed. Must not block.
  using Enqueue = std::function<void(const std::string& key)>;

  /// `client` and `timing` must outlive this. `namespaces`: empty: all.
  Workloads(kube::Client& client, std::set<std::string> namespaces, Enqueue enqueue,
            kube::Timing& timing);

  /// The cache, filled. A call that finds it unfilled asks the server and waits for it, for some
  /// seconds. Errors: those of CanRead.
  Result<const kube::Store*> Open();

  /// Asks the server whether Workloads can be read. Errors: those of IsMissing, which the next
  /// calls repeat for a while without asking; others, which a retry may fix.
  Status CanRead();

  /// Whether a person must act before Workloads can be read: the message says what.
  static bool IsMissing(const Status& status);

 private:
  Status Look();  // holds the lock
  Status LookForKueue() const;
  void Watch();

  kube::Client& client_;
  const std::set<std::string> namespaces_;
  const Enqueue enqueue_;
  kube::Timing& timing_;
  const std::shared_ptr<kube::Store> store_ = std::make_shared<kube::Store>();
  std::mutex mutex_;
  Status missing_;      // guarded, as all below; ok: not known to be missing
  Timepoint looked_{};  // when that was found out
  std::vector<std::unique_ptr<kube::Reflector>> reflectors_;  // last: its threads call the others
};

}  // namespace swarm::controller

// Keeps a Store equal to what the API server has of one resource, for as long as the process lives.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "operator/kube/client/client.h"
#include "operator/kube/transport/timing.h"
#include "operator/kube/watch/list_watch.h"
#include "operator/kube/watch/store.h"

namespace swarm::kube {

struct ReflectorOptions {
  Resource resource;
  std::string ns;  ///< empty: all namespaces
  std::string label_selector;
  std::string field_selector;
  std::vector<IndexKey> indexes;  ///< of the store
  /// What need not be kept. Pods have much of it.
  TrimObject trim = TrimBookkeeping;
  /// The longest silence of a watch: more than a server's interval between bookmarks, a minute.
  Duration idle_timeout = std::chrono::seconds(150);
};

/// Owns one thread, on which changes are told. The store only ever changes by what the server said:
/// while the server cannot be reached it stays as it was, and a list that failed empties nothing.
class Reflector {
 public:
  /// `client` and `timing` must outlive this.
  Reflector(Client& client, ReflectorOptions options, OnChange on_change, Timing& timing);
  /// Ends the watch and joins. on_change is not called any more.
  ~Reflector();
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  /// Begins. Once.
  void Start();

  const Store& store() const { return store_; }
  /// Whether a first list has come, and on_change was called for all of it.
  bool synced() const { return synced_; }
  /// Whether it has within `limit`; false also once `stop` was requested.
  bool WaitForSync(Duration limit, std::stop_token stop = {}) const;

  /// How often it had to list, and to watch anew, so far.
  std::uint64_t lists() const { return lists_; }
  std::uint64_t watches() const { return watches_; }

 private:
  void Run(std::stop_token stop);
  void List(const ListWatchStep& step, std::stop_token stop);
  void Watch(const ListWatchStep& step, std::stop_token stop);

  Client& client_;
  const ReflectorOptions options_;
  const OnChange on_change_;
  Timing& timing_;
  Store store_;
  ListWatchPolicy policy_;  // of the thread
  bool failing_ = false;    // of the thread: the last try failed, and was logged
  std::atomic<std::uint64_t> lists_{0};
  std::atomic<std::uint64_t> watches_{0};
  std::atomic<bool> synced_{false};
  mutable std::mutex mutex_;
  mutable std::condition_variable_any synced_changed_;
  std::jthread thread_;  // last: starts when all else is there, ends first
};

}  // namespace swarm::kube

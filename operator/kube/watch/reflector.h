// Keeps a Store equal to what the API server has of one resource.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "operator/kube/client/client.h"
#include "operator/kube/timing/timing.h"
#include "operator/kube/watch/list_watch.h"
#include "operator/kube/watch/store.h"

namespace swarm::kube {

struct ReflectorOptions {
  Resource resource;
  std::string ns;  ///< empty: all namespaces
  std::string label_selector;
  std::string field_selector;
  /// Several reflectors, each of another namespace, may share it.
  std::shared_ptr<Store> store = std::make_shared<Store>();
  /// Removes the members that need not be stored.
  TrimObject trim = TrimBookkeeping;
  /// The longest silence of a watch. Servers send a bookmark every minute.
  Duration idle_timeout = std::chrono::seconds(150);
};

/// Owns one thread, which calls on_change. The store changes only by answers of the server: while
/// the server cannot be reached, and after a failed list, it stays as it was.
class Reflector {
 public:
  /// `client` and `timing` must outlive this.
  Reflector(Client& client, ReflectorOptions options, OnChange on_change, Timing& timing);
  /// Ends the watch and joins the thread. on_change is not called afterwards.
  ~Reflector();
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  /// Starts the thread. Call once.
  void Start();

  const Store& store() const { return *options_.store; }
  /// Whether the first list has arrived and on_change was called for all of it.
  bool synced() const { return synced_; }
  /// Waits for that. Returns false after `limit`, or when `stop` is requested.
  bool WaitForSync(Duration limit, std::stop_token stop = {}) const;

  /// Why the last list or watch failed; ok: it did not, or there was none. Any thread.
  Status failure() const;

  const std::string& resource() const { return options_.resource.plural; }
  const std::string& ns() const { return options_.ns; }  ///< empty: all namespaces
  /// How many lists and watches it has begun.
  std::uint64_t lists() const { return lists_; }
  std::uint64_t watches() const { return watches_; }
  /// How long ago the server last confirmed what the store has, by a list, an event or a bookmark.
  /// Before the first list, since Start. Any thread.
  Duration silence() const { return timing_.Now() - heard_.load(); }

 private:
  std::string What() const;  ///< for logs
  /// The first failure after a success is logged.
  void OnFailed(const std::string& what, const Status& why);
  /// Whether the try before had failed.
  bool OnWorked();
  void Run(std::stop_token stop);
  void List(const ListWatchStep& step, std::stop_token stop);
  void Watch(const ListWatchStep& step, std::stop_token stop);

  Client& client_;
  const ReflectorOptions options_;
  const OnChange on_change_;
  Timing& timing_;
  ListWatchPolicy policy_;  // of the thread
  std::atomic<std::uint64_t> lists_{0};
  std::atomic<std::uint64_t> watches_{0};
  std::atomic<bool> synced_{false};
  std::atomic<Timepoint> heard_{Timepoint()};
  mutable std::mutex mutex_;
  mutable std::condition_variable_any synced_changed_;
  Status failure_;       // guarded
  std::jthread thread_;  // last: constructed after, and destroyed before, the other members
};

}  // namespace swarm::kube

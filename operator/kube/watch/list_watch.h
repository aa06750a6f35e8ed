// Decides when to list and when to watch, from which version, and after which pause. Pure: the
// thread of the reflector carries out the steps and reports their outcome.
#pragma once

#include <string>

#include "operator/kube/client/client.h"
#include "operator/kube/timing/timing.h"

namespace swarm::kube {

struct ListWatchStep {
  enum class Kind { kList, kWatch };
  Kind kind = Kind::kList;
  /// Of a list: "0" for any state in the server's cache; a version: this state or a newer one;
  /// empty: the newest state.
  std::string resource_version;
  Duration pause{};                ///< before the step
  std::chrono::seconds timeout{};  ///< of a watch, after which the server ends it
};

/// Not thread-safe. Versions are opaque: they are sent back to the server, and never compared.
///
/// The first step is a list from the server's cache. Watches follow, each from where the last one
/// ended. There is a new list only if the server no longer serves the version, refuses the watch,
/// or ends three watches in a row at once without an event: then it may have lost the version.
class ListWatchPolicy {
 public:
  /// `timing` gives the random numbers, and must outlive this.
  explicit ListWatchPolicy(Timing& timing) : timing_(timing), backoff_({}) {}

  /// The next step. Only the reports below change it.
  const ListWatchStep& next() const { return next_; }

  void OnListed(const std::string& resource_version);
  void OnListFailed(const Status& status, Timepoint now);
  /// Any event, bookmarks included.
  void OnEvent(const std::string& resource_version);
  void OnWatchBegun(Timepoint now);
  void OnWatchEnded(const WatchEnd& end, Timepoint now);

 private:
  void List(const std::string& resource_version, Duration pause);
  void Watch(Duration pause);
  Duration PauseFor(Timepoint now);
  void OnClosed(Timepoint now);
  void OnRefused(const WatchEnd& end, Timepoint now);
  void OnBroken(const WatchEnd& end, Timepoint now);

  Timing& timing_;
  Backoff backoff_;
  Timepoint backed_off_at_{};
  ListWatchStep next_{ListWatchStep::Kind::kList, "0", {}, {}};
  std::string version_;  // the newest known one
  Timepoint watch_began_at_{};
  bool heard_ = false;  // the current watch has sent an event
  int silent_closes_ = 0;
  int server_errors_ = 0;
};

}  // namespace swarm::kube

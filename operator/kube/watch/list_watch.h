// When to list, when to watch, from which version, and after what pause. Pure: the reflector's
// thread does what this says and reports how it went.
#pragma once

#include <string>

#include "operator/kube/client/client.h"
#include "operator/kube/transport/timing.h"

namespace swarm::kube {

struct ListWatchStep {
  enum class Kind { kList, kWatch };
  Kind kind = Kind::kList;
  /// Of a list: "0" the server's cache will do; a version: nothing older; empty: the newest.
  std::string resource_version;
  Duration pause{};                ///< before it
  std::chrono::seconds timeout{};  ///< of a watch, as the server is asked for
};

/// Not thread-safe. Versions are opaque: handed back, compared for nothing.
///
/// First a list from the server's cache, then watches, each from where the last one ended. A new
/// list only if the version is no longer served, if the server refuses to watch, or if it ends
/// watches at once and says nothing, three times in a row: then it may have lost the version
/// without a word.
class ListWatchPolicy {
 public:
  /// `timing` gives the dice, and must outlive the policy.
  explicit ListWatchPolicy(Timing& timing) : timing_(timing), backoff_({}) {}

  /// What is next. Changes only by what is reported below.
  const ListWatchStep& next() const { return next_; }

  void OnListed(const std::string& resource_version);
  void OnListFailed(const Status& status, Timepoint now);
  /// Any event, bookmarks too.
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
  std::string version_;  // the newest that is known
  Timepoint watch_began_at_{};
  bool heard_ = false;  // this watch said something
  int silent_closes_ = 0;
  int server_errors_ = 0;
};

}  // namespace swarm::kube

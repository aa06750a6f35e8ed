// What the operator tells people: events.k8s.io/v1 Events, as `kubectl describe` and `kubectl
// events` show them. Many alike become one with a count, and a flood is cut off: events cost the
// API server as much as any other write.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "operator/kube/client/client.h"
#include "operator/kube/client/retry.h"
#include "operator/kube/transport/timing.h"

namespace swarm::kube {

/// What an event is about.
struct ObjectReference {
  std::string api_version;
  std::string kind;
  ObjectName name;
  std::string uid;
  std::string resource_version;
};

/// To an object that the API server has given out.
ObjectReference ReferenceTo(const nlohmann::json& object);

enum class EventType { kNormal, kWarning };

struct EventRequest {
  ObjectReference regarding;
  EventType type = EventType::kNormal;
  std::string reason;  ///< CamelCase, one of a few: "WorkerPreempted"
  std::string action;  ///< what was done about it: "Replace"
  std::string note;    ///< for people; cut at 1024 bytes
};

/// What to send for a request: a new event, or a new count for one that is there.
struct EventWrite {
  bool is_new = true;
  ObjectName name;
  std::string body;  ///< JSON: the event, or the merge patch
};

struct EventCorrelatorOptions {
  std::string controller = "swarmjob.dev/operator";
  std::string instance;  ///< who of several: the pod's name
  int alike_max = 10;    ///< notes of one reason that are kept apart
  Duration alike_window = std::chrono::seconds(600);
  double burst = 25;  ///< events about one object at once
  double per_second = 1.0 / 300;
  std::size_t remembered_max = 4096;  ///< objects and series; the one unused longest goes first
};

/// Decides what becomes of each event. Not thread-safe; time is a value.
class EventCorrelator {
 public:
  explicit EventCorrelator(const EventCorrelatorOptions& options) : options_(options) {}

  /// None: the object has had more events than anybody reads.
  std::optional<EventWrite> On(const EventRequest& request, Timepoint now, WallTime wall);
  /// The event of that name is no more: the next one alike is a new one.
  void Forget(const ObjectName& name);

 private:
  // What all events of a reason have in common, and the notes they differ by.
  struct Alike {
    std::set<std::string> notes;
    Timepoint last{};
  };
  struct Series {
    ObjectName name;
    std::int64_t count = 1;
    Timepoint last{};
  };

  bool IsFlood(const EventRequest& request, Timepoint now);
  /// The note under which it is counted: its own, or the common one.
  std::string NoteOf(const EventRequest& request, const std::string& key, Timepoint now);
  template <typename Value>
  void Bound(std::map<std::string, Value>& remembered);

  const EventCorrelatorOptions options_;
  struct Flow {
    TokenBucket bucket;
    Timepoint last{};
  };
  std::map<std::string, Flow> flows_;
  std::map<std::string, Alike> alike_;
  std::map<std::string, Series> series_;
};

/// Sends events on a thread of its own. Thread-safe; Record never waits: while the server cannot be
/// reached, events beyond the queue's bound are dropped, the newest first.
class EventRecorder {
 public:
  /// `client` and `timing` must outlive this.
  EventRecorder(Client& client, const EventCorrelatorOptions& options, Timing& timing,
                std::size_t queue_max = 1000);
  /// Drops what has not been sent.
  ~EventRecorder();
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;

  void Record(const ObjectReference& regarding, EventType type, const std::string& reason,
              const std::string& action, const std::string& note);

  std::uint64_t dropped() const { return dropped_; }
  /// Waits until all that was recorded before is sent or dropped. For a program's end.
  bool Flush(Duration limit);

 private:
  void Run(std::stop_token stop);
  void Send(const EventRequest& request);

  Client& client_;
  Timing& timing_;
  const std::size_t queue_max_;
  EventCorrelator correlator_;  // of the thread
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<EventRequest> queue_;
  bool sending_ = false;
  std::atomic<std::uint64_t> dropped_{0};
  std::jthread thread_;  // last: starts when all else is there, ends first
};

}  // namespace swarm::kube

// Publishes events.k8s.io/v1 Events, which `kubectl describe` and `kubectl events` show. Similar
// events become one with a count, and a flood of events is dropped, because each costs the API
// server a write.
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
#include "operator/kube/timing/timing.h"

namespace swarm::kube {

/// What an event is about.
struct ObjectReference {
  std::string api_version;
  std::string kind;
  ObjectName name;
  std::string uid;
  std::string resource_version;
};

/// A reference to an object that came from the API server.
ObjectReference ReferenceTo(const nlohmann::json& object);

enum class EventType { kNormal, kWarning };

struct EventRequest {
  ObjectReference regarding;
  EventType type = EventType::kNormal;
  std::string reason;  ///< CamelCase, one of a few: "WorkerPreempted"
  std::string action;  ///< what the operator did: "Replace"
  std::string note;    ///< for people; cut at 1024 bytes
};

/// What to send for a request: a new event, or a new count for an existing one.
struct EventWrite {
  bool is_new = true;
  ObjectName name;
  std::string body;  ///< JSON: the event, or the merge patch
};

struct EventCorrelatorOptions {
  std::string controller = "swarmjob.dev/operator";
  std::string instance;  ///< the name of the pod, to tell several operators apart
  int alike_max = 10;    ///< different notes of one reason before they are combined
  Duration alike_window = std::chrono::seconds(600);
  double burst = 25;  ///< events about one object at once
  double per_second = 1.0 / 300;
  std::size_t remembered_max = 4096;  ///< objects and series; the least recently used goes first
};

/// Decides what is sent for each event. Not thread-safe; time is a parameter.
class EventCorrelator {
 public:
  explicit EventCorrelator(const EventCorrelatorOptions& options) : options_(options) {}

  /// None: the object has had too many events.
  std::optional<EventWrite> On(const EventRequest& request, Timepoint now, WallTime wall);
  /// The event of this name no longer exists: the next similar one is new.
  void Forget(const ObjectName& name);

 private:
  // The different notes of similar events.
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
  /// The note under which the event is counted: its own, or the common one of its reason.
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

/// Sends events on a thread of its own. Thread-safe. Record never blocks: when the queue is full,
/// because the server cannot be reached, new events are dropped.
class EventRecorder {
 public:
  /// `client` and `timing` must outlive this.
  EventRecorder(Client& client, const EventCorrelatorOptions& options, Timing& timing,
                std::size_t queue_max = 1000);
  /// Drops the events that have not been sent.
  ~EventRecorder();
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;

  void Record(const ObjectReference& regarding, EventType type, const std::string& reason,
              const std::string& action, const std::string& note);

  std::uint64_t dropped() const { return dropped_; }
  /// Waits until all events recorded so far are sent or dropped. Returns false after `limit`.
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
  std::jthread thread_;  // last: constructed after, and destroyed before, the other members
};

}  // namespace swarm::kube

// For tests: an API server in memory, behind the transport of the client. It has the parts that
// matter for the operator: resource versions and conflicts, names that are taken, status as a
// separate subresource, UIDs and preconditions, pods that end slowly, watches, and garbage
// collection by owner. It has no schema, no admission, no scheduler and no kubelet: tests play
// those.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "operator/kube/object/object.h"
#include "operator/kube/object/resource.h"
#include "operator/kube/transport/http.h"

namespace swarm::controller {

/// Thread-safe.
class FakeApiServer final : public kube::HttpTransport {
 public:
  /// A received call, for hooks and for counting.
  struct Call {
    std::string method;
    std::string plural;
    kube::ObjectName name;
    std::string subresource;
    nlohmann::json body;
    bool dry_run = false;
  };
  /// Runs before a call is carried out, without a lock. If it returns an answer, that is used
  /// instead.
  using Hook = std::function<std::optional<kube::HttpResponse>(const Call& call)>;

  Result<kube::HttpResponse> Send(const kube::HttpRequest& request, const kube::SendLimits& limits,
                                  std::stop_token stop) override;
  Status Stream(const kube::HttpRequest& request, const kube::StreamLimits& limits,
                const kube::StreamSink& sink, std::stop_token stop) override;
  std::string host() const override { return "fake:443"; }

  void SetHook(Hook hook);
  /// Holds the events of `plural` back from watchers, so that their caches become old.
  void HoldWatches(const std::string& plural, bool held);

  // The actions of the rest of the cluster. Each requires that the object exists.
  nlohmann::json Put(const kube::Resource& resource, nlohmann::json object);
  std::optional<nlohmann::json> Find(const kube::Resource& resource,
                                     const kube::ObjectName& name) const;
  std::vector<nlohmann::json> All(const kube::Resource& resource) const;
  /// Changes an object, status included, as controllers and kubelets do.
  void Edit(const kube::Resource& resource, const kube::ObjectName& name,
            const std::function<void(nlohmann::json&)>& edit);
  /// Removes it at once, without a grace period.
  void Remove(const kube::Resource& resource, const kube::ObjectName& name);

  /// Waits until `holds` returns true; it is called after every change. Returns false after
  /// `limit`.
  bool Await(const std::function<bool()>& holds, Duration limit = std::chrono::seconds(20));

  /// The number of changes of objects so far, without Events.
  std::uint64_t changes() const;
  /// The calls so far, without watches, oldest first.
  std::vector<Call> calls() const;
  /// The writing calls among them, without Events.
  std::vector<Call> writes() const;

 private:
  struct Event {
    std::uint64_t version;
    std::string type;
    nlohmann::json object;
  };
  struct Collection {
    std::map<kube::ObjectName, nlohmann::json> objects;
    std::vector<Event> events;
    bool held = false;
  };
  struct Route;

  static std::optional<Route> ParseTarget(const std::string& target);
  kube::HttpResponse Handle(const std::string& method, const Route& route,
                            const nlohmann::json& body);
  kube::HttpResponse List(const Route& route);
  kube::HttpResponse Create(const Route& route, nlohmann::json object);
  kube::HttpResponse Change(const std::string& method, const Route& route,
                            const nlohmann::json& body);
  kube::HttpResponse Delete(const Route& route, const nlohmann::json& options);

  void Store(Collection& collection, const std::string& type, nlohmann::json object);
  void Erase(Collection& collection, const kube::ObjectName& name);
  void CollectGarbage(const std::string& owner_uid);
  nlohmann::json Begun(nlohmann::json object, const std::string& ns);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Collection> collections_;  // by plural; all below is guarded
  std::uint64_t version_ = 100;
  std::uint64_t changes_ = 0;
  std::uint64_t uids_ = 0;
  Hook hook_;
  std::vector<Call> calls_;
};

/// The answer of an API server that refuses a call.
kube::HttpResponse Refusal(int code, const std::string& reason, const std::string& message);

}  // namespace swarm::controller

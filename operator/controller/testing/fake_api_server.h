// For tests: an API server in memory, behind the transport of the client. It has what the operator
// can stumble over: resource versions and conflicts, names that are taken, status as a separate
// subresource, UIDs and preconditions, pods that end slowly, watches, and what belongs to an owner
// going with it. It has no schema, no admission, no scheduler and no kubelet: tests play those.
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
  /// What came in, for hooks and for counting.
  struct Call {
    std::string method;
    std::string plural;
    kube::ObjectName name;
    std::string subresource;
    nlohmann::json body;
    bool dry_run = false;
  };
  /// Runs before a call is done, without a lock. What it returns is the answer instead.
  using Hook = std::function<std::optional<kube::HttpResponse>(const Call& call)>;

  Result<kube::HttpResponse> Send(const kube::HttpRequest& request, const kube::SendLimits& limits,
                                  std::stop_token stop) override;
  Status Stream(const kube::HttpRequest& request, const kube::StreamLimits& limits,
                const kube::StreamSink& sink, std::stop_token stop) override;
  std::string host() const override { return "fake:443"; }

  void SetHook(Hook hook);
  /// Events of `plural` are kept from watchers while it is held: their caches are stale.
  void HoldWatches(const std::string& plural, bool held);

  // What the rest of the cluster does. Each needs the object to be there.
  nlohmann::json Put(const kube::Resource& resource, nlohmann::json object);
  std::optional<nlohmann::json> Find(const kube::Resource& resource,
                                     const kube::ObjectName& name) const;
  std::vector<nlohmann::json> All(const kube::Resource& resource) const;
  /// Changes an object, status and all, as its controllers or kubelets would.
  void Edit(const kube::Resource& resource, const kube::ObjectName& name,
            const std::function<void(nlohmann::json&)>& edit);
  /// Removes it, whatever waits for its end.
  void Remove(const kube::Resource& resource, const kube::ObjectName& name);

  /// Waits until `holds` does, which is asked again after every change. False: not within `limit`.
  bool Await(const std::function<bool()>& holds, Duration limit = std::chrono::seconds(20));

  /// Changes of objects so far, Events not counted.
  std::uint64_t changes() const;
  /// Calls so far but for watches, oldest first.
  std::vector<Call> calls() const;
  /// Those of them that would change something, but for Events.
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

/// An answer as the API server gives it when it refuses.
kube::HttpResponse Refusal(int code, const std::string& reason, const std::string& message);

}  // namespace swarm::controller

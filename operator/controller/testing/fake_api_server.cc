#include "operator/controller/testing/fake_api_server.h"

#include <algorithm>
#include <set>
#include <sstream>

namespace swarm::controller {
namespace {

using kube::HttpResponse;
using kube::ObjectName;
using nlohmann::json;

const std::set<std::string> kWithStatus{"swarmjobs", "pods",      "nodes", "poddisruptionbudgets",
                                        "services",  "namespaces"};

HttpResponse Answer(int code, const json& body) {
  return {{code, {{"content-type", "application/json"}}}, body.dump()};
}

std::string Unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      plain += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      plain += text[i] == '+' ? ' ' : text[i];
    }
  }
  return plain;
}

bool Selected(const json& object, const std::string& selector) {
  std::istringstream terms(selector);
  for (std::string term; std::getline(terms, term, ',');) {
    const std::size_t equals = term.find('=');
    if (equals == term.npos) continue;
    if (kube::LabelOf(object, term.substr(0, equals)) != term.substr(term.find_last_of('=') + 1)) {
      return false;
    }
  }
  return true;
}

std::string Version(std::uint64_t version) { return std::to_string(version); }

HttpResponse Missing(const ObjectName& name) {
  return Refusal(404, "NotFound", "\"" + name.name + "\" not found");
}

/// For the kinds that the tests list.
std::string KindOf(const std::string& plural) {
  if (plural == "swarmjobs") return "SwarmJob";
  return plural == "nodes" ? "Node" : "Pod";
}

bool IsRunning(const json& pod) {
  const std::string phase = kube::TextAt(pod, "/status/phase");
  return !kube::TextAt(pod, "/spec/nodeName").empty() && phase != "Succeeded" && phase != "Failed";
}

}  // namespace

HttpResponse Refusal(int code, const std::string& reason, const std::string& message) {
  return Answer(code, {{"kind", "Status"},
                       {"apiVersion", "v1"},
                       {"status", "Failure"},
                       {"reason", reason},
                       {"message", message},
                       {"code", code}});
}

struct FakeApiServer::Route {
  std::string plural;
  ObjectName name;  // name.name empty: the collection
  std::string subresource;
  std::map<std::string, std::string> query;
  std::string api_version;
};

std::optional<FakeApiServer::Route> FakeApiServer::ParseTarget(const std::string& target) {
  Route route;
  const std::size_t mark = target.find('?');
  if (mark != target.npos) {
    std::istringstream pairs(target.substr(mark + 1));
    for (std::string pair; std::getline(pairs, pair, '&');) {
      const std::size_t equals = pair.find('=');
      route.query[pair.substr(0, equals)] =
          equals == pair.npos ? "" : Unescaped(pair.substr(equals + 1));
    }
  }
  std::vector<std::string> parts;
  std::istringstream path(target.substr(1, mark == target.npos ? mark : mark - 1));
  for (std::string part; std::getline(path, part, '/');) parts.push_back(Unescaped(part));
  std::size_t at = 0;
  if (parts.size() >= 3 && parts[0] == "api") {
    route.api_version = parts[1];
    at = 2;
  } else if (parts.size() >= 4 && parts[0] == "apis") {
    route.api_version = parts[1] + "/" + parts[2];
    at = 3;
  } else {
    return std::nullopt;
  }
  if (parts[at] == "namespaces" && parts.size() > at + 2) {
    route.name.ns = parts[at + 1];
    at += 2;
  }
  route.plural = parts[at++];
  if (at < parts.size()) route.name.name = parts[at++];
  if (at < parts.size()) route.subresource = parts[at++];
  return route;
}

Result<HttpResponse> FakeApiServer::Send(const kube::HttpRequest& request, const kube::SendLimits&,
                                         std::stop_token) {
  const auto route = ParseTarget(request.target);
  if (!route) return Refusal(404, "NotFound", "the server could not find the requested resource");
  const json body = request.body.empty() ? json() : json::parse(request.body, nullptr, false);
  Call call{request.method,     route->plural, route->name,
            route->subresource, body,          route->query.contains("dryRun")};
  if (call.name.name.empty() && body.is_object()) call.name.name = kube::NameOf(body).name;
  Hook hook;
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
    hook = hook_;
  }
  if (hook) {
    if (auto answer = hook(call)) return *answer;
  }
  const std::lock_guard lock(mutex_);
  const std::uint64_t before = version_;
  HttpResponse response = Handle(request.method, *route, body);
  if (route->plural != "events") changes_ += version_ - before;
  changed_.notify_all();
  return response;
}

HttpResponse FakeApiServer::Handle(const std::string& method, const Route& route,
                                   const json& body) {
  if (method == "GET" && route.name.name.empty()) return List(route);
  if (method == "GET") {
    const auto& objects = collections_[route.plural].objects;
    const auto found = objects.find(route.name);
    return found == objects.end() ? Missing(route.name) : Answer(200, found->second);
  }
  if (body.is_discarded()) return Refusal(400, "BadRequest", "the body is no JSON");
  if (method == "POST" && route.subresource == "eviction") return Delete(route, json::object());
  if (method == "POST") return Create(route, body);
  if (method == "PUT" || method == "PATCH") return Change(method, route, body);
  if (method == "DELETE") return Delete(route, body);
  return Refusal(405, "MethodNotAllowed", method);
}

HttpResponse FakeApiServer::List(const Route& route) {
  json items = json::array();
  const auto selector = route.query.find("labelSelector");
  for (const auto& [name, object] : collections_[route.plural].objects) {
    if (!route.name.ns.empty() && name.ns != route.name.ns) continue;
    if (selector != route.query.end() && !Selected(object, selector->second)) continue;
    json item = object;  // the server leaves out the kind of items: the list's kind implies it
    item.erase("kind");
    item.erase("apiVersion");
    items.push_back(std::move(item));
  }
  return Answer(200, {{"kind", KindOf(route.plural) + "List"},
                      {"apiVersion", route.api_version},
                      {"metadata", {{"resourceVersion", Version(version_)}}},
                      {"items", std::move(items)}});
}

json FakeApiServer::Begun(json object, const std::string& ns) {
  json& metadata = object["metadata"];
  if (!ns.empty()) metadata["namespace"] = ns;
  if (!metadata.contains("name")) {
    metadata["name"] = metadata.value("generateName", "x") + std::to_string(uids_);
  }
  metadata["uid"] = "uid-" + std::to_string(++uids_);
  metadata["creationTimestamp"] = "2026-01-01T00:00:00Z";
  metadata["generation"] = 1;
  return object;
}

HttpResponse FakeApiServer::Create(const Route& route, json object) {
  Collection& collection = collections_[route.plural];
  const bool dry = route.query.contains("dryRun");
  object = Begun(std::move(object), route.name.ns);
  if (kWithStatus.contains(route.plural)) object.erase("status");
  if (route.plural == "pods") object["status"] = {{"phase", "Pending"}};
  const ObjectName name = kube::NameOf(object);
  if (collection.objects.contains(name)) {
    return Refusal(409, "AlreadyExists", "\"" + name.name + "\" already exists");
  }
  if (!dry) {
    Store(collection, "ADDED", std::move(object));
    object = collection.objects.at(name);
  }
  return Answer(201, object);
}

HttpResponse FakeApiServer::Change(const std::string& method, const Route& route,
                                   const json& body) {
  Collection& collection = collections_[route.plural];
  const auto found = collection.objects.find(route.name);
  const bool apply =
      method == "PATCH" && route.query.contains("fieldManager") && route.query.contains("force");
  if (found == collection.objects.end()) {
    return apply ? Create(route, body) : Missing(route.name);
  }
  const json& old = found->second;
  const std::string expected = kube::ResourceVersionOf(body);
  if (!expected.empty() && expected != kube::ResourceVersionOf(old)) {
    return Refusal(409, "Conflict", "the object has been modified; please apply your changes");
  }
  const std::string uid = kube::UidOf(body);
  if (!uid.empty() && uid != kube::UidOf(old)) {
    return Refusal(409, "Conflict", "Precondition failed: UID in precondition: " + uid);
  }
  json changed = old;
  if (method == "PATCH") {
    changed.merge_patch(body);
  } else {
    changed = body;
    for (const char* kept : {"uid", "creationTimestamp", "deletionTimestamp", "generation"}) {
      if (old["metadata"].contains(kept)) changed["metadata"][kept] = old["metadata"][kept];
    }
  }
  if (route.subresource == "scale") {
    changed = old;
    changed["spec"]["workers"]["replicas"] = body["spec"]["replicas"];
  } else if (route.subresource == "status") {
    json whole = old;
    whole["status"] = changed.value("status", json::object());
    changed = std::move(whole);
  } else if (kWithStatus.contains(route.plural)) {
    changed.erase("status");
    if (old.contains("status")) changed["status"] = old["status"];
  }
  if (changed.contains("stringData")) {
    return Refusal(400, "BadRequest", "this server wants data, not stringData");
  }
  changed["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"];
  if (changed == old) return Answer(200, old);  // like the real server: no write, no event
  if (changed.value("spec", json()) != old.value("spec", json())) {
    changed["metadata"]["generation"] = old["metadata"].value("generation", 1) + 1;
  }
  Store(collection, "MODIFIED", std::move(changed));
  return Answer(200, collection.objects.at(route.name));
}

HttpResponse FakeApiServer::Delete(const Route& route, const json& options) {
  Collection& collection = collections_[route.plural];
  const auto found = collection.objects.find(route.name);
  if (found == collection.objects.end()) return Missing(route.name);
  json object = found->second;
  if (options.is_object() && options.contains("preconditions")) {
    const json& preconditions = options["preconditions"];
    const std::string uid = preconditions.value("uid", kube::UidOf(object));
    if (uid != kube::UidOf(object)) {
      return Refusal(409, "Conflict", "Precondition failed: UID in precondition: " + uid);
    }
  }
  const bool at_once = options.is_object() && options.value("gracePeriodSeconds", -1) == 0;
  const bool slow = route.plural == "pods" && IsRunning(object) && !at_once;
  if (slow || !object["metadata"].value("finalizers", json::array()).empty()) {
    if (!object["metadata"].contains("deletionTimestamp")) {
      object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z";
      Store(collection, "MODIFIED", object);
    }
    return Answer(200, object);
  }
  Erase(collection, route.name);
  return Answer(200, object);
}

void FakeApiServer::Store(Collection& collection, const std::string& type, json object) {
  object["metadata"]["resourceVersion"] = Version(++version_);
  collection.events.push_back({version_, type, object});
  const ObjectName name = kube::NameOf(object);
  collection.objects[name] = std::move(object);
  changed_.notify_all();
}

void FakeApiServer::Erase(Collection& collection, const ObjectName& name) {
  json object = collection.objects.at(name);
  object["metadata"]["resourceVersion"] = Version(++version_);
  const std::string uid = kube::UidOf(object);
  collection.objects.erase(name);
  collection.events.push_back({version_, "DELETED", std::move(object)});
  CollectGarbage(uid);
  changed_.notify_all();
}

void FakeApiServer::CollectGarbage(const std::string& owner_uid) {
  for (auto& [plural, collection] : collections_) {
    std::vector<ObjectName> orphans;
    for (const auto& [name, object] : collection.objects) {
      for (const json& owner : object["metadata"].value("ownerReferences", json::array())) {
        if (owner.value("uid", "") == owner_uid) orphans.push_back(name);
      }
    }
    for (const ObjectName& name : orphans) {
      if (collection.objects.contains(name)) Erase(collection, name);
    }
  }
}

Status FakeApiServer::Stream(const kube::HttpRequest& request, const kube::StreamLimits&,
                             const kube::StreamSink& sink, std::stop_token stop) {
  const auto route = ParseTarget(request.target);
  if (!route) return Unavailable("no such path");
  if (!sink.on_head(
          {200, {{"content-type", "application/json"}, {"transfer-encoding", "chunked"}}}))
    return Status();
  const auto selector = route->query.find("labelSelector");
  const auto from = route->query.find("resourceVersion");
  std::uint64_t seen =
      from == route->query.end() || from->second.empty() ? 0 : std::stoull(from->second);
  const std::stop_callback wake(stop, [this] {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    std::vector<Event> fresh;
    const Collection& collection = collections_[route->plural];
    for (const Event& event : collection.events) {
      if (!collection.held && event.version > seen) fresh.push_back(event);
    }
    if (fresh.empty()) {
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    for (const Event& event : fresh) {
      seen = event.version;
      if (!route->name.ns.empty() && kube::NameOf(event.object).ns != route->name.ns) continue;
      if (selector != route->query.end() && !Selected(event.object, selector->second)) continue;
      const json frame{{"type", event.type}, {"object", event.object}};
      if (!sink.on_bytes(frame.dump() + "\n")) return Status();
    }
    lock.lock();
  }
  return Cancelled("the watch was ended");
}

void FakeApiServer::SetHook(Hook hook) {
  const std::lock_guard lock(mutex_);
  hook_ = std::move(hook);
}

void FakeApiServer::HoldWatches(const std::string& plural, bool held) {
  const std::lock_guard lock(mutex_);
  collections_[plural].held = held;
  changed_.notify_all();
}

json FakeApiServer::Put(const kube::Resource& resource, json object) {
  const std::lock_guard lock(mutex_);
  Collection& collection = collections_[resource.plural];
  object = Begun(std::move(object), kube::NameOf(object).ns);
  const ObjectName name = kube::NameOf(object);
  Store(collection, "ADDED", std::move(object));
  return collection.objects.at(name);
}

std::optional<json> FakeApiServer::Find(const kube::Resource& resource,
                                        const ObjectName& name) const {
  const std::lock_guard lock(mutex_);
  const auto collection = collections_.find(resource.plural);
  if (collection == collections_.end()) return std::nullopt;
  const auto found = collection->second.objects.find(name);
  if (found == collection->second.objects.end()) return std::nullopt;
  return found->second;
}

std::vector<json> FakeApiServer::All(const kube::Resource& resource) const {
  const std::lock_guard lock(mutex_);
  std::vector<json> all;
  const auto collection = collections_.find(resource.plural);
  if (collection == collections_.end()) return all;
  for (const auto& [name, object] : collection->second.objects) all.push_back(object);
  return all;
}

void FakeApiServer::Edit(const kube::Resource& resource, const ObjectName& name,
                         const std::function<void(json&)>& edit) {
  const std::lock_guard lock(mutex_);
  Collection& collection = collections_[resource.plural];
  const auto found = collection.objects.find(name);
  SWARM_CHECK(found != collection.objects.end(), "no " + resource.plural + " " + name.ToString());
  json object = found->second;
  const json spec = object.value("spec", json());
  edit(object);
  if (object.value("spec", json()) != spec) {
    object["metadata"]["generation"] = object["metadata"].value("generation", 1) + 1;
  }
  Store(collection, "MODIFIED", std::move(object));
}

void FakeApiServer::Remove(const kube::Resource& resource, const ObjectName& name) {
  const std::lock_guard lock(mutex_);
  Collection& collection = collections_[resource.plural];
  SWARM_CHECK(collection.objects.contains(name), "no " + resource.plural + " " + name.ToString());
  Erase(collection, name);
}

bool FakeApiServer::Await(const std::function<bool()>& holds, Duration limit) {
  const Timepoint end = Clock::now() + limit;
  while (!holds()) {
    if (Clock::now() >= end) return false;
    std::unique_lock lock(mutex_);
    // `holds` may depend on an answer that changes no object, so check again at intervals.
    changed_.wait_for(lock, std::chrono::milliseconds(20));
  }
  return true;
}

std::uint64_t FakeApiServer::changes() const {
  const std::lock_guard lock(mutex_);
  return changes_;
}

std::vector<FakeApiServer::Call> FakeApiServer::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

std::vector<FakeApiServer::Call> FakeApiServer::writes() const {
  std::vector<Call> writes;
  for (const Call& call : calls()) {
    if (call.method != "GET" && call.plural != "events") writes.push_back(call);
  }
  return writes;
}

}  // namespace swarm::controller

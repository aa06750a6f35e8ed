#include "operator/controller/informers.h"

#include <nlohmann/json.hpp>
#include <set>

#include "operator/names/names.h"
#include "operator/objects/trim.h"

namespace swarm::controller {
namespace {

using kube::Change;
using nlohmann::json;

json MemberOf(const kube::Object& object, const char* pointer) {
  const json::json_pointer place(pointer);
  return object && object->contains(place) ? object->at(place) : json();
}

/// The part of a node's status that affects decisions: not the times of its heartbeats.
json ReadinessOf(const kube::Object& node) {
  json readiness = json::array();
  for (const json& condition : MemberOf(node, "/status/conditions")) {
    readiness.push_back({kube::TextAt(condition, "/type"), kube::TextAt(condition, "/status")});
  }
  return readiness;
}

bool NodeDiffers(const Change& change) {
  if (!change.before || !change.after) return true;
  for (const char* pointer : {"/metadata/uid", "/metadata/deletionTimestamp", "/spec/taints"}) {
    if (MemberOf(change.before, pointer) != MemberOf(change.after, pointer)) return true;
  }
  return ReadinessOf(change.before) != ReadinessOf(change.after);
}

std::string JobOf(const json& pod) {
  const std::string job = kube::LabelOf(pod, names::kJobLabel);
  return job.empty() ? job : kube::ObjectName{kube::NameOf(pod).ns, job}.ToString();
}

std::string NodeOf(const json& pod) { return kube::TextAt(pod, "/spec/nodeName"); }

}  // namespace

std::vector<kube::IndexKey> PodIndexes() { return {JobOf, NodeOf}; }

Informers::Informers(kube::Client& client, const InformerOptions& options, Enqueue enqueue,
                     kube::Timing& timing)
    : enqueue_(std::move(enqueue)) {
  kube::ReflectorOptions jobs{.resource = kube::resources::SwarmJobs(), .ns = options.ns};
  jobs_ = std::make_unique<kube::Reflector>(
      client, jobs, [this](const Change& change) { enqueue_(change.name.ToString()); }, timing);
  kube::ReflectorOptions pods{.resource = kube::resources::Pods(),
                              .ns = options.ns,
                              .label_selector = names::AnyPodSelector(),
                              .indexes = PodIndexes(),
                              .trim = objects::TrimPod};
  pods_ = std::make_unique<kube::Reflector>(
      client, pods, [this](const Change& change) { OnPod(change); }, timing);
  if (!options.nodes) return;
  kube::ReflectorOptions nodes{.resource = kube::resources::Nodes(), .trim = objects::TrimNode};
  nodes_ = std::make_unique<kube::Reflector>(
      client, nodes, [this](const Change& change) { OnNode(change); }, timing);
}

void Informers::Start() {
  jobs_->Start();
  pods_->Start();
  if (nodes_) nodes_->Start();
}

bool Informers::synced() const {
  return jobs_->synced() && pods_->synced() && (!nodes_ || nodes_->synced());
}

bool Informers::WaitForSync(Duration limit, std::stop_token stop) const {
  const Timepoint end = Clock::now() + limit;
  for (const auto* each : {&jobs_, &pods_, &nodes_}) {
    if (*each && !(*each)->WaitForSync(end - Clock::now(), stop)) return false;
  }
  return true;
}

std::vector<Informers::Lists> Informers::lists() const {
  std::vector<Lists> lists{{"swarmjobs", jobs_->lists()}, {"pods", pods_->lists()}};
  if (nodes_) lists.push_back({"nodes", nodes_->lists()});
  return lists;
}

void Informers::OnPod(const Change& change) {
  for (const kube::Object& pod : {change.before, change.after}) {
    if (!pod) continue;
    if (const std::string job = JobOf(*pod); !job.empty()) enqueue_(job);
  }
}

void Informers::OnNode(const Change& change) {
  if (!NodeDiffers(change)) return;
  std::set<std::string> jobs;
  for (const kube::Object& pod : pods_->store().ByIndex(kPodsByNode, change.name.name)) {
    jobs.insert(JobOf(*pod));
  }
  for (const std::string& job : jobs) enqueue_(job);
}

}  // namespace swarm::controller

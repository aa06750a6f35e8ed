#include "operator/controller/informers.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>

#include "operator/names/names.h"
#include "operator/objects/outpost.h"
#include "operator/objects/read.h"
#include "operator/objects/trim.h"

namespace swarm::controller {
namespace {

using kube::Change;
using nlohmann::json;

/// How often it is asked whether what cannot be read is waited for.
constexpr Duration kLook = std::chrono::milliseconds(500);

/// Whether a decision could see the difference, as it cannot see the times of heartbeats.
bool NodeDiffers(const Change& change) {
  return !change.before || !change.after ||
         objects::ReadNode(*change.before) != objects::ReadNode(*change.after);
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
    : enqueue_(std::move(enqueue)),
      namespaces_(options.namespaces.empty() ? std::set<std::string>{""} : options.namespaces),
      patience_(options.patience),
      timing_(timing),
      jobs_(std::make_shared<kube::Store>()),
      pods_(std::make_shared<kube::Store>(PodIndexes())),
      nodes_(options.nodes ? std::make_shared<kube::Store>() : nullptr),
      seen_nodes_(nodes_ ? std::make_unique<const SeenNodes>(*nodes_) : nullptr) {
  const auto follow = [&](kube::ReflectorOptions what, kube::OnChange on_change) {
    reflectors_.push_back(
        std::make_unique<kube::Reflector>(client, std::move(what), std::move(on_change), timing));
  };
  const auto localized = [cluster = options.cluster](kube::TrimObject trim, auto localize) {
    if (cluster.empty()) return trim;
    return kube::TrimObject([=](json& object) {
      trim(object);
      localize(cluster, &object);
    });
  };
  for (const std::string& ns : namespaces_) {
    if (options.cluster.empty()) {
      follow({.resource = kube::resources::SwarmJobs(), .ns = ns, .store = jobs_},
             [this](const Change& change) { enqueue_(change.name.ToString()); });
    }
    follow({.resource = kube::resources::Pods(),
            .ns = ns,
            .label_selector = names::AnyPodSelector(),
            .store = pods_,
            .trim = localized(objects::TrimPod, objects::LocalizePod)},
           [this](const Change& change) { OnPod(change); });
  }
  if (!nodes_) return;
  follow({.resource = kube::resources::Nodes(),
          .store = nodes_,
          .trim = localized(objects::TrimNode, objects::LocalizeNode)},
         [this](const Change& change) { OnNode(change); });
}

void Informers::Start() {
  began_ = timing_.Now();
  for (const auto& each : reflectors_) each->Start();
}

bool Informers::synced() const {
  return std::ranges::all_of(reflectors_, [](const auto& each) { return each->synced(); });
}

bool Informers::synced(const std::string& ns) const {
  return std::ranges::all_of(reflectors_, [&](const auto& each) {
    return each->synced() || !(each->ns().empty() || each->ns() == ns);
  });
}

bool Informers::usable() const {
  if (synced()) return true;
  return timing_.Now() - began_.load() >= patience_ &&
         std::ranges::any_of(namespaces_, [this](const std::string& ns) { return synced(ns); });
}

bool Informers::WaitUntilUsable(std::stop_token stop) const {
  while (!usable()) {
    for (const auto& each : reflectors_) {
      if (!each->synced()) {
        (void)each->WaitForSync(kLook, stop);
        break;
      }
    }
    if (stop.stop_requested()) return false;
  }
  return true;
}

std::vector<Informers::Reading> Informers::Read() const {
  std::map<std::string, Reading> readings;
  for (const auto& each : reflectors_) {
    Reading& reading = readings[each->resource()];
    reading.resource = each->resource();
    const std::uint64_t lists = each->lists();
    reading.relists += lists > 0 ? lists - 1 : 0;
    reading.silence = std::max(reading.silence, each->silence());
  }
  const auto all = std::views::values(readings);
  return {all.begin(), all.end()};
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
  for (const kube::Object& pod : pods_->ByIndex(kPodsByNode, change.name.name)) {
    jobs.insert(JobOf(*pod));
  }
  for (const std::string& job : jobs) enqueue_(job);
}

}  // namespace swarm::controller

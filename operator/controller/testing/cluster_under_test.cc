#include "operator/controller/testing/cluster_under_test.h"

#include "operator/controller/informers.h"
#include "operator/controller/testing/client_under_test.h"
#include "operator/names/names.h"

namespace swarm::controller {

using kube::resources::Nodes;
using kube::resources::Pods;
using kube::resources::SwarmJobs;
using nlohmann::json;

class TrainersUnderTest::Connection final : public TrainerConnection {
 public:
  Connection(TrainersUnderTest* trainers, std::string dial)
      : trainers_(trainers), dial_(std::move(dial)) {}

  std::optional<protocol::JobStatus> Take() override {
    const std::lock_guard lock(trainers_->mutex_);
    const auto found = trainers_->fresh_.find(dial_);
    if (found == trainers_->fresh_.end()) return std::nullopt;
    protocol::JobStatus status = std::move(found->second);
    trainers_->fresh_.erase(found);
    return status;
  }
  Status Send(protocol::Direct direct) override {
    const std::lock_guard lock(trainers_->mutex_);
    trainers_->told_.push_back(std::move(direct));
    return Status();
  }

 private:
  TrainersUnderTest* const trainers_;
  const std::string dial_;
};

void TrainersUnderTest::Say(const std::string& dial, const protocol::JobStatus& status) {
  const std::lock_guard lock(mutex_);
  fresh_[dial] = status;
}

std::vector<protocol::Direct> TrainersUnderTest::told() const {
  const std::lock_guard lock(mutex_);
  return told_;
}

TrainerLinks::Connect TrainersUnderTest::connect() {
  return [this](const TrainerAddress& address) -> Result<std::unique_ptr<TrainerConnection>> {
    return std::unique_ptr<TrainerConnection>(std::make_unique<Connection>(this, address.dial));
  };
}

OperatorUnderTest::OperatorUnderTest(std::shared_ptr<FakeApiServer> server,
                                     TrainersUnderTest* trainers, std::uint64_t term)
    : server_(std::move(server)),
      client_(MakeClientUnderTest(server_)),
      secrets_(*client_),
      links_(
          trainers->connect(), [](const std::string&) {}, std::chrono::milliseconds(1)),
      actor_(*client_, clusters_, links_, secrets_, metrics, {.worker_image = "worker:1"}),
      events_(*client_, {.instance = "test"}, kube::SystemTiming()),
      workloads_(
          *client_, {}, [](const std::string&) {}, kube::SystemTiming()),
      reconciler_({*client_,
                   {jobs_, pods_, &seen_nodes_, clusters_},
                   actor_,
                   links_,
                   secrets_,
                   events_,
                   metrics,
                   workloads_},
                  term, [this] {
                    return Now{
                        std::chrono::system_clock::now() +
                            std::chrono::duration_cast<std::chrono::system_clock::duration>(later),
                        Clock::now() + aged};
                  }) {
  FillCaches();
}

void OperatorUnderTest::FillCaches() {
  const auto fill = [this](const kube::Resource& resource, kube::Store* store) {
    std::vector<kube::PackedObject> objects;
    for (const json& object : server_->All(resource)) objects.emplace_back(object);
    store->Replace(objects, [](const kube::Change&) {});
  };
  fill(SwarmJobs(), &jobs_);
  fill(Pods(), &pods_);
  fill(Nodes(), &nodes_);
}

void OperatorUnderTest::Miss(const std::string& pod) {
  std::vector<kube::PackedObject> others;
  for (const kube::Object& each : pods_.List()) {
    if (kube::NameOf(*each).name != pod) others.emplace_back(*each);
  }
  pods_.Replace(others, [](const kube::Change&) {});
}

void OperatorUnderTest::AddCluster(const std::string& name, std::shared_ptr<FakeApiServer> server,
                                   Cluster::Reachable reachable) {
  clusters_.Add(std::make_unique<Cluster>(
      name, MakeClientUnderTest(std::move(server)), std::move(reachable), InformerOptions(),
      [](const std::string&) {}, kube::SystemTiming()));
}

bool OperatorUnderTest::Reaches(const std::string& cluster) const {
  const Cluster* const other = clusters_.Find(cluster);
  return other != nullptr && other->reachable();
}

Status OperatorUnderTest::Look() {
  const Reconciled reconciled = reconciler_.Reconcile(kTestJob);
  look_again = reconciled.look_again;
  return reconciled.status;
}

void OperatorUnderTest::Settle() {
  for (int looks = 0; looks < 20; ++looks) {
    const std::uint64_t before = server_->changes();
    FillCaches();
    const Status status = Look();
    SWARM_CHECK(status.ok(), status.ToString());
    if (server_->changes() == before) return;
  }
  SWARM_CHECK(false, "the operator does not come to rest");
}

ClusterUnderTest::ClusterUnderTest() = default;

json JobUnderTest(const std::string& spec, const kube::ObjectName& name) {
  json object = json::parse(R"({
    "apiVersion": "swarmjob.dev/v1alpha1",
    "kind": "SwarmJob",
    "spec": {
      "model": {"config": {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
                           "intermediate_size": 128, "vocab_size": 256}},
      "data": {"uri": "s3://bucket/data"},
      "checkpoint": {"uri": "s3://bucket/run"},
      "training": {"maxSteps": 9, "globalBatchSize": 8, "sequenceLength": 32},
      "pipeline": {"stages": 2},
      "workers": {"replicas": 4, "minReplicas": 2}
    }
  })");
  object["metadata"] = {{"name", name.name}, {"namespace", name.ns}};
  object["spec"].merge_patch(json::parse(spec));
  return object;
}

void ClusterUnderTest::Submit(const std::string& spec, const kube::ObjectName& name) {
  server->Put(SwarmJobs(), JobUnderTest(spec, name));
}

json ClusterUnderTest::job() const {
  const auto found = server->Find(SwarmJobs(), kTestJob);
  SWARM_CHECK(found.has_value(), "no job");
  return *found;
}

std::string ClusterUnderTest::condition(const std::string& type) const {
  for (const json& each : status().value("conditions", json::array())) {
    if (each.value("type", "") == type) {
      return each.value("status", "") + ": " + each.value("reason", "") + ": " +
             each.value("message", "");
    }
  }
  return "";
}

std::vector<std::string> ClusterUnderTest::pods() const {
  std::vector<std::string> names;
  for (const json& pod : server->All(Pods())) names.push_back(kube::NameOf(pod).name);
  return names;
}

json ClusterUnderTest::pod(const std::string& name) const {
  const auto found = server->Find(Pods(), {kTestJob.ns, name});
  SWARM_CHECK(found.has_value(), "no pod " + name);
  return *found;
}

void ClusterUnderTest::RunPods() {
  for (const json& pod : server->All(Pods())) {
    if (!kube::TextAt(pod, "/spec/nodeName").empty()) continue;
    const std::string node = "node-" + std::to_string(++nodes_);
    server->Put(Nodes(), {{"metadata", {{"name", node}}},
                          {"status", {{"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}});
    const std::string ip = "10.0.0." + std::to_string(nodes_);
    server->Edit(Pods(), kube::NameOf(pod), [&](json& running) {
      running["spec"]["nodeName"] = node;
      running["status"] = {{"phase", "Running"},
                           {"podIP", ip},
                           {"conditions",
                            {{{"type", "PodScheduled"}, {"status", "True"}},
                             {{"type", "Ready"}, {"status", "True"}}}}};
    });
  }
}

void ClusterUnderTest::EndPod(const std::string& name, int exit_code, const std::string& reason) {
  server->Edit(Pods(), {kTestJob.ns, name}, [&](json& pod) {
    const std::string role = kube::LabelOf(pod, names::kRoleLabel);
    pod["status"]["phase"] = exit_code == 0 ? "Succeeded" : "Failed";
    pod["status"]["containerStatuses"] = {
        {{"name", role},
         {"state", {{"terminated", {{"exitCode", exit_code}, {"reason", reason}}}}}}};
  });
}

void ClusterUnderTest::LoseNodeOf(const std::string& name) {
  server->Remove(Nodes(), {"", kube::TextAt(pod(name), "/spec/nodeName")});
  server->Remove(Pods(), {kTestJob.ns, name});
}

}  // namespace swarm::controller

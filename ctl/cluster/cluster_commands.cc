#include "ctl/cluster/cluster_commands.h"

#include <poll.h>

#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <stop_token>

#include "base/signals.h"
#include "ctl/cluster/cluster_view.h"
#include "ctl/view/terminal.h"
#include "operator/kube/client/rest_client.h"
#include "operator/kube/config/config.h"
#include "operator/kube/transport/http_cpprest.h"
#include "operator/names/names.h"
#include "operator/objects/read.h"

namespace swarm::ctl {
namespace {

constexpr std::size_t kAnyWidth = 1u << 20;

/// A client, and the namespace to work in.
struct Cluster {
  std::unique_ptr<kube::Client> client;
  std::string ns;
};

Result<Cluster> Connect(const ClusterOptions& options, std::stop_token stop = {}) {
  ASSIGN_OR_RETURN(const kube::Config config,
                   kube::FindConfig(options.kubeconfig, {options.context, options.allow_insecure},
                                    kube::ProcessEnvironment, kube::SystemTiming()));
  ASSIGN_OR_RETURN(auto transport,
                   kube::MakeCpprestTransport({config.server, config.tls, config.proxy}));
  kube::RestClientOptions client_options;
  client_options.user_agent = "swarmctl";
  client_options.call_timeout = std::chrono::seconds(30);
  client_options.stop = std::move(stop);
  std::string ns = options.ns.empty() ? config.ns : options.ns;
  return Cluster{kube::MakeRestClient(std::move(transport), config.credentials, client_options,
                                      kube::SystemTiming(), nullptr),
                 ns.empty() ? "default" : ns};
}

Status ReadJobs(const Cluster& cluster, const TopOptions& options, ClusterView* view) {
  if (!options.job.empty()) {
    ASSIGN_OR_RETURN(const kube::Object object,
                     cluster.client->Get(kube::resources::SwarmJobs(), {cluster.ns, options.job}));
    ASSIGN_OR_RETURN(objects::JobView job, objects::ReadJob(*object));
    view->jobs.push_back(std::move(job));
    return Status();
  }
  ASSIGN_OR_RETURN(const kube::ObjectList list,
                   cluster.client->List(kube::resources::SwarmJobs(),
                                        {.ns = options.all_namespaces ? "" : cluster.ns}));
  for (const kube::Object& object : list.Unpack()) {
    ASSIGN_OR_RETURN(objects::JobView job, objects::ReadJob(*object));
    view->jobs.push_back(std::move(job));
  }
  return Status();
}

Result<ClusterView> Look(const Cluster& cluster, const TopOptions& options) {
  ClusterView view;
  view.now = api::WholeSeconds(std::chrono::system_clock::now());
  view.details = !options.job.empty();
  RETURN_IF_ERROR(ReadJobs(cluster, options, &view));
  if (!view.details) return view;
  ASSIGN_OR_RETURN(
      const kube::ObjectList list,
      cluster.client->List(kube::resources::Pods(),
                           {.ns = cluster.ns, .label_selector = names::PodSelector(options.job)}));
  for (const kube::Object& object : list.Unpack()) {
    if (auto pod = objects::ReadPod(*object)) view.pods.push_back(*std::move(pod));
  }
  return view;
}

ExitCode Refuse(const Status& status, std::FILE* err) {
  std::fprintf(err, "%s\n", status.ToString().c_str());
  return ExitCodeOf(status);
}

/// Waits for the next look; true if the user has asked to end.
bool WaitFor(Duration interval, Signals* signals) {
  pollfd signal{signals->fd(), POLLIN, 0};
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(interval).count();
  return poll(&signal, 1, static_cast<int>(milliseconds)) > 0 && signals->count() > 0;
}

/// The worker's object. Errors: kInvalidArgument (the pod is not a worker).
Result<kube::Object> FindWorker(const Cluster& cluster, const std::string& name) {
  ASSIGN_OR_RETURN(kube::Object pod,
                   cluster.client->Get(kube::resources::Pods(), {cluster.ns, name}));
  if (kube::LabelOf(*pod, names::kRoleLabel) != names::kWorkerRole) {
    return InvalidArgument("pod " + cluster.ns + "/" + name +
                           " is not a worker of a SwarmJob; workers have names such as JOB-wN");
  }
  return pod;
}

}  // namespace

ExitCode ShowTop(const TopOptions& options, std::FILE* out, std::FILE* err) {
  Signals signals({SIGINT, SIGTERM, SIGHUP});  // before the client has threads
  const auto cluster = Connect(options.cluster, signals.token());
  if (!cluster.ok()) return Refuse(cluster.status(), err);
  Terminal terminal(out);
  do {
    const auto view = Look(*cluster, options);
    if (!view.ok()) {
      terminal.Finish();
      if (signals.count() > 0) return ExitCode::kOk;  // Ctrl-C has cut the request
      return Refuse(view.status(), err);
    }
    if (options.once || !terminal.interactive()) {
      for (const std::string& line : RenderCluster(*view, kAnyWidth)) {
        std::fprintf(out, "%s\n", line.c_str());
      }
      return ExitCode::kOk;
    }
    std::vector<std::string> lines = RenderCluster(*view, terminal.width());
    if (lines.size() >= terminal.height()) lines.resize(terminal.height() - 1);
    terminal.Show(lines);
  } while (!WaitFor(options.interval, &signals));
  return ExitCode::kOk;
}

ExitCode DrainWorkers(const DrainOptions& options, std::FILE* out, std::FILE* err) {
  const auto cluster = Connect(options.cluster);
  if (!cluster.ok()) return Refuse(cluster.status(), err);
  std::vector<kube::Object> workers;
  for (const std::string& name : options.pods) {
    auto worker = FindWorker(*cluster, name);
    if (!worker.ok()) return Refuse(worker.status(), err);
    workers.push_back(*std::move(worker));
  }
  for (const kube::Object& worker : workers) {
    const kube::ObjectName name = kube::NameOf(*worker);
    const Status status = cluster->client->Delete(
        kube::resources::Pods(), name,
        {.uid = kube::UidOf(*worker), .grace_seconds = options.grace_seconds});
    if (!status.ok()) return Refuse(status, err);
    std::fprintf(out, "%s hands over and leaves; the operator replaces it\n", name.name.c_str());
  }
  return ExitCode::kOk;
}

}  // namespace swarm::ctl

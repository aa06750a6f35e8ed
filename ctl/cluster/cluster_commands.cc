#include "ctl/cluster/cluster_commands.h"

#include <poll.h>

#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <utility>

#include "base/signals.h"
#include "ctl/cluster/cluster.h"
#include "ctl/cluster/cluster_view.h"
#include "ctl/view/terminal.h"
#include "operator/kube/object/resource.h"
#include "operator/names/names.h"
#include "operator/objects/read.h"

namespace swarm::ctl {
namespace {

constexpr std::size_t kAnyWidth = 1u << 20;

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

/// Asks the trainers through the API server, which reaches pods from anywhere. A user may lack the
/// right to that (pods/proxy), and a trainer may be on its way: then its progress is not known.
void AskTrainers(const Cluster& cluster, ClusterView* view) {
  const kube::SendLimits limits{.timeout = std::chrono::seconds(2),
                                .body_bytes_max = std::size_t{16} << 20};
  bool reachable = true;
  for (const objects::JobView& job : view->jobs) {
    const api::SwarmJobStatus& status = job.status;
    const bool trains =
        status.state == api::JobState::kRunning || status.state == api::JobState::kRecovering;
    if (!trains || status.trainer.podName.empty()) continue;
    // For who may not ask a pod, or where none can be reached.
    if (const auto said = ProgressOf(status)) view->progress[job.uid] = *said;
    if (!reachable) continue;
    const auto authorization = cluster.config.credentials->Authorization();
    if (!authorization.ok()) return;
    kube::HttpRequest request;
    request.target = kube::ObjectPath(
        kube::resources::Pods(),
        {job.ns, status.trainer.podName + ":" + std::to_string(names::kMetricsPort)},
        "proxy/metrics");
    if (!authorization->empty()) request.headers["authorization"] = *authorization;
    const auto answer = cluster.transport->Send(request, limits, cluster.stop);
    // Where one trainer cannot be reached others may not be either; do not wait for each of them.
    reachable = answer.status().code() != StatusCode::kDeadlineExceeded;
    if (!answer.ok() || answer->head.status != 200) continue;
    view->progress[job.uid] = ReadProgress(answer->body);
  }
}

Result<ClusterView> Look(Cluster& cluster, const TopOptions& options) {
  RETURN_IF_ERROR(Renew(&cluster));
  ClusterView view;
  view.now = api::WholeSeconds(std::chrono::system_clock::now());
  view.details = !options.job.empty();
  RETURN_IF_ERROR(ReadJobs(cluster, options, &view));
  AskTrainers(cluster, &view);
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
  auto cluster = Connect(options.cluster, err, signals.token());
  if (!cluster.ok()) {
    return signals.count() > 0 ? ExitCode::kOk : Refuse(cluster.status(), err);
  }
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
  Signals signals({SIGINT, SIGTERM, SIGHUP});  // a plugin is not to outlive this process
  const auto cluster = Connect(options.cluster, err, signals.token());
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

#include "operator/controller/controller.h"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <ctime>
#include <exception>
#include <utility>

#include "api/format/wall_time.h"
#include "base/log.h"
#include "operator/objects/outpost.h"

namespace swarm::controller {
namespace {

/// When a job is looked at again of a namespace that cannot be read yet.
constexpr Duration kUnread = std::chrono::seconds(5);
/// A status of a trainer that is older says nothing of now.
constexpr Duration kToldLimit = std::chrono::seconds(30);
constexpr Duration kLastEventsLimit = std::chrono::seconds(2);
/// A job rests for so many times as long as a look at it has computed, so a large one, whose pods
/// change all the time, is looked at for all of some changes at once.
constexpr int kRest = 3;
constexpr Duration kRestMax = std::chrono::milliseconds(300);

/// How long the calling thread has computed.
Duration ThreadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

kube::WorkQueueOptions QueueOptions() {
  kube::WorkQueueOptions options;
  // Short enough to continue soon after the API server is back.
  options.longest_pause = std::chrono::seconds(30);
  return options;
}

}  // namespace

Controller::Controller(kube::Client& client, const ControllerOptions& options,
                       TrainerLinks::Connect connect, kube::Timing& timing)
    : options_(options),
      client_(client),
      timing_(timing),
      metrics_(static_cast<std::uint64_t>(options.reconcilers)),
      queue_(QueueOptions(), timing),
      events_(client, {.instance = options.instance}, timing),
      secrets_(client),
      links_(std::move(connect), [this](const std::string& key) { queue_.Add(key); }),
      actor_(client, clusters_, links_, secrets_, metrics_, options.pods),
      informers_(
          client, options.informers, [this](const std::string& key) { queue_.Add(key); }, timing),
      workloads_(
          client, options.informers.namespaces, [this](const std::string& key) { queue_.Add(key); },
          timing),
      proofs_({client, informers_.pods(), informers_.jobs(), clusters_, secrets_, events_, timing}),
      machines_({client, informers_.jobs(), clusters_, secrets_, events_, timing}) {}

Controller::~Controller() { Stop(); }

void Controller::Start() { informers_.Start(); }

void Controller::AddCluster(const std::string& name, std::unique_ptr<kube::Client> client,
                            Cluster::Reachable reachable) {
  clusters_.Add(std::make_unique<Cluster>(
      name, std::move(client), std::move(reachable), options_.informers,
      [this](const std::string& key) { queue_.Add(key); }, timing_));
}

void Controller::LookAtClusters() {
  const Timepoint now = timing_.Now();
  std::map<std::string, std::vector<std::string>> jobs;  // by cluster
  for (const kube::Object& job : informers_.jobs().List()) {
    for (const std::string& cluster : objects::ClustersOfStatus(*job)) {
      jobs[cluster].push_back(kube::NameOf(*job).ToString());
    }
  }
  for (const auto& [cluster, keys] : jobs) {
    const bool reachable = clusters_.Look(cluster, now).reachable;
    const auto [before, is_new] = reachable_.try_emplace(cluster, reachable);
    const bool changed = std::exchange(before->second, reachable) != reachable;
    if (!changed && !is_new) continue;  // a new one may have changed since its jobs looked
    for (const std::string& key : keys) queue_.Add(key);
  }
}

std::set<std::string> Controller::JobUids() const {
  std::set<std::string> uids;
  for (const kube::Object& job : informers_.jobs().List()) uids.insert(kube::UidOf(*job));
  return uids;
}

void Controller::Lead(std::uint64_t term) {
  SWARM_CHECK(!leader_.joinable(), "an operator leads once");
  leads_ = true;
  leader_ = std::jthread([this, term](std::stop_token stop) { Run(term, stop); });
}

void Controller::Stop() {
  if (!leader_.joinable()) return;
  leader_.request_stop();
  leader_.join();
  events_.Flush(kLastEventsLimit);
}

void Controller::Run(std::uint64_t term, std::stop_token stop) {
  pthread_setname_np(pthread_self(), "leader");
  if (!informers_.WaitUntilUsable(stop)) return;
  if (!informers_.synced()) LOG_WARN("leaving alone the jobs of namespaces that cannot be read");
  Reconciler reconciler({client_,
                         {informers_.jobs(), informers_.pods(), informers_.nodes(), clusters_},
                         actor_,
                         links_,
                         secrets_,
                         events_,
                         metrics_,
                         workloads_},
                        term, [this] { return Now{timing_.WallNow(), timing_.Now()}; });
  LOG_INFO("leading with term {}: {} jobs, {} pods", term, informers_.jobs().size(),
           informers_.pods().size());
  for (const kube::Object& job : informers_.jobs().List()) {
    queue_.Add(kube::NameOf(*job).ToString());
  }
  std::vector<std::jthread> threads;
  for (int i = 0; i < options_.reconcilers; ++i) {
    threads.emplace_back([&, i] {
      pthread_setname_np(pthread_self(), ("reconcile" + std::to_string(i)).c_str());
      Work(reconciler, stop);
    });
  }
}

void Controller::Work(Reconciler& reconciler, std::stop_token stop) {
  while (const std::optional<std::string> key = queue_.Get(stop)) {
    const Duration before = ThreadTime();
    Look(reconciler, *key);
    queue_.Done(*key, std::min(kRestMax, kRest * (ThreadTime() - before)));
  }
}

std::vector<MetricSample> Controller::Samples() const {
  std::vector<MetricSample> samples = metrics_.Read(timing_.Now());
  AppendQueue(queue_.Read(), &samples);
  for (const Informers::Reading& cache : informers_.Read()) {
    samples.push_back(
        {Metric::kOperatorWatchRestarts, {cache.resource}, static_cast<double>(cache.relists)});
    samples.push_back({Metric::kOperatorCacheSilence, {cache.resource}, ToSeconds(cache.silence)});
  }
  AppendClusters(&samples);
  return samples;
}

/// No satellite dials an operator that does not lead. A cluster that is away counts while a job
/// names it.
void Controller::AppendClusters(std::vector<MetricSample>* samples) const {
  if (!leads_) return;
  std::set<std::string> names;
  for (const kube::Object& job : informers_.jobs().List()) {
    names.merge(objects::ClustersOfStatus(*job));
  }
  for (const Cluster* cluster : clusters_.All()) {
    if (cluster->reachable()) names.insert(cluster->name());
  }
  for (const std::string& name : names) {
    const ClusterLook look = clusters_.Look(name, timing_.Now());
    samples->push_back({Metric::kOperatorClusterConnected, {name}, look.reachable ? 1.0 : 0.0});
    samples->push_back({Metric::kOperatorClusterSilence, {name}, ToSeconds(look.silence)});
  }
}

jobs_page::JobsView Controller::Jobs() const {
  jobs_page::JobsView view;
  view.now = api::WholeSeconds(timing_.WallNow());
  for (const kube::Object& job : informers_.jobs().List()) {
    jobs_page::AddJob(*job, &view);
    const std::optional<TrainerView> trainer = links_.View(kube::NameOf(*job).ToString());
    if (trainer && trainer->status && timing_.Now() - trainer->heard < kToldLimit) {
      view.told.emplace(kube::UidOf(*job), *trainer->status);
    }
  }
  return view;
}

void Controller::Look(Reconciler& reconciler, const std::string& key) {
  if (!informers_.synced(kube::ParseObjectName(key).ns)) return queue_.AddAfter(key, kUnread);
  metrics_.ReconcileBegan();
  const Timepoint began = timing_.Now();
  Reconciled reconciled;
  try {
    reconciled = reconciler.Reconcile(kube::ParseObjectName(key));
  } catch (const std::exception& error) {
    // An unexpected object must not end the operator of all other jobs.
    reconciled.status = Internal(std::string("exception: ") + error.what());
    metrics_.ReconcilePanicked();
  }
  const auto ended = [&](ReconcileResult result) {
    metrics_.ReconcileEnded(result, timing_.Now() - began);
  };
  if (reconciled.status.ok()) {
    queue_.Forget(key);
    if (reconciled.look_again) queue_.AddAfter(key, *reconciled.look_again);
    return ended(reconciled.look_again ? ReconcileResult::kRequeueAfter
                                       : ReconcileResult::kSuccess);
  }
  const bool conflict = reconciled.status.code() == StatusCode::kAborted;
  const auto failures = static_cast<unsigned>(queue_.Failures(key)) + 1;
  if (!conflict && std::has_single_bit(failures)) {
    LOG_WARN("{}: {} (failure {} in a row)", key, reconciled.status.ToString(), failures);
  }
  queue_.AddRateLimited(key);
  ended(conflict ? ReconcileResult::kRequeue : ReconcileResult::kError);
}

}  // namespace swarm::controller

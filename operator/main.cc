// swarm-operator: keeps the SwarmJobs of a cluster running. Parses the flags, runs the operator,
// and returns the exit code. The only unit that includes CLI11.
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/completion/describe.h"
#include "base/exit.h"
#include "base/log.h"
#include "base/metrics/exporter.h"
#include "base/signals.h"
#include "base/version.h"
#include "operator/controller/controller.h"
#include "operator/controller/trainer_dialer.h"
#include "operator/jobs_page/jobs_page.h"
#include "operator/kube/client/rest_client.h"
#include "operator/kube/config/config.h"
#include "operator/kube/config/files.h"
#include "operator/kube/leader/election.h"
#include "operator/kube/timing/timing.h"
#include "operator/kube/transport/http_cpprest.h"
#include "operator/names/names.h"
#include "operator/satellite/gateway.h"
#include "operator/satellite/home.h"
#include "operator/satellite/satellite.h"

namespace swarm {
namespace {

/// Reconciles in progress get this much time at the end, before their requests are cancelled.
constexpr Duration kStopPatience = std::chrono::seconds(5);
/// How often satellites hear which jobs exist.
constexpr Duration kTellPeriod = std::chrono::seconds(10);
/// How often memory that is free goes back to the system.
constexpr Duration kTrimPeriod = std::chrono::seconds(10);
/// Of all threads together.
constexpr int kHeaps = 2;
constexpr int kOk = 0, kFailed = 1, kBadUsage = 2;

/// The first lists, and many reconciles at once, take memory that is not needed afterwards. By
/// default glibc keeps it, in a heap for each few threads, and none of them is full.
void TrimMemory(std::stop_token stop) {
  pthread_setname_np(pthread_self(), "memory");
  while (kube::SystemTiming().Sleep(kTrimPeriod, stop)) malloc_trim(0);
}

struct Flags {
  std::string kubeconfig, context, worker_image, worker_platform, log_level = "info";
  std::vector<std::string> namespaces;
  bool allow_insecure = false, leader_elect = false;
  std::string lease_namespace, lease_name = "swarm-operator";
  std::string metrics_listen = "0.0.0.0:8080", health_listen = "0.0.0.0:8081";
  std::string satellites_listen, satellite_token_file;
  std::map<std::string, std::string> gateways;
  std::string gateway_service;
  bool satellite = false;
  int satellite_orphan_hours = 24;
  bool pods_prove = false;
  std::string proof_home;
  std::string page_listen;
  bool page_behind_proxy = false;
  double kube_qps = 500, kube_burst = 1000;
  int workers = 8;
};

void AddFlags(CLI::App& app, Flags* flags) {
  app.add_option("--worker-image", flags->worker_image,
                 "Image of trainers and workers, unless their template names another; required,"
                 " except of a satellite");
  app.add_option("--worker-platform", flags->worker_platform,
                 "What that image is for, as linux/amd64: its pods go to such nodes (default: any)")
      ->check([](const std::string& platform) {
        const std::size_t slash = platform.find('/');
        const bool two = slash != platform.npos && slash > 0 && slash + 1 < platform.size();
        return two ? std::string() : platform + " is not OS/ARCHITECTURE, as linux/amd64";
      });
  app.add_option(
         "--namespace", flags->namespaces,
         "Manage only the SwarmJobs of this namespace, and work without rights in others and"
         " to read nodes; may be repeated (default: all namespaces)")
      ->allow_extra_args(false);
  app.add_option("--kubeconfig", flags->kubeconfig,
                 "Kubeconfig file (default: $KUBECONFIG, or the pod's service account)");
  app.add_option("--context", flags->context,
                 "Context of the kubeconfig (default: its current one)");
  app.add_flag("--allow-insecure", flags->allow_insecure,
               "Obey insecure-skip-tls-verify of a kubeconfig");
  app.add_flag("--leader-elect", flags->leader_elect,
               "Work only while holding the lease, so that several replicas can run");
  app.add_option("--lease-namespace", flags->lease_namespace,
                 "Namespace of the lease (default: the operator's own)");
  app.add_option("--lease-name", flags->lease_name, "Name of the lease");
  app.add_option("--metrics-listen", flags->metrics_listen, "host:port of /metrics");
  app.add_option("--health-listen", flags->health_listen, "host:port of /healthz and /readyz");
  app.add_option(
      "--page-listen", flags->page_listen,
      "host:port of the page of all jobs; whoever reaches it may read it (default: none)");
  app.add_flag("--page-behind-proxy", flags->page_behind_proxy,
               "A proxy on this machine decides who may read the page: answer on loopback to every"
               " host that it passes on");
  app.add_option("--kube-qps", flags->kube_qps,
                 "Requests per second to the API server, in the mean")
      ->check(CLI::PositiveNumber);
  app.add_option("--kube-burst", flags->kube_burst, "Requests to the API server in a burst")
      ->check(CLI::PositiveNumber);
  app.add_option("--satellites-listen", flags->satellites_listen,
                 "host:port at which the operators of other clusters reach this one, so that jobs"
                 " may have pods there (default: none)");
  app.add_option_function<std::vector<std::string>>(
         "--gateway",
         [flags](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             const std::size_t equals = text.find('=');
             const bool whole = equals != text.npos && equals > 0 && equals + 1 < text.size();
             if (!whole || text.rfind(':') < equals || text.rfind(':') == text.npos) {
               throw CLI::ValidationError(
                   "--gateway", text + " is not CLUSTER=HOST:PORT, as west=gw.example:7443");
             }
             flags->gateways[text.substr(0, equals)] = text.substr(equals + 1);
           }
         },
         "CLUSTER=HOST:PORT at which the gateway of a cluster is reached from the other clusters;"
         " that of this one is called home; may be repeated (default: pods of all clusters reach"
         " each other's addresses)")
      ->allow_extra_args(false);
  app.add_option("--gateway-service", flags->gateway_service,
                 "Service of this cluster's gateway, in the operator's own namespace: its load"
                 " balancer says where the other clusters reach it, unless --gateway does");
  auto* satellite = app.add_flag("--satellite", flags->satellite,
                                 "Have no jobs, but make the pods in this cluster of jobs that are "
                                 "in another one, which a"
                                 " token of `swarmctl satellite token` names")
                        ->excludes(app.get_option("--page-listen"));
  app.add_option("--satellite-token-file", flags->satellite_token_file,
                 "File with that token; it is used once")
      ->needs(satellite);
  app.add_option("--satellite-orphan-hours", flags->satellite_orphan_hours,
                 "A satellite that hears nothing from home for so long removes all its pods")
      ->needs(satellite)
      ->check(CLI::Range(1, 24 * 365));
  auto* prove =
      app.add_flag("--pods-prove", flags->pods_prove,
                   "New pods of workers in this cluster make their keys themselves, and prove which"
                   " ones they are to the operator of their jobs, instead of getting keys from it");
  app.add_option("--proof-home", flags->proof_home,
                 "host:port at which these pods reach that operator (default: as the satellite"
                 " does). Where the jobs are here it is this operator, at --satellites-listen, and"
                 " has no default")
      ->needs(prove);
  app.add_option("--workers", flags->workers, "SwarmJobs that are reconciled at the same time")
      ->check(CLI::Range(1, 256));
  app.add_option("--log-level", flags->log_level, "Log level")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}));
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

/// The parts of the program, in the order of their dependencies.
class Operator {
 public:
  static Result<std::unique_ptr<Operator>> Create(const Flags& flags) {
    ASSIGN_OR_RETURN(const kube::Config config,
                     kube::FindConfig(flags.kubeconfig, {flags.context, flags.allow_insecure},
                                      kube::ProcessEnvironment, kube::SystemTiming()));
    ASSIGN_OR_RETURN(auto transport,
                     kube::MakeCpprestTransport(
                         {config.server, config.tls, config.proxy, config.tls_server_name}));
    std::unique_ptr<Operator> made(new Operator(flags, config, std::move(transport)));
    RETURN_IF_ERROR(made->Serve());
    LOG_INFO("API server {}", config.server);
    return made;
  }

  /// Starts to watch, and to reconcile as soon as this process leads.
  void Start() {
    if (controller_) controller_->Start();
    if (!flags_.leader_elect) {
      // Trainers obey no term below one that they have seen, maybe that of an elected leader.
      return Lead(kube::NextTerm(0, kube::SystemTiming().WallNow()));
    }
    elector_.emplace(
        *lease_client_,
        kube::ElectionOptions{.lease = {lease_namespace_, flags_.lease_name},
                              .identity = kube::MakeIdentity()},
        kube::ElectionCallbacks{
            [this](std::int64_t term) {
              leads_ = true;
              Lead(term);
            },
            [] {
              LOG_ERROR("the lease is lost; exiting, so that no work of a former leader continues");
              ExitWith(kFailed);
            }},
        kube::SystemTiming());
    elector_->Start();
  }

  /// Finishes the reconciles in progress, and releases the lease.
  void Stop() {
    const std::jthread hurry([this](std::stop_token done) {
      if (kube::SystemTiming().Sleep(kStopPatience, done)) stop_.request_stop();
    });
    satellites_.request_stop();
    if (satellites_.joinable()) satellites_.join();
    if (controller_) controller_->Stop();
    if (elector_) elector_->Stop();
  }

 private:
  Operator(const Flags& flags, const kube::Config& config,
           std::shared_ptr<kube::HttpTransport> transport)
      : flags_(flags),
        lease_namespace_(flags.lease_namespace.empty() ? config.ns : flags.lease_namespace),
        client_(MakeClient(transport, config.credentials, flags.kube_qps, flags.kube_burst,
                           stop_.get_token())),
        lease_client_(MakeClient(transport, config.credentials, 5, 10, {})),
        own_{*client_, transport, config.credentials},
        gateway_({lease_namespace_, flags.gateway_service}, *client_) {
    if (flags.satellite) return;
    controller_.emplace(*client_, OptionsOf(flags, *client_),
                        controller::MakeTrainerDialer(HostName()), kube::SystemTiming());
  }

  void Lead(std::int64_t term) {
    const auto leader_term = static_cast<std::uint64_t>(term);
    if (flags_.satellite) {
      satellites_ = std::jthread([this](std::stop_token stop) { BeSatellite(stop); });
    } else if (!flags_.satellites_listen.empty()) {
      satellites_ =
          std::jthread([this, leader_term](std::stop_token stop) { BeHome(leader_term, stop); });
    } else {
      controller_->Lead(leader_term);
    }
  }

  std::map<std::string, std::string> OwnGateways() const {
    const std::string address = gateway_.address();
    if (address.empty()) return {};
    return {{names::kHomeCluster, address}};
  }

  /// Leads, opens the door to satellites, and tells them which jobs exist.
  void BeHome(std::uint64_t leader_term, std::stop_token stop) {
    pthread_setname_np(pthread_self(), "home");
    gateway_.Look();  // before any pod is made: it would never learn it
    controller_->UseGateways([this] { return OwnGateways(); });
    controller_->Lead(leader_term);
    std::unique_ptr<satellite::Home> home;
    do {
      if (!home) {
        auto opened = satellite::Home::Open(
            {flags_.satellites_listen,
             {lease_namespace_, satellite::kHomeSecret},
             leader_term,
             [this](const satellite::Caller& caller, const enrol::ProveRequest& request,
                    enrol::Proved done) { controller_->Prove(caller, request, std::move(done)); },
             &controller_->machines(),
             flags_.proof_home},
            *client_, kube::SystemTiming(),
            [this](const std::string& cluster, std::shared_ptr<kube::HttpTransport> transport,
                   std::function<bool()> reachable) {
              controller_->AddCluster(cluster,
                                      MakeClient(std::move(transport), nullptr, flags_.kube_qps,
                                                 flags_.kube_burst, stop_.get_token()),
                                      std::move(reachable));
            });
        if (!opened.ok()) LOG_ERROR("no satellite can come: {}", opened.status().ToString());
        if (opened.ok()) {
          home = *std::move(opened);
          controller_->ProveAt(
              [&home](const std::string& cluster) { return home->ProofPlaceOf(cluster); });
          controller_->UseGateways([this, &home] {
            std::map<std::string, std::string> gateways = OwnGateways();
            gateways.merge(home->Connected());
            return gateways;
          });
        }
      }
      if (!home || !controller_->usable()) continue;
      controller_->LookAtClusters();
      gateway_.Look();
      // What belongs to no job that is known may be one's that cannot be read yet.
      if (!controller_->synced()) continue;
      controller_->machines().Tend();
      const Status tended = home->Tend(controller_->JobUids());
      if (!tended.ok()) LOG_WARN("satellites that were revoked may stay: {}", tended.ToString());
    } while (kube::SystemTiming().Sleep(kTellPeriod, stop));
    controller_->ProveAt(nullptr);  // before home ends
    controller_->UseGateways([this] { return OwnGateways(); });
  }

  void BeSatellite(std::stop_token stop) {
    pthread_setname_np(pthread_self(), "satellite");
    const auto token = flags_.satellite_token_file.empty()
                           ? Result<std::string>("")
                           : kube::ReadTrimmed(flags_.satellite_token_file);
    if (!token.ok()) LOG_WARN("no token: {}", token.status().ToString());
    const Status ended = satellite::RunSatellite(
        {.token = token.ok() ? *token : "",
         .secret = {lease_namespace_, "swarm-satellite"},
         .namespaces = {flags_.namespaces.begin(), flags_.namespaces.end()},
         .sweep = {.orphaned = std::chrono::hours(flags_.satellite_orphan_hours)},
         .pods_prove = flags_.pods_prove,
         .proof_home = flags_.proof_home,
         .gateway = {lease_namespace_, flags_.gateway_service}},
        own_, kube::SystemTiming(), &satellite_metrics_, stop);
    if (ended.ok()) return;
    LOG_ERROR("this cluster cannot be a satellite: {}", ended.ToString());
    ExitWith(kFailed);
  }

  std::unique_ptr<kube::Client> MakeClient(std::shared_ptr<kube::HttpTransport> transport,
                                           std::shared_ptr<kube::Credentials> credentials,
                                           double qps, double burst, std::stop_token stop) {
    kube::RestClientOptions options;
    options.user_agent = "swarm-operator/" + Version();
    options.requests_per_second = qps;
    options.burst = burst;
    options.stop = stop;
    return kube::MakeRestClient(std::move(transport), std::move(credentials), options,
                                kube::SystemTiming(), &client_metrics_);
  }

  /// An operator of some namespaces may read nodes only if it was given that right.
  static bool MayReadNodes(const Flags& flags, kube::Client& client) {
    if (flags.namespaces.empty()) return true;
    const auto nodes = client.List(kube::resources::Nodes(),
                                   {.field_selector = "metadata.name=none", .page_size = 1});
    if (nodes.status().code() != StatusCode::kPermissionDenied) return true;
    LOG_WARN("no right to read nodes: notices on nodes are not seen");
    return false;
  }

  static controller::ControllerOptions OptionsOf(const Flags& flags, kube::Client& client) {
    controller::ControllerOptions options;
    options.informers = {{flags.namespaces.begin(), flags.namespaces.end()},
                         MayReadNodes(flags, client)};
    options.reconcilers = flags.workers;
    options.pods = {flags.worker_image, flags.worker_platform, flags.gateways};
    options.instance = HostName();
    return options;
  }

  Status Serve() {
    ASSIGN_OR_RETURN(metrics_, metrics::Exporter::Start(flags_.metrics_listen,
                                                        {.metrics = [this] { return Samples(); }}));
    ASSIGN_OR_RETURN(health_, metrics::Exporter::Start(
                                  flags_.health_listen, {.readyz = [this] {
                                    return !controller_ || controller_->usable()
                                               ? Status()
                                               : Unavailable(
                                                     "the first lists of jobs, pods and nodes have"
                                                     " not arrived yet");
                                  }}));
    if (flags_.page_listen.empty()) return Status();
    ASSIGN_OR_RETURN(page_, jobs_page::JobsPage::Start(
                                {.listen = flags_.page_listen,
                                 .jobs = [this] { return jobs_page::ToJson(controller_->Jobs()); },
                                 .behind_proxy = flags_.page_behind_proxy}));
    return Status();
  }

  std::vector<MetricSample> Samples() const {
    std::vector<MetricSample> samples =
        controller_ ? controller_->Samples() : satellite_metrics_.Read();
    controller::AppendClient(client_metrics_.Read(), &samples);
    const bool leading = !flags_.leader_elect || leads_;
    samples.push_back({Metric::kLeader, {flags_.lease_name}, leading ? 1.0 : 0.0});
    return samples;
  }

  const Flags flags_;
  const std::string lease_namespace_;
  std::stop_source stop_;
  kube::ClientMetrics client_metrics_;
  satellite::SatelliteMetrics satellite_metrics_;
  std::unique_ptr<kube::Client> client_, lease_client_;
  const satellite::OwnCluster own_;
  satellite::OwnGateway gateway_;
  std::optional<controller::Controller> controller_;  // none: a satellite has no jobs
  std::atomic<bool> leads_ = false;
  std::optional<kube::Elector> elector_;
  std::unique_ptr<metrics::Exporter> metrics_, health_;
  std::unique_ptr<jobs_page::JobsPage> page_;  // null: none is served
  std::jthread satellites_;                    // last: uses the other members
};

/// Does not return after it has started: the process exits without destroying the parts.
int Run(const Flags& flags, const Signals& signals) {
  auto made = Operator::Create(flags);
  if (!made.ok()) {
    LOG_ERROR("{}", made.status().ToString());
    return made.status().code() == StatusCode::kInvalidArgument ? kBadUsage : kFailed;
  }
  (*made)->Start();
  std::jthread memory(TrimMemory);
  LOG_INFO("{}; stopping", strsignal(signals.Wait()));
  (*made)->Stop();
  ExitWith(kOk);
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Trains SwarmJobs on spot pods: watches, replaces, rebalances.", "swarm-operator");
  app.set_version_flag("--version", Version());
  AddFlags(app, &flags);
  AddCompletionFlag(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  if (flags.worker_image.empty() && !flags.satellite) {
    std::fprintf(stderr, "--worker-image is required, except with --satellite\n");
    return kBadUsage;
  }
  if (flags.pods_prove && !flags.satellite &&
      (flags.satellites_listen.empty() || flags.proof_home.empty())) {
    std::fprintf(stderr,
                 "--pods-prove needs --satellites-listen and --proof-home, except with"
                 " --satellite: the pods of workers must reach this operator\n");
    return kBadUsage;
  }
  mallopt(M_ARENA_MAX, kHeaps);
  const Signals signals({SIGTERM, SIGINT});
  StartLogging("operator", flags.log_level);
  return Run(flags, signals);
}

}  // namespace
}  // namespace swarm

int main(int argc, char** argv) { swarm::ExitWith(swarm::Main(argc, argv)); }

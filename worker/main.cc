// swarm-worker: the trainer or a stage worker of one job, as a process or a pod. Options in, one
// object constructed and run, exit code out.
#include <pthread.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <sstream>
#include <stop_token>
#include <thread>

#include "api/parse.h"
#include "base/exit.h"
#include "base/log.h"
#include "base/metrics/exporter.h"
#include "worker/model/numeric_class.h"
#include "worker/net/faulty/faulty_endpoint.h"
#include "worker/net/grpc/grpc_endpoint.h"
#include "worker/protocol/failure.h"
#include "worker/stage/export_metrics.h"
#include "worker/stage/worker.h"
#include "worker/trainer/export_metrics.h"
#include "worker/trainer/trainer.h"

namespace swarm {
namespace {

using Exit = WorkerExit;

struct Flags {
  std::string role, job, out, listen = "127.0.0.1:0", advertise, address_file, layout, id, trainer;
  std::string metrics_listen, metrics_address_file, chaos_file;
  std::string tls_ca, tls_cert, tls_key, job_uid = "local";
  std::string device = "cpu", region = "local", log_level = "info";
  std::uint64_t term = 1;
  protocol::BalancePolicy balance = protocol::BalancePolicy::kEvent;
  int threads = 1, drain_seconds = 25, stop_seconds = 50;
  int trainer_patience = 3600, storage_patience = 600;
  bool resume = false, keep_workers = false, plaintext = false, trace_progress = false;
};

/// Turns the first SIGTERM or SIGINT into a call on a thread of its own. Construct before any other
/// thread: they inherit the blocked signals.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  ~Signals() {
    if (!thread_.joinable()) return;
    pthread_kill(thread_.native_handle(), SIGUSR1);
    thread_.join();
  }
  void Unblock() { pthread_sigmask(SIG_UNBLOCK, &set_, nullptr); }
  void OnStop(std::function<void()> stop) {
    thread_ = std::thread([this, stop = std::move(stop)] {
      int signal = 0;
      while (sigwait(&set_, &signal) == 0 && signal != SIGUSR1) stop();
    });
  }

 private:
  sigset_t set_;
  std::thread thread_;
};

/// A request to stop may come before there is anything to stop. Thread-safe.
class Stopping {
 public:
  /// While it lives, `stop` is called for a request, also for an earlier one.
  class Scope {
   public:
    Scope(Stopping& stopping, std::function<void()> stop) : stopping_(stopping) {
      stopping_.Set(std::move(stop));
    }
    ~Scope() { stopping_.Set(nullptr); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Stopping& stopping_;
  };

  void Request() {
    const std::lock_guard lock(mutex_);
    requested_.request_stop();
    if (stop_) stop_();
  }
  std::stop_token token() const { return requested_.get_token(); }

 private:
  void Set(std::function<void()> stop) {
    const std::lock_guard lock(mutex_);
    stop_ = std::move(stop);
    if (stop_ && requested_.stop_requested()) stop_();
  }

  std::mutex mutex_;
  std::stop_source requested_;
  std::function<void()> stop_;  // guarded
};

net::GrpcOptions EndpointOptions(const Flags& flags, const protocol::WorkerId& self) {
  net::GrpcOptions options{.self = self,
                           .listen = flags.listen,
                           .advertise = flags.advertise,
                           .job = flags.job_uid,
                           .plaintext = flags.plaintext};
  if (!flags.plaintext) options.tls = net::TlsFiles{flags.tls_ca, flags.tls_cert, flags.tls_key};
  return options;
}

/// Makes the endpoint of `self`; with --chaos-file one whose network can be disturbed.
auto MakeEndpoint(const Flags& flags, const protocol::WorkerId& self) {
  const auto make = [options = EndpointOptions(flags, self)](
                        net::EndpointHandler* handler) -> Result<std::unique_ptr<net::Endpoint>> {
    ASSIGN_OR_RETURN(auto endpoint, net::GrpcEndpoint::Create(options, handler));
    return std::unique_ptr<net::Endpoint>(std::move(endpoint));
  };
  const net::FaultyOptions faulty{.self = self, .rules_file = flags.chaos_file};
  return [make, faulty](net::EndpointHandler* handler) {
    return faulty.rules_file.empty() ? make(handler)
                                     : net::FaultyEndpoint::Create(faulty, handler, make);
  };
}

Result<std::vector<std::uint64_t>> ParseLayout(const std::string& text) {
  std::vector<std::uint64_t> layout;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    if (part.empty() || part.size() > 6 || part.find_first_not_of("0123456789") != part.npos ||
        std::stoull(part) == 0) {
      return InvalidArgument("--layout: '" + text + "' is no list of replicas such as 2,1,3");
    }
    layout.push_back(std::stoull(part));
  }
  if (layout.empty())
    return InvalidArgument("--layout: name the replicas of each stage, as in 2,1,3");
  return layout;
}

/// Whole or not at all: whoever waits for the file must not read half an address.
Status WriteAddress(const std::string& path, const std::string& address) {
  const std::string next = path + ".next";
  {
    std::ofstream out(next);
    out << address << "\n";
    out.close();
    if (!out) return Unavailable(next + ": cannot be written");
  }
  std::error_code error;
  std::filesystem::rename(next, path, error);
  return error ? Unavailable(path + ": " + error.message()) : Status();
}

int Refuse(const Status& status, int code) {
  LOG_ERROR("{}", status.message());
  return code;
}

/// A loop that does not answer a probe within it does not get on.
constexpr Duration kProbeLimit = std::chrono::seconds(3);

/// What a trainer serves, also while it is not there yet: it may wait long for a storage.
/// Thread-safe.
class TrainerPages {
 public:
  /// While it lives, `trainer` is there.
  class Scope {
   public:
    Scope(TrainerPages& pages, trainer::Trainer* trainer) : pages_(pages) { pages_.Set(trainer); }
    ~Scope() { pages_.Set(nullptr); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    TrainerPages& pages_;
  };

  metrics::Pages Get() {
    return {.metrics = [this] { return Ask(std::vector<MetricSample>(), trainer::ExportMetrics); },
            .healthz =
                [this] {
                  return Ask(Status(),
                             [](auto& trainer) { return trainer.CheckHealth(kProbeLimit); });
                },
            .readyz =
                [this] {
                  return Ask(Unavailable("not serving yet"),
                             [](auto& trainer) { return trainer.CheckReady(kProbeLimit); });
                }};
  }

 private:
  void Set(trainer::Trainer* trainer) {
    const std::unique_lock lock(mutex_);
    trainer_ = trainer;
  }
  template <typename Answer, typename Question>
  Answer Ask(Answer without, const Question& question) {
    const std::shared_lock lock(mutex_);
    return trainer_ == nullptr ? without : question(*trainer_);
  }

  std::shared_mutex mutex_;
  trainer::Trainer* trainer_ = nullptr;  // guarded
};

/// Serves metrics and probes; null if the flags do not ask for them.
Result<std::unique_ptr<metrics::Exporter>> Serve(const Flags& flags, metrics::Pages pages) {
  if (flags.metrics_listen.empty()) return std::unique_ptr<metrics::Exporter>();
  ASSIGN_OR_RETURN(auto exporter, metrics::Exporter::Start(flags.metrics_listen, std::move(pages)));
  LOG_INFO("metrics at http://{}/metrics", exporter->address());
  if (!flags.metrics_address_file.empty()) {
    RETURN_IF_ERROR(WriteAddress(flags.metrics_address_file, exporter->address()));
  }
  return exporter;
}

/// How a program ends that cannot begin, or cannot go on, for this class of reasons.
int ExitOf(protocol::FailureClass failure_class) {
  using Class = protocol::FailureClass;
  if (failure_class == Class::kBadConfig) return Exit::kBadUsage;
  if (failure_class == Class::kStorageRefused) return Exit::kStorageRefused;
  if (failure_class == Class::kDeviceMemory) return Exit::kOutOfMemory;
  if (failure_class == Class::kSuperseded) return Exit::kSuperseded;
  return Exit::kFailed;
}

int ExitOf(const Status& status) {
  return status.code() == StatusCode::kCancelled ? Exit::kStopped
                                                 : ExitOf(protocol::FailureClassOf(status));
}

Result<trainer::TrainerOptions> ReadTrainerOptions(const Flags& flags) {
  std::ifstream file(flags.job);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return InvalidArgument(flags.job + ": cannot be read");
  auto job = api::FromJsonText(text.str());
  if (!job.ok()) return InvalidArgument(flags.job + ": " + job.status().message());
  ASSIGN_OR_RETURN(const auto layout, ParseLayout(flags.layout));
  trainer::TrainerOptions options{.job = *std::move(job),
                                  .job_uid = flags.job_uid,
                                  .replicas = layout,
                                  .out_dir = flags.out,
                                  .term = protocol::Term(flags.term),
                                  .balance = flags.balance,
                                  .resume = flags.resume,
                                  .keep_workers = flags.keep_workers,
                                  .trace_progress = flags.trace_progress,
                                  .storage_patience = std::chrono::seconds(flags.storage_patience)};
  if (options.job.spec.checkpoint.uri.empty()) {
    options.job.spec.checkpoint.uri = std::filesystem::absolute(flags.out) / "checkpoints";
  }
  return options;
}

int End(const trainer::Outcome& outcome, bool keep_workers) {
  if (outcome.superseded) return Refuse(Internal(outcome.reason), Exit::kSuperseded);
  if (!outcome.succeeded) return Refuse(Internal(outcome.reason), ExitOf(outcome.failure_class));
  if (!outcome.stopped_early) return Exit::kOk;
  const bool resumable = outcome.resumable || keep_workers;
  LOG_INFO("stopped before the last step; {}",
           resumable ? "it can be resumed" : "there is no checkpoint yet");
  return resumable ? Exit::kStopped : Exit::kNothingToResume;
}

int RunTrainer(const Flags& flags, Signals& signals) {
  auto options = ReadTrainerOptions(flags);
  if (!options.ok()) return Refuse(options.status(), Exit::kBadUsage);
  const auto stopping = std::make_shared<Stopping>();
  options->cancelled = stopping->token();
  signals.OnStop([stopping] { stopping->Request(); });
  TrainerPages pages;
  const auto exporter = Serve(flags, pages.Get());
  if (!exporter.ok()) return Refuse(exporter.status(), Exit::kBadUsage);
  auto started =
      trainer::Trainer::Start(*std::move(options), MakeEndpoint(flags, trainer::kTrainerId));
  if (!started.ok()) return Refuse(started.status(), ExitOf(started.status()));
  trainer::Trainer& trainer = **started;
  const Stopping::Scope can_stop(
      *stopping,
      [&trainer, limit = std::chrono::seconds(flags.stop_seconds)] { trainer.RequestStop(limit); });
  const TrainerPages::Scope served(pages, &trainer);
  if (trainer.complete()) {
    LOG_INFO("nothing is left to do: the checkpoint is that of the last step");
    return Exit::kOk;
  }
  const std::string address = trainer.addresses().front().dial;
  LOG_INFO("listening at {}", address);
  if (!flags.address_file.empty()) {
    const Status status = WriteAddress(flags.address_file, address);
    if (!status.ok()) return Refuse(status, Exit::kFailed);
  }
  const trainer::Outcome outcome = trainer.Wait();
  const int code = End(outcome, flags.keep_workers);
  // Who waits for a storage that does not answer has no time left for that.
  if (outcome.overdue) ExitWith(code);
  return code;
}

/// What RunStage returns for a worker that is to begin anew.
constexpr int kBeginAnew = -1;
/// And for one that has left because a signal told it to.
constexpr int kTerminated = -2;

int RunStage(const Flags& flags, Signals& signals) {
  const protocol::WorkerId id(flags.id);
  const auto numeric_class = model::NumericClass(flags.threads, flags.device);
  if (!numeric_class.ok()) return Refuse(numeric_class.status(), ExitOf(numeric_class.status()));
  stage::WorkerOptions options{.id = id,
                               .incarnation = protocol::Incarnation(static_cast<std::uint64_t>(
                                   std::chrono::system_clock::now().time_since_epoch().count())),
                               .region = flags.region,
                               .trainer = trainer::kTrainerId,
                               .trainer_addresses = {{"cluster", flags.trainer, ""}},
                               .threads = flags.threads,
                               .device = flags.device,
                               .numeric_class = *numeric_class,
                               .trainer_patience = std::chrono::seconds(flags.trainer_patience)};
  if (!flags.chaos_file.empty()) {
    const auto point = std::make_shared<chaos::HoldPoint>(flags.chaos_file, id);
    options.at_phase = [point](chaos::WorkPhase phase, protocol::Step step) {
      point->Pass(phase, step);
    };
  }
  auto worker = stage::Worker::Start(std::move(options), MakeEndpoint(flags, id));
  if (!worker.ok()) return Refuse(worker.status(), ExitOf(worker.status()));
  const auto exporter =
      Serve(flags, {.metrics = [&worker] { return stage::ExportMetrics(**worker); },
                    .healthz = [&worker] { return (*worker)->CheckHealth(kProbeLimit); },
                    .readyz = [&worker] { return (*worker)->CheckReady(kProbeLimit); }});
  if (!exporter.ok()) return Refuse(exporter.status(), Exit::kBadUsage);
  // The first request is the notice of an end: what is here is handed over. A second one ends it.
  std::atomic<int> requests{0};
  signals.OnStop([&worker, &requests, grace = std::chrono::seconds(flags.drain_seconds)] {
    if (requests++ == 0) {
      (*worker)->Leave(grace);
    } else {
      (*worker)->Stop(Cancelled("asked to leave at once"));
    }
  });
  const Status status = (*worker)->Wait();
  if (requests > 0) return kTerminated;
  if (status.code() == StatusCode::kAborted) {
    LOG_INFO("{}; beginning anew", status.message());
    return kBeginAnew;
  }
  if (status.ok()) return Exit::kOk;
  const bool no_trainer = status.code() == StatusCode::kDeadlineExceeded;
  return Refuse(status, no_trainer ? Exit::kNoTrainer : ExitOf(status));
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("The trainer, or one stage worker, of a SwarmJob");
  app.add_option("--role", flags.role, "trainer or stage")
      ->required()
      ->check(CLI::IsMember({"trainer", "stage"}));
  app.add_option("--listen", flags.listen, "host:port to listen at; port 0 takes a free one");
  app.add_option("--advertise", flags.advertise, "host:port at which others reach this program");
  app.add_option("--metrics-listen", flags.metrics_listen,
                 "address:port to serve /metrics, /healthz and /readyz at; none without it");
  app.add_option("--metrics-address-file", flags.metrics_address_file,
                 "Written when metrics are served: address:port");
  app.add_option("--chaos-file", flags.chaos_file,
                 "Cuts and delays of connections, moments to wait at: for experiments");
  app.add_option("--job-uid", flags.job_uid, "UID of the job; programs of another are refused");
  app.add_option("--tls-ca", flags.tls_ca, "PEM file: who may sign the peers' certificates");
  app.add_option("--tls-cert", flags.tls_cert, "PEM file: this program's certificate");
  app.add_option("--tls-key", flags.tls_key, "PEM file: its key");
  app.add_flag("--plaintext", flags.plaintext, "No TLS: for experiments on one machine");
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warn or error");
  auto* trainer = app.add_option_group("trainer");
  trainer->add_option("--job", flags.job, "The SwarmJob as JSON, with all defaults");
  trainer->add_option("--out", flags.out, "Folder for steps.jsonl, events.jsonl and checkpoints");
  trainer->add_option("--address-file", flags.address_file, "Written when listening: host:port");
  trainer->add_option("--layout", flags.layout, "Replicas of each stage, as in 2,1,3");
  trainer->add_option("--term", flags.term, "Counts the trainers of this job");
  trainer
      ->add_option("--balance", flags.balance,
                   "Who moves between stages: None, Periodic (one worker every 300 s), Event")
      ->transform(CLI::CheckedTransformer(std::map<std::string, protocol::BalancePolicy>{
          {"None", protocol::BalancePolicy::kNone},
          {"Periodic", protocol::BalancePolicy::kPeriodic},
          {"Event", protocol::BalancePolicy::kEvent}}));
  trainer->add_flag("--resume", flags.resume,
                    "Go on from the newest checkpoint; begin anew where there is none");
  trainer->add_flag("--keep-workers", flags.keep_workers,
                    "When told to stop, leave the workers to the next trainer");
  trainer
      ->add_option("--stop-seconds", flags.stop_seconds,
                   "From SIGTERM to the end: the time to finish the step and write a checkpoint")
      ->check(CLI::Range(0, 86400));
  trainer
      ->add_option("--storage-patience", flags.storage_patience,
                   "Seconds to wait at the start for a bucket that does not answer")
      ->check(CLI::Range(0, 86400));
  trainer->add_flag("--trace-progress", flags.trace_progress,
                    "Write progress.jsonl, a line for each piece of work: for measurements");
  auto* stage = app.add_option_group("stage");
  stage->add_option("--id", flags.id, "Name of this worker, unique in the job");
  stage->add_option("--trainer", flags.trainer, "host:port of the trainer");
  stage->add_option("--threads", flags.threads, "Compute threads")->check(CLI::Range(1, 1024));
  stage
      ->add_option("--trainer-patience", flags.trainer_patience,
                   "Seconds to wait for the next trainer when there is none")
      ->check(CLI::Range(1, 1000000));
  stage->add_option("--device", flags.device, "cpu or cuda:N");
  // Of the environment, for a pod may not know its region: then the variable is empty.
  stage
      ->add_option("--region", flags.region,
                   "Where this worker runs: metrics tell what is sent from region to region")
      ->envname("SWARM_REGION");
  stage
      ->add_option("--drain-seconds", flags.drain_seconds,
                   "From SIGTERM to the end: the time to hand over what this worker has")
      ->check(CLI::Range(0, 86400));
  try {
    app.parse(argc, argv);
    const bool is_trainer = flags.role == "trainer";
    if (is_trainer && (flags.job.empty() || flags.out.empty())) {
      throw CLI::ValidationError("--role=trainer needs --job and --out");
    }
    if (!is_trainer && (flags.id.empty() || flags.trainer.empty())) {
      throw CLI::ValidationError("--role=stage needs --id and --trainer");
    }
    if (!flags.plaintext &&
        (flags.tls_ca.empty() || flags.tls_cert.empty() || flags.tls_key.empty())) {
      throw CLI::ValidationError("give --tls-ca, --tls-cert and --tls-key, or --plaintext");
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? Exit::kOk : Exit::kBadUsage;
  }
  StartLogging(flags.role == "trainer" ? "trainer" : flags.id, flags.log_level);
  Signals signals;
  if (flags.role == "trainer") return RunTrainer(flags, signals);
  const int code = RunStage(flags, signals);
  if (code == kTerminated) {
    // As whoever sent the signal expects it, and can tell from an end for another reason.
    ::signal(SIGTERM, SIG_DFL);
    signals.Unblock();
    ::raise(SIGTERM);
  }
  if (code != kBeginAnew) return code;
  // A new image of the same process: nothing of the old state can be left over, and whoever watches
  // the process sees no end of it.
  ::execv("/proc/self/exe", argv);
  return Refuse(Internal(std::string("cannot begin anew: ") + std::strerror(errno)), Exit::kFailed);
}

}  // namespace
}  // namespace swarm

int main(int argc, char** argv) { swarm::ExitWith(swarm::Main(argc, argv)); }

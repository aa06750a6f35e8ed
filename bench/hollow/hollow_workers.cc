// Many stage workers in one process: real endpoints over mutual TLS, the code of swarm-worker, and
// compute that only takes time. bench/hollow/hollow.py runs some of these processes beside a real
// trainer.
//
// Commands come as lines on standard input; the answer to each is a line of JSON on standard
// output, with times of the monotonic clock in seconds.
//   report    what the workers have seen and done so far
//   kill N    ends N workers at once, as a crash does
#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <deque>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/exit.h"
#include "base/files.h"
#include "base/identity/authority.h"
#include "base/log.h"
#include "base/loop.h"
#include "bench/timed_stage.h"
#include "worker/net/grpc/grpc_endpoint.h"
#include "worker/stage/worker.h"
#include "worker/trainer/trainer.h"

namespace swarm::stage {
namespace {

using nlohmann::json;

struct Flags {
  std::string make_authority, authority, job_uid, trainer, prefix = "w";
  std::uint64_t count = 1, parameters = 4096, boundary_bytes = 256;
  double forward_ms = 0, backward_ms = 0;
};

/// Of all workers of a process together: they share its processors.
constexpr std::size_t kDialSlots = 4;

double Now() { return ToSeconds(Clock::now().time_since_epoch()); }

/// What the workers of this process have seen. Thread-safe.
class Records {
 public:
  void OnEpoch(protocol::Epoch epoch) {
    const double now = Now();
    const std::lock_guard lock(mutex_);
    epochs_[epoch.value].push_back(now);
    if (epochs_.size() > kEpochs) epochs_.erase(epochs_.begin());
  }
  void OnConnection(int change) { connections_ += change; }
  void OnFold() { folds_.at(static_cast<std::size_t>((Now() - begin_) / kBin) % folds_.size())++; }

  json Report() {
    json report = {{"connections", connections_.load()}, {"bin", kBin}, {"begin", begin_}};
    for (std::size_t i = 0, n = static_cast<std::size_t>((Now() - begin_) / kBin); i < n; ++i) {
      report["folds"].push_back(folds_.at(i % folds_.size()).load());
    }
    const std::lock_guard lock(mutex_);
    for (const auto& [epoch, times] : epochs_) report["epochs"][std::to_string(epoch)] = times;
    return report;
  }

 private:
  static constexpr double kBin = 0.1;        // seconds
  static constexpr std::size_t kEpochs = 8;  // the newest
  const double begin_ = Now();
  std::atomic<std::int64_t> connections_ = 0;
  std::array<std::atomic<std::uint32_t>, 1 << 16> folds_{};  // by bin: for almost two hours
  std::mutex mutex_;
  std::map<std::uint64_t, std::vector<double>> epochs_;  // guarded: when each worker heard of it
};

/// Notes what comes to a worker, and passes it on.
class Watching final : public net::EndpointHandler {
 public:
  Watching(net::EndpointHandler* worker, Records* records) : worker_(*worker), records_(*records) {}

  void OnMessage(const net::WorkerId& from, net::Lane lane, net::Envelope envelope) override {
    if (const auto* roster = std::get_if<protocol::Roster>(&envelope.message)) {
      records_.OnEpoch(roster->epoch);
    } else if (const auto* change = std::get_if<protocol::RosterChange>(&envelope.message)) {
      records_.OnEpoch(change->epoch);
    }
    worker_.OnMessage(from, lane, std::move(envelope));
  }
  void OnPeerUp(const net::WorkerId& peer) override {
    records_.OnConnection(1);
    worker_.OnPeerUp(peer);
  }
  void OnPeerDown(const net::WorkerId& peer, const Status& why) override {
    records_.OnConnection(-1);
    worker_.OnPeerDown(peer, why);
  }

 private:
  net::EndpointHandler& worker_;
  Records& records_;
};

struct Hollow {
  std::unique_ptr<Watching> watching;
  std::unique_ptr<Worker> worker;  // first to go: its endpoint calls `watching`
};

Result<std::unique_ptr<Hollow>> Start(const Flags& flags, std::uint64_t number,
                                      const identity::JobAuthority& authority,
                                      const std::shared_ptr<Loop>& loop,
                                      const std::shared_ptr<net::DialSlots>& dial_slots,
                                      Records* records) {
  const std::string name = flags.prefix + std::to_string(number);
  WorkerOptions options{.id = protocol::WorkerId(name),
                        .incarnation = protocol::Incarnation(1),
                        .trainer = trainer::kTrainerId,
                        .trainer_addresses = {{"cluster", flags.trainer, ""}},
                        .numeric_class = "timed",
                        .memory_budget = 64u << 20};
  const Timing timing{FromSeconds(flags.forward_ms * 1e-3), FromSeconds(flags.backward_ms * 1e-3),
                      flags.boundary_bytes, flags.parameters, [records] { records->OnFold(); }};
  options.create_stage =
      [timing](const model::StageOptions& stage) -> Result<std::unique_ptr<model::Stage>> {
    return std::unique_ptr<model::Stage>(std::make_unique<TimedStage>(timing, stage));
  };
  ASSIGN_OR_RETURN(const auto pair,
                   authority.Issue(name, identity::WorkerUri(flags.job_uid, name)));
  const net::GrpcOptions endpoint{
      .self = options.id,
      .listen = "127.0.0.1:0",
      .job = flags.job_uid,
      .tls_pem = net::TlsPem{authority.pair().certificate, pair.certificate, pair.key},
      .loop = loop,
      .dial_slots = dial_slots};
  auto hollow = std::make_unique<Hollow>();
  ASSIGN_OR_RETURN(
      hollow->worker,
      Worker::Start(std::move(options),
                    [&](net::EndpointHandler* handler) -> Result<std::unique_ptr<net::Endpoint>> {
                      hollow->watching = std::make_unique<Watching>(handler, records);
                      ASSIGN_OR_RETURN(auto made,
                                       net::GrpcEndpoint::Create(endpoint, hollow->watching.get()));
                      return std::unique_ptr<net::Endpoint>(std::move(made));
                    }));
  return hollow;
}

/// Writes an authority and the certificate of the job's trainer into a folder.
Status MakeAuthority(const std::string& folder, const std::string& job_uid) {
  ASSIGN_OR_RETURN(const auto authority, identity::JobAuthority::Create(job_uid));
  ASSIGN_OR_RETURN(const auto pair, authority.Issue("trainer", identity::TrainerUri(job_uid)));
  RETURN_IF_ERROR(WriteFile(folder + "/ca.pem", authority.pair().certificate));
  RETURN_IF_ERROR(WriteFile(folder + "/ca.key", authority.pair().key));
  RETURN_IF_ERROR(WriteFile(folder + "/trainer.pem", pair.certificate));
  return WriteFile(folder + "/trainer.key", pair.key);
}

Status Run(const Flags& flags) {
  if (!flags.make_authority.empty()) return MakeAuthority(flags.make_authority, flags.job_uid);
  identity::KeyPair pair;
  ASSIGN_OR_RETURN(pair.certificate, ReadFile(flags.authority + "/ca.pem"));
  ASSIGN_OR_RETURN(pair.key, ReadFile(flags.authority + "/ca.key"));
  ASSIGN_OR_RETURN(const auto authority, identity::JobAuthority::Load(flags.job_uid, pair));
  Records records;
  const auto loop = std::make_shared<Loop>("net");
  const auto dial_slots = std::make_shared<net::DialSlots>(kDialSlots);
  std::deque<std::unique_ptr<Hollow>> workers;
  for (std::uint64_t i = 0; i < flags.count; ++i) {
    ASSIGN_OR_RETURN(auto worker, Start(flags, i, authority, loop, dial_slots, &records));
    workers.push_back(std::move(worker));
  }
  std::string command;
  while (std::cin >> command) {
    if (command == "report") {
      std::cout << records.Report() << std::endl;
    } else if (command == "kill") {
      std::size_t n = 0;
      std::cin >> n;
      const double at = Now();
      for (; n > 0 && !workers.empty(); --n) workers.pop_back();
      std::cout << json{{"at", at}} << std::endl;
    } else {
      return InvalidArgument("no command: " + command);
    }
  }
  return Status();
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Many stage workers in one process, with timed compute");
  app.add_option("--make-authority", flags.make_authority,
                 "Folder: write an authority and the trainer's certificate there, and end");
  app.add_option("--authority", flags.authority, "Folder of the authority");
  app.add_option("--job-uid", flags.job_uid, "UID of the job")->required();
  app.add_option("--trainer", flags.trainer, "host:port of the trainer");
  app.add_option("--prefix", flags.prefix, "of the workers' ids");
  app.add_option("--count", flags.count, "Workers in this process");
  app.add_option("--forward-ms", flags.forward_ms, "of a microbatch");
  app.add_option("--backward-ms", flags.backward_ms, "of a microbatch");
  app.add_option("--boundary-bytes", flags.boundary_bytes, "of a microbatch, each way");
  app.add_option("--parameters", flags.parameters, "floats that a reduce sums");
  CLI11_PARSE(app, argc, argv);
  StartLogging(flags.prefix, "warn");
  const Status status = Run(flags);
  if (status.ok()) return 0;
  LOG_ERROR("{}", status.message());
  return 1;
}

}  // namespace
}  // namespace swarm::stage

int main(int argc, char** argv) { swarm::ExitWith(swarm::stage::Main(argc, argv)); }

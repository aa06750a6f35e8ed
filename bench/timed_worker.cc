// Runs a stage worker with a simulated model: a microbatch's forward and backward take the time
// that the flags name (the thread sleeps), and their outputs have the size of real ones. Everything
// else is swarm-worker's: protocol, transport, retention, reduce, commit. bench/goodput.py runs it,
// because real compute on this machine would be too slow for the rate of the links.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "base/exit.h"
#include "base/log.h"
#include "bench/counting_endpoint.h"
#include "bench/timed_stage.h"
#include "worker/net/grpc/grpc_endpoint.h"
#include "worker/stage/worker.h"
#include "worker/trainer/trainer.h"

namespace swarm::stage {
namespace {

struct Flags {
  std::string id, listen = "127.0.0.1:0", trainer, region = "local", sent_file;
  std::vector<double> forward_ms = {0}, backward_ms = {0};
  std::uint64_t boundary_bytes = 0;
  std::vector<std::uint64_t> parameters = {1};
  bool silent_on_links = false;
};

/// The value of a stage; where there is one value, of all stages.
template <typename T>
T Of(const std::vector<T>& values, std::uint64_t stage) {
  return values[std::min<std::size_t>(stage, values.size() - 1)];
}

/// Lines of a receiver and the bytes of payload that it was sent.
void Write(const net::SentBytes& sent, const std::string& path) {
  std::ofstream file(path + ".new");
  for (const auto& [to, bytes] : sent.Read()) file << to.value << " " << bytes << "\n";
  file.close();
  if (!file || std::rename((path + ".new").c_str(), path.c_str()) != 0) {
    LOG_ERROR("{}: cannot be written", path);
  }
}

int Run(const Flags& flags) {
  WorkerOptions options{.id = protocol::WorkerId(flags.id),
                        .incarnation = protocol::Incarnation(1),
                        .region = flags.region,
                        .trainer = trainer::kTrainerId,
                        .trainer_addresses = {{"cluster", flags.trainer, ""}},
                        .numeric_class = "timed",
                        .reports_links = !flags.silent_on_links};
  options.create_stage =
      [flags](const model::StageOptions& stage) -> Result<std::unique_ptr<model::Stage>> {
    const Timing timing{FromSeconds(Of(flags.forward_ms, stage.stage) * 1e-3),
                        FromSeconds(Of(flags.backward_ms, stage.stage) * 1e-3),
                        flags.boundary_bytes, Of(flags.parameters, stage.stage)};
    return std::unique_ptr<model::Stage>(std::make_unique<TimedStage>(timing, stage));
  };
  const net::GrpcOptions endpoint{
      .self = options.id, .listen = flags.listen, .job = "local", .plaintext = true};
  net::SentBytes sent;
  auto worker =
      Worker::Start(std::move(options),
                    [&](net::EndpointHandler* handler) -> Result<std::unique_ptr<net::Endpoint>> {
                      ASSIGN_OR_RETURN(auto made, net::GrpcEndpoint::Create(endpoint, handler));
                      return std::unique_ptr<net::Endpoint>(
                          std::make_unique<net::CountingEndpoint>(std::move(made), &sent));
                    });
  const Status status = worker.ok() ? (*worker)->Wait() : worker.status();
  if (!flags.sent_file.empty()) Write(sent, flags.sent_file);
  if (!status.ok()) LOG_ERROR("{}", status.message());
  return status.ok() ? 0 : 1;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("A stage worker with timed compute and real bytes");
  app.add_option("--id", flags.id, "Name of this worker")->required();
  app.add_option("--trainer", flags.trainer, "host:port of the trainer")->required();
  app.add_option("--listen", flags.listen, "host:port to listen at");
  app.add_option("--forward-ms", flags.forward_ms, "of a microbatch, by stage")->delimiter(',');
  app.add_option("--backward-ms", flags.backward_ms, "of a microbatch, by stage")->delimiter(',');
  app.add_option("--boundary-bytes", flags.boundary_bytes, "of a microbatch, each way");
  app.add_option("--parameters", flags.parameters, "floats that a reduce sums, by stage")
      ->delimiter(',');
  app.add_option("--region", flags.region, "where it says that it is");
  app.add_option("--sent-file", flags.sent_file,
                 "written at the end: lines of a receiver and the bytes of payload sent to it");
  app.add_flag("--silent-on-links", flags.silent_on_links, "Routes stay plain");
  CLI11_PARSE(app, argc, argv);
  StartLogging(flags.id, "info");
  return Run(flags);
}

}  // namespace
}  // namespace swarm::stage

int main(int argc, char** argv) { swarm::ExitWith(swarm::stage::Main(argc, argv)); }

#include "worker/roles/serving.h"

#include <set>
#include <string>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "worker/net/faulty/faulty_endpoint.h"
#include "worker/net/grpc/grpc_endpoint.h"
#include "worker/net/pod/pod_endpoint.h"
#include "worker/trainer/trainer.h"

namespace swarm::roles {
namespace {

net::GrpcOptions EndpointOptions(const WorkerFlags& flags, const protocol::WorkerId& self,
                                 std::shared_ptr<net::Revocations> revocations) {
  net::GrpcOptions options{.self = self,
                           .listen = flags.listen,
                           .advertise = flags.advertise,
                           .job = flags.job_uid,
                           .plaintext = flags.plaintext,
                           .revocations = std::move(revocations)};
  if (flags.listen == kDialOnly) {
    options.listen.clear();
    options.relay = net::RelayAt{trainer::kTrainerId, WaysToTrainer(flags)};
  }
  options.relays = self == trainer::kTrainerId;
  if (!flags.gateway.empty()) options.gateway = *ParseGateway(flags.gateway);  // it was checked
  if (!flags.plaintext) options.tls = net::TlsFiles{flags.tls_ca, flags.tls_cert, flags.tls_key};
  return options;
}

/// Around `make`: to the other workers of the pod, which its launcher calls POD-0, POD-1, ...
/// (worker/pod), large payloads go through the memory that they share.
net::MakeEndpoint WithPodMemory(net::MakeEndpoint make, const WorkerFlags& flags) {
  return [make = std::move(make),
          flags](net::EndpointHandler* handler) -> Result<std::unique_ptr<net::Endpoint>> {
    ASSIGN_OR_RETURN(auto memory,
                     net::PodMemory::Open(static_cast<int>(flags.pod_memory), flags.pod_worker));
    std::set<net::WorkerId> peers;
    for (std::size_t i = 0; i < memory->workers(); ++i) {
      const std::string name = flags.id.substr(0, flags.id.rfind('-') + 1) + std::to_string(i);
      if (name != flags.id) peers.insert(net::WorkerId(name));
    }
    LOG_INFO("sends {} others of its pod what is large through shared memory", peers.size());
    return net::PodEndpoint::Create(std::move(memory), std::move(peers), handler, make);
  };
}

}  // namespace

std::vector<protocol::Address> WaysToTrainer(const WorkerFlags& flags) {
  std::vector<protocol::Address> ways;
  // The trainer's own address may be that of another pod in this cluster.
  if (!flags.trainer_gateway.empty()) ways.push_back(*ParseGateway(flags.trainer_gateway));
  ways.push_back({"cluster", flags.trainer, ""});
  return ways;
}

std::shared_ptr<net::Revocations> RevocationsOf(const WorkerFlags& flags) {
  return std::make_shared<net::Revocations>(flags.job_uid, flags.revoked_file);
}

net::MakeEndpoint EndpointMaker(const WorkerFlags& flags, const protocol::WorkerId& self,
                                std::shared_ptr<net::Revocations> revocations) {
  net::MakeEndpoint make =
      [options = EndpointOptions(flags, self, std::move(revocations))](
          net::EndpointHandler* handler) -> Result<std::unique_ptr<net::Endpoint>> {
    ASSIGN_OR_RETURN(auto endpoint, net::GrpcEndpoint::Create(options, handler));
    return std::unique_ptr<net::Endpoint>(std::move(endpoint));
  };
  if (flags.pod_memory != 0) make = WithPodMemory(std::move(make), flags);
  if (flags.chaos_file.empty()) return make;
  const net::FaultyOptions faulty{.self = self, .rules_file = flags.chaos_file};
  return [make = std::move(make), faulty](net::EndpointHandler* handler) {
    return net::FaultyEndpoint::Create(faulty, handler, make);
  };
}

Result<std::unique_ptr<metrics::Exporter>> ServePages(const WorkerFlags& flags,
                                                      metrics::Pages pages) {
  if (flags.metrics_listen.empty()) return std::unique_ptr<metrics::Exporter>();
  ASSIGN_OR_RETURN(auto exporter, metrics::Exporter::Start(flags.metrics_listen, std::move(pages)));
  LOG_INFO("metrics at http://{}/metrics", exporter->address());
  if (!flags.metrics_address_file.empty()) {
    RETURN_IF_ERROR(WriteFile(flags.metrics_address_file, exporter->address() + "\n"));
  }
  return exporter;
}

}  // namespace swarm::roles

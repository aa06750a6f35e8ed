#include "worker/roles/serving.h"

#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "worker/net/faulty/faulty_endpoint.h"
#include "worker/net/grpc/grpc_endpoint.h"

namespace swarm::roles {
namespace {

net::GrpcOptions EndpointOptions(const WorkerFlags& flags, const protocol::WorkerId& self) {
  net::GrpcOptions options{.self = self,
                           .listen = flags.listen,
                           .advertise = flags.advertise,
                           .job = flags.job_uid,
                           .plaintext = flags.plaintext};
  if (!flags.plaintext) options.tls = net::TlsFiles{flags.tls_ca, flags.tls_cert, flags.tls_key};
  return options;
}

}  // namespace

net::MakeEndpoint EndpointMaker(const WorkerFlags& flags, const protocol::WorkerId& self) {
  net::MakeEndpoint make =
      [options = EndpointOptions(flags, self)](
          net::EndpointHandler* handler) -> Result<std::unique_ptr<net::Endpoint>> {
    ASSIGN_OR_RETURN(auto endpoint, net::GrpcEndpoint::Create(options, handler));
    return std::unique_ptr<net::Endpoint>(std::move(endpoint));
  };
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

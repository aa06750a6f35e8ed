#include "worker/trainer/observer/dialled_observer.h"

#include "worker/net/grpc/grpc_endpoint.h"

namespace swarm::trainer {

Result<std::unique_ptr<Observer>> DialObserver(const DialledObserverOptions& options) {
  net::GrpcOptions endpoint_options{.self = options.self,
                                    .listen = "",
                                    .job = options.job_uid,
                                    .plaintext = options.ca.empty(),
                                    .payload_bytes_max = 0,
                                    .header_bytes_max = kObservedBytesMax,
                                    .receive_buffers = options.receive_buffers,
                                    .loop = options.loop,
                                    .redial_max = options.redial_max};
  if (!endpoint_options.plaintext) {
    endpoint_options.tls_pem = net::TlsPem{options.ca, options.certificate, options.key};
  }
  return Observer::Start(
      {{"cluster", options.dial, ""}}, options.interval,
      [&](net::EndpointHandler* handler) -> Result<std::unique_ptr<net::Endpoint>> {
        ASSIGN_OR_RETURN(auto endpoint, net::GrpcEndpoint::Create(endpoint_options, handler));
        return std::unique_ptr<net::Endpoint>(std::move(endpoint));
      },
      options.loop, options.memory);
}

}  // namespace swarm::trainer

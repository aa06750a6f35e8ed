// A look at this program's own certificate before it is used: gRPC would only log what is wrong with
// it, once a connection fails.
#pragma once

#include <string>

#include "base/status.h"
#include "worker/net/grpc/grpc_endpoint.h"

namespace swarm::net {

/// Whether the files are there and hold PEM, the key is the certificate's, and its only URI SAN is
/// `uri`. Errors: kNotFound, kInvalidArgument; each names the file.
Status CheckCertificateFiles(const TlsFiles& files, const std::string& uri);

}  // namespace swarm::net

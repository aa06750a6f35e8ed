// Storage in a bucket of S3 or of a server that speaks its protocol.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "api/swarmjob.h"
#include "base/status.h"
#include "base/time.h"
#include "worker/storage/s3/credentials.h"
#include "worker/storage/storage.h"

namespace swarm::storage::s3 {

struct S3Options {
  std::string bucket;
  std::string prefix;    ///< of all keys: empty, or ends with '/'
  std::string endpoint;  ///< "https://host:port" of another server; empty: AWS
  std::string region = "us-east-1";
  Environment environment = ProcessEnvironment;

  /// Retries while the failure may pass. Before each try it waits a random time below backoff *
  /// 2^(tries so far), at most backoff_max. It ends after:
  int attempts = 8;
  Duration backoff = std::chrono::milliseconds(100);
  Duration backoff_max = std::chrono::seconds(10);
  Duration request_deadline = std::chrono::minutes(2);
  Duration transfer_deadline = std::chrono::hours(1);  ///< where contents are sent or received
  /// Contents above this size are uploaded in parts of it (S3 wants at least 5 MiB, and takes
  /// 10,000 parts: larger contents get larger parts).
  std::uint64_t part_bytes = std::uint64_t{64} << 20;
};

/// Options for "s3://bucket/prefix": fields that `storage` leaves out come from AWS_ENDPOINT_URL_S3
/// or AWS_ENDPOINT_URL, and AWS_REGION or AWS_DEFAULT_REGION. Errors: kInvalidArgument.
Result<S3Options> MakeS3Options(const std::string& uri, const api::Storage& storage,
                                const Environment& environment = ProcessEnvironment);

/// Does not contact the server yet.
///
/// Addresses buckets by path where an endpoint is given, by host name otherwise. Uploads are signed
/// over their SHA-256, so that the server refuses damaged content. WriteIfAbsent needs a server
/// that heeds "If-None-Match: *" on PUT (S3 since 2024, MinIO, Ceph).
std::unique_ptr<Storage> OpenS3Storage(S3Options options);

}  // namespace swarm::storage::s3

// Signed requests to one bucket, with retries while a failure may pass.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "worker/storage/s3/credentials.h"
#include "worker/storage/s3/http_client.h"
#include "worker/storage/s3/s3_storage.h"

namespace swarm::storage::s3 {

/// One operation on a bucket.
struct Operation {
  std::string method = "GET";
  std::string key;  ///< with the prefix; empty: the bucket
  std::vector<std::pair<std::string, std::string>> query;
  std::vector<Header> headers;  ///< names in lower case
  std::vector<Bytes> body;
  bool transfer = false;  ///< moves contents: the long deadline, and no limit on the answer's size
  /// The longest silence of the server before a try is given up.
  Duration patience = std::chrono::seconds(30);
};

struct Answer {
  HttpResponse response;  ///< status 200 to 299
  int attempts = 1;       ///< tries it took, this one included
};

/// Safe to use from any thread.
class Requester {
 public:
  explicit Requester(S3Options options);

  /// Errors: kNotFound, kPermissionDenied, kUnauthenticated, kAlreadyExists (a precondition
  /// failed), kOutOfRange, kInvalidArgument, kResourceExhausted (a quota): these are answers of the
  /// server, returned at once; kUnavailable when tries or deadline are used up. Messages have the
  /// method, the uri and the server's answer, and never a secret. `attempts`, if given, is set also
  /// on error.
  Result<Answer> Perform(const Operation& operation, int* attempts = nullptr);

  std::string Describe(const std::string& key) const {
    return "s3://" + options_.bucket + "/" + key;
  }
  const S3Options& options() const { return options_; }

 private:
  struct Verdict {
    Status status;
    bool passing = false;  ///< may succeed when tried again
  };
  Result<HttpResponse> Send(const Operation& operation, const std::string& payload_sha256,
                            Duration timeout);
  Verdict Judge(const Operation& operation, const HttpResponse& response);

  const S3Options options_;
  const std::shared_ptr<HttpClient> http_;
  CredentialsProvider credentials_;
  std::string origin_;       // "https://host:port"
  std::string host_;         // of it, with the port
  std::string path_prefix_;  // "/bucket" where buckets are addressed by path
};

}  // namespace swarm::storage::s3

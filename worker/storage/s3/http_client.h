// HTTP requests, one at a time or many from several threads. The only user of libcurl.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "base/time.h"

namespace swarm::storage::s3 {

using Header = std::pair<std::string, std::string>;

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<Header> headers;
  std::vector<Bytes> body;                            ///< sent one after the other
  Duration timeout = std::chrono::seconds(60);        ///< for all of it
  Duration stall_timeout = std::chrono::seconds(30);  ///< with less than 1 kB/s
  std::size_t response_bytes_max = std::size_t{16} << 20;
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  ///< names in lower case
  Bytes body;

  /// Empty when there is none.
  std::string GetHeader(const std::string& name) const {
    const auto at = headers.find(name);
    return at == headers.end() ? "" : at->second;
  }
};

/// Keeps connections open between requests. Safe to use from any thread.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Follows no redirects; every status is a response. AWS_CA_BUNDLE names the trusted
  /// certificates, else the system's count. Errors: kUnavailable (no connection, cut off, too
  /// slow), kDataLoss (more than response_bytes_max).
  Result<HttpResponse> Send(const HttpRequest& request);

 private:
  class Handle;
  std::unique_ptr<Handle> Take();
  void GiveBack(std::unique_ptr<Handle> handle);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Handle>> idle_;  // guarded by mutex_
};

/// Whether the url's host is this machine or a link-local address, with no proxy in between.
bool IsLocalHost(const std::string& url);

}  // namespace swarm::storage::s3

// The client's metrics of itself, with the names that dashboards for Kubernetes use:
// rest_client_requests_total, rest_client_request_duration_seconds and
// rest_client_rate_limiter_duration_seconds. The operator's exporter reads it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "base/histogram.h"

namespace swarm::kube {

/// Thread-safe.
class ClientMetrics {
 public:
  struct Requests {
    std::string code;  ///< "200", or "<error>" if there was no answer
    std::string method;
    std::string host;
    std::uint64_t count = 0;
  };
  struct Seconds {
    std::string verb;  ///< get, list, create, update, patch, apply, delete, watch
    std::string host;
    HistogramReading reading;
  };
  struct Reading {
    std::vector<Requests> requests;
    std::vector<Seconds> request_seconds;
    std::vector<Seconds> rate_limiter_seconds;
  };

  /// `status` 0: there was no answer.
  void CountRequest(int status, const std::string& method, const std::string& host);
  void ObserveRequest(const std::string& verb, const std::string& host, double seconds);
  void ObserveRateLimiter(const std::string& verb, const std::string& host, double seconds);

  Reading Read() const;

 private:
  using VerbAndHost = std::pair<std::string, std::string>;
  using Histograms = std::map<VerbAndHost, std::unique_ptr<SecondsHistogram>>;
  static void Observe(Histograms& histograms, const std::string& verb, const std::string& host,
                      double seconds);
  static std::vector<Seconds> ReadAll(const Histograms& histograms);

  mutable std::mutex mutex_;
  std::map<std::tuple<std::string, std::string, std::string>, std::uint64_t> requests_;
  Histograms request_seconds_;
  Histograms rate_limiter_seconds_;
};

}  // namespace swarm::kube

#include "operator/kube/client/metrics.h"

namespace swarm::kube {

void ClientMetrics::CountRequest(int status, const std::string& method, const std::string& host) {
  const std::lock_guard lock(mutex_);
  ++requests_[{status == 0 ? "<error>" : std::to_string(status), method, host}];
}

void ClientMetrics::ObserveRequest(const std::string& verb, const std::string& host,
                                   double seconds) {
  const std::lock_guard lock(mutex_);
  Observe(request_seconds_, verb, host, seconds);
}

void ClientMetrics::ObserveRateLimiter(const std::string& verb, const std::string& host,
                                       double seconds) {
  const std::lock_guard lock(mutex_);
  Observe(rate_limiter_seconds_, verb, host, seconds);
}

void ClientMetrics::Observe(Histograms& histograms, const std::string& verb,
                            const std::string& host, double seconds) {
  auto& histogram = histograms[{verb, host}];
  if (!histogram) histogram = std::make_unique<SecondsHistogram>();
  histogram->Observe(seconds);
}

std::vector<ClientMetrics::Seconds> ClientMetrics::ReadAll(const Histograms& histograms) {
  std::vector<Seconds> all;
  for (const auto& [key, histogram] : histograms) {
    all.push_back({key.first, key.second, histogram->Read()});
  }
  return all;
}

ClientMetrics::Reading ClientMetrics::Read() const {
  const std::lock_guard lock(mutex_);
  Reading reading;
  for (const auto& [key, count] : requests_) {
    const auto& [code, method, host] = key;
    reading.requests.push_back({code, method, host, count});
  }
  reading.request_seconds = ReadAll(request_seconds_);
  reading.rate_limiter_seconds = ReadAll(rate_limiter_seconds_);
  return reading;
}

}  // namespace swarm::kube

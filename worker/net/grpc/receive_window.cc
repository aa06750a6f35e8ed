#include "worker/net/grpc/receive_window.h"

#include <algorithm>
#include <utility>

namespace swarm::net {
namespace {

/// Of what counts as a round trip: shorter ones cannot be seen by looking every kLookPeriod, longer
/// ones are none (the kernel has not measured any).
constexpr Duration kSpanMin = ReceiveWindow::kLookPeriod;
constexpr Duration kSpanMax = std::chrono::seconds(2);
/// More than so many times what was seen before: a sender that is finding out what it can send.
constexpr double kGrowth = 1.25;

}  // namespace

std::uint64_t ReceiveWindow::OnArrivals(const Arrivals& now) {
  const Duration span = std::clamp(now.round_trip, kSpanMin, kSpanMax);
  const bool silent = looks_.empty() || looks_.back().bytes == now.bytes;
  if (!silent) half_ += std::min(now.at - looks_.back().at, span);
  looks_.push_back(now);
  while (looks_.size() > 1 && looks_[1].at <= now.at - span) looks_.pop_front();
  if (!silent) Remember(ArrivedWithin(span), span);
  const double bound = kRoom * std::max(best_, best_before_);
  if (now.at < grows_until_ || bound < kBytesMin) return 0;
  return static_cast<std::uint64_t>(bound);
}

double ReceiveWindow::ArrivedWithin(Duration span) const {
  const Duration elapsed = looks_.back().at - looks_.front().at;
  const auto bytes = static_cast<double>(looks_.back().bytes - looks_.front().bytes);
  return elapsed <= span ? bytes : bytes * ToSeconds(span) / ToSeconds(elapsed);
}

void ReceiveWindow::Remember(double bytes, Duration span) {
  // Until this growth has come back as arrivals of the next round trip.
  if (bytes > kGrowth * std::max(best_, best_before_)) grows_until_ = looks_.back().at + 2 * span;
  if (half_ > kMemory / 2) {
    best_before_ = std::exchange(best_, 0);
    half_ = {};
  }
  best_ = std::max(best_, bytes);
}

}  // namespace swarm::net

#include "worker/net/grpc/receive_window.h"

#include <algorithm>
#include <utility>

namespace swarm::net {
namespace {

/// The shortest and the longest span that counts as a round trip. A look every kLookPeriod cannot
/// see a shorter one. The kernel reports a longer one if it has not measured any.
constexpr Duration kSpanMin = ReceiveWindow::kLookPeriod;
constexpr Duration kSpanMax = std::chrono::seconds(2);
/// Growth by more than this factor comes from a sender that is still probing the path.
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
  // Until the next round trip shows the effect of this growth.
  if (bytes > kGrowth * std::max(best_, best_before_)) grows_until_ = looks_.back().at + 2 * span;
  if (half_ > kMemory / 2) {
    best_before_ = std::exchange(best_, 0);
    half_ = {};
  }
  best_ = std::max(best_, bytes);
}

}  // namespace swarm::net

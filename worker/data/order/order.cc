#include "worker/data/order/order.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "base/rng.h"
#include "worker/data/order/permutation.h"

namespace swarm::data {
namespace {

Status CheckSource(std::size_t index, const OrderedSource& source) {
  const std::string name = "source " + std::to_string(index);
  if (source.sequences == 0) return InvalidArgument(name + " has no sequences");
  if (std::isfinite(source.weight) && source.weight > 0) return Status();
  return InvalidArgument(name + " has the weight " + std::to_string(source.weight) +
                         "; give a number above 0");
}

// Whole numbers with the sum Order::kPeriod, in the proportions of the weights: each is rounded
// down, and those that lost most get what is left.
std::vector<std::uint64_t> PartsOf(const std::vector<OrderedSource>& sources) {
  double sum = 0;
  for (const OrderedSource& source : sources) sum += source.weight;
  std::vector<std::uint64_t> parts;
  std::vector<double> lost;
  for (const OrderedSource& source : sources) {
    const double exact = source.weight / sum * static_cast<double>(Order::kPeriod);
    parts.push_back(static_cast<std::uint64_t>(exact));
    lost.push_back(exact - std::floor(exact));
  }
  std::uint64_t left = Order::kPeriod - std::accumulate(parts.begin(), parts.end(), 0UL);
  for (; left > 0; --left) {
    const auto most = std::max_element(lost.begin(), lost.end()) - lost.begin();
    ++parts[static_cast<std::size_t>(most)];
    lost[static_cast<std::size_t>(most)] = -1;
  }
  return parts;
}

}  // namespace

Result<Order> Order::Make(std::uint64_t seed, std::vector<OrderedSource> sources) {
  SWARM_CHECK(!sources.empty(), "an order of no sources");
  for (std::size_t s = 0; s < sources.size(); ++s) RETURN_IF_ERROR(CheckSource(s, sources[s]));
  Order order(seed, std::move(sources));
  if (order.sources_.size() == 1) {
    order.parts_ = {1};
    order.period_ = {{}};
    return order;
  }
  order.parts_ = PartsOf(order.sources_);
  for (std::size_t s = 0; s < order.parts_.size(); ++s) {
    if (order.parts_[s] > 0) continue;
    return InvalidArgument("source " + std::to_string(s) + " has a weight of less than one in " +
                           std::to_string(kPeriod) + " of all; leave it out, or raise it");
  }
  // The n-th draw of a source with p draws in a period stands at the time (n + 1/2) / p of it.
  std::vector<std::uint64_t> drawn(order.parts_.size(), 0);
  for (std::uint64_t i = 0; i < kPeriod; ++i) {
    std::size_t next = 0;
    for (std::size_t s = 1; s < drawn.size(); ++s) {
      if ((2 * drawn[s] + 1) * order.parts_[next] < (2 * drawn[next] + 1) * order.parts_[s]) {
        next = s;
      }
    }
    order.period_.push_back(
        {static_cast<std::uint32_t>(next), static_cast<std::uint32_t>(drawn[next]++)});
  }
  return order;
}

Place Order::At(std::uint64_t draw) const {
  const Slot slot = period_[draw % period_.size()];
  const std::uint64_t count = sources_[slot.source].sequences;
  const std::uint64_t nth = draw / period_.size() * parts_[slot.source] + slot.nth;
  const std::uint64_t key = MixAll(MixName(seed_, "data"), slot.source, nth / count);
  return {slot.source, Permutation(key, count)(nth % count)};
}

std::uint64_t Order::DrawsOf(std::uint32_t source, std::uint64_t draws) const {
  const auto begun = period_.begin() + static_cast<std::ptrdiff_t>(draws % period_.size());
  return draws / period_.size() * parts_[source] +
         static_cast<std::uint64_t>(std::count_if(
             period_.begin(), begun, [&](const Slot& slot) { return slot.source == source; }));
}

}  // namespace swarm::data

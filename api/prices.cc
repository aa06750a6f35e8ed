#include "api/prices.h"

#include <algorithm>

#include "base/dollars.h"

namespace swarm::api {
namespace {

double PriceOf(const Pool& pool) { return pool.machine ? pool.machine->dollarsPerHour : 0; }

}  // namespace

double WorkerPrice(const Spec& spec, const std::string& pool) {
  const auto found = std::ranges::find(spec.workers.pools, pool, &Pool::name);
  if (found != spec.workers.pools.end()) return PriceOf(*found);
  const auto& others = spec.workers.machinePools;
  const auto joined = std::ranges::find(others, pool, &MachinePool::name);
  return joined != others.end() ? joined->dollarsPerHour : 0;
}

bool NamesPair(std::string_view first, std::string_view second, std::string_view a,
               std::string_view b) {
  const auto fits = [](std::string_view pattern, std::string_view name) {
    return pattern == "*" || pattern == name;
  };
  return (fits(first, a) && fits(second, b)) || (fits(second, a) && fits(first, b));
}

double TrafficDollarsPerByte(const Spec& spec, std::string_view a, std::string_view b) {
  double price = 0;
  for (const TrafficPrice& each : spec.workers.traffic) {
    if (NamesPair(each.between[0], each.between[1], a, b)) price = DollarsPerByte(each);
  }
  return price;
}

std::optional<DollarRange> WorkerPrices(const Spec& spec) {
  const auto [least, most] = std::ranges::minmax_element(spec.workers.pools, {}, PriceOf);
  if (least == spec.workers.pools.end() || !(PriceOf(*least) > 0)) return std::nullopt;
  DollarRange range{PriceOf(*least), PriceOf(*most)};
  for (const MachinePool& pool : spec.workers.machinePools) {
    range.least = std::min(range.least, pool.dollarsPerHour);
    range.most = std::max(range.most, pool.dollarsPerHour);
  }
  return range;
}

std::optional<DollarRange> Times(const std::optional<DollarRange>& price, double amount) {
  if (!price) return std::nullopt;
  return DollarRange{price->least * amount, price->most * amount};
}

std::string DollarText(const DollarRange& range) {
  std::string text = swarm::DollarText(range.least);
  if (range.most != range.least) text += " to " + swarm::DollarText(range.most);
  return text;
}

}  // namespace swarm::api

// What workers cost, by the prices of their pools (machine.dollarsPerHour), and the bytes that they
// exchange (workers.traffic). Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/status.h"
#include "api/swarmjob.h"

namespace swarm::api {

inline constexpr double kSecondsPerHour = 3600;

/// Dollars an hour of one worker of this pool, or of one machine of this pool of machines; 0: the
/// pool has no price, or the manifest does not have the pool.
double WorkerPrice(const Spec& spec, const std::string& pool);

/// Whether a pair of regions, "*" for any, names the regions `a` and `b`, in either order.
bool NamesPair(std::string_view first, std::string_view second, std::string_view a,
               std::string_view b);

inline double DollarsPerByte(const TrafficPrice& price) {
  constexpr double kGiga = 1e9;
  return price.dollarsPerGB / kGiga;
}

/// Dollars a byte between workers of two regions, in either direction.
double TrafficDollarsPerByte(const Spec& spec, std::string_view a, std::string_view b);

/// Of machines and traffic.
inline double DollarsPerHour(const CostStatus& cost) {
  return cost.dollarsPerHour + cost.trafficDollarsPerHour;
}

/// An amount of dollars of which only bounds may be known.
struct DollarRange {
  double least = 0;
  double most = 0;
  bool operator==(const DollarRange&) const = default;
};

/// Dollars an hour of one worker whose pool is not known: from the cheapest pool to the dearest,
/// where a pool of machines without a price costs nothing. None: another pool has no price, so
/// nobody knows what the worker costs.
std::optional<DollarRange> WorkerPrices(const Spec& spec);

/// What so much of it costs, such as workers at the price of one. None: it has no price.
std::optional<DollarRange> Times(const std::optional<DollarRange>& price, double amount);

/// "$1.20", or "$1.20 to $4.00" (base/dollars.h).
std::string DollarText(const DollarRange& range);

}  // namespace swarm::api

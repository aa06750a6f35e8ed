// From where on a plan that is not the best one would be. Pure.
#pragma once

#include <compare>
#include <map>
#include <optional>

#include "planner/ranking.h"
#include "planner/search.h"

namespace swarm::planner {

/// How many times as fast the parts of a fleet are.
struct Scale {
  double links = 1, devices = 1, hosts = 1;
  auto operator<=>(const Scale&) const = default;
};

/// From where on other plans are better than the best one; both arguments must outlive it.
class Turns {
 public:
  Turns(const Plan& best, const Request& request)
      : best_(best), request_(request), costs_(request.job.spec) {}

  Turn Of(const Plan& other);

 private:
  bool Wins(const Plan& other, const Scale& scale);
  bool Wins(const Plan& other, const Fleet& fleet, double best) const;
  /// The memory of devices below which the best plan leaves masters to the host, or has no room.
  std::optional<double> SmallerDevices(const Plan& other) const;

  const Plan& best_;
  const Request& request_;
  const Costs costs_;
  std::map<Scale, double> worth_;  // of the best
};

}  // namespace swarm::planner

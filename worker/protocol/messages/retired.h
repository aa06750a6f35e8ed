// Workers whose programs have ended for good: their names are used no more, so their certificates
// count no more, although they are still valid. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/protocol/ids.h"

namespace swarm::protocol {

/// The workers whose ids are `prefix`, a number below `below` that is not in `except`, and nothing
/// else or "-" and their place in their pod. An operator numbers its pods in the order of their
/// making and uses a number once, so what names a thousand pods that are gone is as long as those
/// that are not. Default: nobody is retired.
struct Retired {
  std::string prefix;
  std::uint64_t below = 0;
  std::vector<std::uint64_t> except;  ///< ascending, all below `below`

  bool Has(const WorkerId& id) const;
  /// How many numbers are retired. Who is retired once stays so: of two lists of one job, the one
  /// that counts more has all that the other one has.
  std::uint64_t count() const { return below - except.size(); }
  /// Takes the other list, of the same job, if it counts more. Returns whether it does.
  bool Learn(const Retired& other);
  bool operator==(const Retired&) const = default;
};

}  // namespace swarm::protocol

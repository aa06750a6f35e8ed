// The words for the policies, on command lines and in files.
#pragma once

#include "base/enum_names.h"
#include "worker/protocol/balance/balance.h"

namespace swarm {

template <>
struct EnumNames<protocol::BalancePolicy> {
  using E = protocol::BalancePolicy;
  static constexpr auto kNames = NameTable<E>({
      {E::kNone, "None"},
      {E::kPeriodic, "Periodic"},
      {E::kEvent, "Event"},
  });
};

}  // namespace swarm

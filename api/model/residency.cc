#include "api/model/residency.h"

#include <algorithm>

#include "api/format/enum_names.h"
#include "api/model/memory.h"

namespace swarm::api {
namespace {

constexpr std::uint64_t kMasterBytes = 4, kMomentBytes = 2 * 4;

std::string MiB(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

std::uint64_t DeviceBytes(const Spec& spec, Residency residency, std::uint64_t trained,
                          std::uint64_t frozen) {
  const std::uint64_t versions = VersionsOf(spec);
  const bool resident = residency == Residency::kResident;
  // An operand in float32 is its master, unless that is on the host.
  const std::uint64_t with_master = OperandBytes(spec);
  const std::uint64_t apart =
      with_master == kMasterBytes ? kMasterBytes : with_master - kMasterBytes;
  const std::uint64_t weight = resident ? with_master : apart;
  const std::uint64_t moments = resident ? kMomentBytes : 0;
  const std::uint64_t sums = versions * ElementBytes(spec);
  return trained * (versions * weight + moments + sums + FreshBytes(spec)) + frozen * weight;
}

Result<ResidencyChoice> ChooseResidency(const SwarmJob& job, std::uint64_t trained,
                                        std::uint64_t frozen,
                                        std::optional<std::uint64_t> device_bytes) {
  const std::optional<Residency> wanted = job.spec.pipeline.residency;
  if (!device_bytes) {
    return ResidencyChoice{wanted.value_or(Residency::kResident),
                           "the device computes in the memory of the host"};
  }
  const bool by_host = job.spec.optimizer.type == OptimizerType::kMuon;
  const auto spare = static_cast<std::uint64_t>(kDeviceSpare * static_cast<double>(*device_bytes));
  const std::uint64_t room = *device_bytes - spare;
  const auto needed = [&](Residency residency) {
    return DeviceBytes(job.spec, residency, trained, frozen) + LeastGraphBytes(job);
  };
  const std::uint64_t resident = needed(Residency::kResident);
  const std::string figures =
      MiB(resident) + " with masters and moments, where " + MiB(room) + " may be used";
  if (!wanted && !by_host && resident <= room) {
    return ResidencyChoice{Residency::kResident, "it needs " + figures};
  }
  const Residency residency = wanted.value_or(Residency::kOffload);
  if (needed(residency) > room) {
    return ResourceExhausted(
        "the stage needs " + MiB(needed(residency)) + " of its device, with pipeline.residency " +
        std::string(NameOf(residency)) + ", where " + MiB(room) + " may be used" +
        (residency == Residency::kResident
             ? "; with Offload it needs " + MiB(needed(Residency::kOffload))
             : "; more stages, a smaller microbatch or pipeline.recompute need less"));
  }
  if (wanted) return ResidencyChoice{residency, "the job says so"};
  if (by_host) return ResidencyChoice{residency, "the steps of Muon are computed by the host"};
  return ResidencyChoice{residency, "it would need " + figures};
}

SwapRoom ChooseSwapRoom(const SwarmJob& job, std::uint64_t trained, std::uint64_t frozen,
                        std::uint64_t host, std::uint64_t device_bytes) {
  const std::uint64_t state = SwapDiskBytes(job.spec, trained) + frozen * kMasterBytes;
  const std::uint64_t moving = std::max(host / 4, LeastSwapMemory(job));
  const bool fits = state + moving <= host;
  const std::uint64_t wanted = job.spec.pipeline.memory.device;
  const std::uint64_t there = device_bytes / 2;
  return {fits, std::min(fits ? host - state : host, wanted > 0 ? std::min(wanted, there) : there)};
}

}  // namespace swarm::api

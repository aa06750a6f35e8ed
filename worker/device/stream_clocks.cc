#include "worker/device/stream_clocks.h"

#include <algorithm>

namespace swarm::device {
namespace {

constexpr std::array kNames = {"compute", "in", "out", "state", "the host"};

void TakeLater(StreamClocks::Clock& clock, const StreamClocks::Clock& other) {
  for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

Status TooEarly(std::size_t stream, const char* does, Slot slot, std::size_t other,
                const char* done) {
  return FailedPrecondition(std::string(kNames[stream]) + " " + does + " memory " +
                            std::to_string(slot) + ", and does not wait until " + kNames[other] +
                            " has " + done + " it");
}

}  // namespace

Status StreamClocks::CheckRead(std::size_t stream, Slot slot, const Uses& uses) const {
  if (clocks_[stream][uses.write.stream] >= uses.write.count) return {};
  return TooEarly(stream, "reads", slot, uses.write.stream, "written");
}

Status StreamClocks::CheckWrite(std::size_t stream, Slot slot, const Uses& uses) const {
  if (clocks_[stream][uses.write.stream] < uses.write.count) {
    return TooEarly(stream, "writes", slot, uses.write.stream, "written");
  }
  for (std::size_t other = 0; other < uses.reads.size(); ++other) {
    if (clocks_[stream][other] < uses.reads[other]) {
      return TooEarly(stream, "writes", slot, other, "read");
    }
  }
  return {};
}

Status StreamClocks::RunAs(std::size_t stream, const Access& access) {
  // Work is appended behind what the host has done before.
  TakeLater(clocks_[stream], clocks_[kHost]);
  for (const Slot slot : access.reads) {
    RETURN_IF_ERROR(CheckRead(stream, slot, uses_[slot]));
  }
  for (const Slot slot : access.writes) {
    RETURN_IF_ERROR(CheckWrite(stream, slot, uses_[slot]));
  }
  const std::uint64_t count = ++clocks_[stream][stream];
  for (const Slot slot : access.reads) uses_[slot].reads[stream] = count;
  for (const Slot slot : access.writes) uses_[slot] = {.write = {stream, count}};
  return {};
}

Status StreamClocks::Run(Stream stream, const Access& access) {
  return RunAs(Index(stream), access);
}

Status StreamClocks::RunOnHost(const Access& access) { return RunAs(kHost, access); }

void StreamClocks::Wait(Stream stream, const Clock& event) {
  TakeLater(clocks_[Index(stream)], event);
}

void StreamClocks::WaitOnHost(const Clock& event) { TakeLater(clocks_[kHost], event); }

Status StreamClocks::Forget(Slot slot) {
  const auto found = uses_.find(slot);
  if (found == uses_.end()) return {};
  RETURN_IF_ERROR(CheckWrite(kHost, slot, found->second));
  uses_.erase(found);
  return {};
}

}  // namespace swarm::device

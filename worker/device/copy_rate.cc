#include "worker/device/copy_rate.h"

#include <future>
#include <memory>

#include "base/time.h"

namespace swarm::device {
namespace {

/// Of one copy; and copies that stand in the stream at once, so that none waits for the host.
constexpr std::size_t kBytes = std::size_t{64} << 20;
constexpr int kAtOnce = 4;

/// Memory of a device that goes with this.
class Held {
 public:
  static Result<std::unique_ptr<Held>> Allocate(Device& device, Place place) {
    ASSIGN_OR_RETURN(const Memory memory, device.Allocate(place, kBytes));
    return std::unique_ptr<Held>(new Held(device, memory));
  }
  ~Held() { device_.Free(memory_); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  const Memory& memory() const { return memory_; }

 private:
  Held(Device& device, const Memory& memory) : device_(device), memory_(memory) {}
  Device& device_;
  const Memory memory_;
};

Status CopySome(Device& device, Stream stream, const Memory& to, const Memory& from) {
  for (int i = 0; i < kAtOnce; ++i) device.Copy(stream, to, from, kBytes);
  std::promise<Status> done;
  device.Then(stream, [&](const Status& status) { done.set_value(status); });
  return done.get_future().get();
}

Result<double> Measure(Device& device, Stream stream, const Memory& to, const Memory& from,
                       double seconds) {
  RETURN_IF_ERROR(CopySome(device, stream, to, from));  // the first ones are slower
  double bytes = 0;
  const Timepoint begun = Clock::now(), end = begun + FromSeconds(seconds);
  do {
    RETURN_IF_ERROR(CopySome(device, stream, to, from));
    bytes += double{kBytes} * kAtOnce;
  } while (Clock::now() < end);
  return bytes / ToSeconds(Clock::now() - begun);
}

}  // namespace

Result<CopyRates> MeasureCopies(Device& device, double seconds) {
  ASSIGN_OR_RETURN(const auto pinned, Held::Allocate(device, Place::kPinned));
  ASSIGN_OR_RETURN(const auto there, Held::Allocate(device, Place::kDevice));
  CopyRates rates;
  ASSIGN_OR_RETURN(rates.to_device,
                   Measure(device, Stream::kIn, there->memory(), pinned->memory(), seconds));
  ASSIGN_OR_RETURN(rates.from_device,
                   Measure(device, Stream::kOut, pinned->memory(), there->memory(), seconds));
  return rates;
}

}  // namespace swarm::device

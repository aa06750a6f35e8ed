#include "worker/tier/tier.h"

#include <future>
#include <utility>

namespace swarm::tier {
namespace {

Status WaitFor(const std::function<void(Tier::Done)>& submit) {
  std::promise<Status> promise;
  submit([&](Status status) { promise.set_value(std::move(status)); });
  return promise.get_future().get();
}

}  // namespace

Status Tier::Read(std::uint64_t offset, std::span<std::byte> to) {
  return WaitFor([&](Done done) { SubmitRead(offset, to, std::move(done)); });
}

Status Tier::Write(std::uint64_t offset, std::span<const std::byte> from) {
  return WaitFor([&](Done done) { SubmitWrite(offset, from, std::move(done)); });
}

}  // namespace swarm::tier

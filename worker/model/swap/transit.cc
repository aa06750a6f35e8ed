#include "worker/model/swap/transit.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace swarm::model {

Transit& Transit::operator=(Transit&& other) {
  (void)Wait();
  results_ = std::move(other.results_);
  kept_ = std::move(other.kept_);
  status_ = std::move(other.status_);
  return *this;
}

Status Transit::Wait() {
  for (std::future<Status>& result : std::exchange(results_, {})) {
    Status status = result.get();
    if (status_.ok()) status_ = std::move(status);
  }
  kept_.clear();
  return status_;
}

tier::Tier::Done Transit::Begin(std::shared_ptr<const void> kept) {
  kept_.push_back(std::move(kept));
  const auto promise = std::make_shared<std::promise<Status>>();
  results_.push_back(promise->get_future());
  return [promise](Status status) { promise->set_value(std::move(status)); };
}

bool Transit::IsOver() const {
  return std::ranges::all_of(results_, [](const std::future<Status>& result) {
    return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
}

void Transit::Write(tier::Tier& tier, std::uint64_t offset, const Bytes& bytes) {
  tier.SubmitWrite(offset, bytes.span(), Begin(bytes.owner()));
}

void Transit::Read(tier::Tier& tier, std::uint64_t offset,
                   const std::shared_ptr<std::byte[]>& memory, std::size_t size) {
  tier.SubmitRead(offset, {memory.get(), size}, Begin(memory));
}

}  // namespace swarm::model

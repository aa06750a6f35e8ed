#include "worker/trainer/observer.h"

#include "base/loop.h"
#include "worker/trainer/trainer.h"

namespace swarm::trainer {

struct Observer::State {
  std::mutex mutex;
  std::optional<protocol::JobStatus> newest;
  Duration interval{};
  std::unique_ptr<net::Endpoint> endpoint;
  Loop loop{"observer"};

  void Ask() {
    // Without a connection there is nothing to wait for; the next question comes soon.
    (void)endpoint->Send(kTrainerId, net::Lane::kControl, {protocol::Observe{}, {}});
    loop.PostAt(Clock::now() + interval, [this] { Ask(); });
  }
};

Observer::Observer() : state_(std::make_unique<State>()) {}

Observer::~Observer() {
  state_->loop.Stop();
  state_->endpoint.reset();
}

Result<std::unique_ptr<Observer>> Observer::Start(const std::vector<protocol::Address>& trainer,
                                                  Duration interval,
                                                  const MakeEndpoint& make_endpoint) {
  std::unique_ptr<Observer> observer(new Observer());
  State& state = *observer->state_;
  state.interval = interval;
  ASSIGN_OR_RETURN(state.endpoint, make_endpoint(observer.get()));
  state.endpoint->Connect(kTrainerId, trainer);
  state.loop.Post([&state] { state.Ask(); });
  return observer;
}

std::optional<protocol::JobStatus> Observer::Take() {
  std::lock_guard lock(state_->mutex);
  return std::exchange(state_->newest, std::nullopt);
}

void Observer::OnMessage(const net::WorkerId&, net::Lane, net::Envelope envelope) {
  if (auto* status = std::get_if<protocol::JobStatus>(&envelope.message)) {
    std::lock_guard lock(state_->mutex);
    state_->newest = std::move(*status);
  }
}

void Observer::OnPeerUp(const net::WorkerId&) {}
void Observer::OnPeerDown(const net::WorkerId&, const Status&) {}

}  // namespace swarm::trainer

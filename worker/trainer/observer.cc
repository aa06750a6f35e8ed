#include "worker/trainer/observer.h"

#include <deque>
#include <mutex>

#include "base/loop.h"

namespace swarm::trainer {
namespace {

constexpr std::size_t kRepliesMax = 64;

}  // namespace

struct Observer::State {
  mutable std::mutex mutex;
  std::optional<protocol::JobStatus> newest;  // guarded, as all up to `heard`
  std::deque<protocol::DirectReply> replies;
  bool connected = false;
  std::optional<Timepoint> heard;
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

Status Observer::Send(protocol::Direct direct) {
  return state_->endpoint->Send(kTrainerId, net::Lane::kControl, {std::move(direct), {}});
}

std::optional<protocol::DirectReply> Observer::TakeReply() {
  std::lock_guard lock(state_->mutex);
  if (state_->replies.empty()) return std::nullopt;
  protocol::DirectReply reply = std::move(state_->replies.front());
  state_->replies.pop_front();
  return reply;
}

bool Observer::connected() const {
  std::lock_guard lock(state_->mutex);
  return state_->connected;
}

std::optional<Timepoint> Observer::heard() const {
  std::lock_guard lock(state_->mutex);
  return state_->heard;
}

void Observer::OnMessage(const net::WorkerId&, net::Lane, net::Envelope envelope) {
  std::lock_guard lock(state_->mutex);
  state_->heard = Clock::now();
  if (auto* status = std::get_if<protocol::JobStatus>(&envelope.message)) {
    state_->newest = std::move(*status);
  } else if (auto* reply = std::get_if<protocol::DirectReply>(&envelope.message)) {
    state_->replies.push_back(std::move(*reply));
    if (state_->replies.size() > kRepliesMax) state_->replies.pop_front();
  }
}

void Observer::OnPeerUp(const net::WorkerId&) {
  std::lock_guard lock(state_->mutex);
  state_->connected = true;
}

void Observer::OnPeerDown(const net::WorkerId&, const Status&) {
  std::lock_guard lock(state_->mutex);
  state_->connected = false;
}

}  // namespace swarm::trainer

#include "worker/trainer/observer/observer.h"

#include <deque>
#include <mutex>
#include <utility>

#include "base/loop.h"

namespace swarm::trainer {
namespace {

constexpr std::size_t kRepliesMax = 64;

}  // namespace

/// Shared with the work that is posted to the loop; the loop may be shared with other observers.
struct Observer::State : std::enable_shared_from_this<State> {
  mutable std::mutex mutex;
  std::optional<protocol::JobStatus> newest;  // guarded, like the fields up to `heard`
  std::deque<protocol::DirectReply> replies;
  bool connected = false;
  std::optional<Timepoint> heard;
  Duration interval{};
  std::shared_ptr<Loop> loop;
  bool own_loop = false;
  std::mutex asking;
  std::unique_ptr<net::Endpoint> endpoint;  // guarded by `asking` against its destruction

  void AskLater(Duration pause) {
    loop->PostAt(Clock::now() + pause, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Ask();
    });
  }
  void Ask() {
    {
      const std::lock_guard lock(asking);
      if (!endpoint) return;
      // Without a connection there is nothing to wait for; the next question comes soon.
      (void)endpoint->Send(kTrainerId, net::Lane::kControl, {protocol::Observe{}, {}});
    }
    AskLater(interval);
  }
};

Observer::Observer() : state_(std::make_shared<State>()) {}

Observer::~Observer() {
  if (state_->own_loop) state_->loop->Stop();  // else it would end on its own thread
  std::unique_ptr<net::Endpoint> endpoint;
  const std::lock_guard lock(state_->asking);
  endpoint = std::move(state_->endpoint);
}

Result<std::unique_ptr<Observer>> Observer::Start(const std::vector<protocol::Address>& trainer,
                                                  Duration interval,
                                                  const net::MakeEndpoint& make_endpoint,
                                                  std::shared_ptr<Loop> loop) {
  std::unique_ptr<Observer> observer(new Observer());
  State& state = *observer->state_;
  state.interval = interval;
  state.own_loop = !loop;
  state.loop = loop ? std::move(loop) : std::make_shared<Loop>("observer");
  ASSIGN_OR_RETURN(state.endpoint, make_endpoint(observer.get()));
  state.endpoint->Connect(kTrainerId, trainer);
  state.AskLater(Duration::zero());
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

#include "worker/trainer/observer/observer.h"

#include <deque>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "base/loop.h"

namespace swarm::trainer {
namespace {

constexpr std::size_t kRepliesMax = 64;
/// Messages that a trainer may send unasked over one connection: its farewell, and the answer to a
/// question that was sent while the connection was announced.
constexpr int kUnaskedMax = 8;
/// The most messages that may come at once, from a trainer that was held up.
constexpr int kExpectedMax = 1024;

/// Cuts between two characters.
void Shorten(std::string* text) {
  if (text->size() <= kObservedTextBytesMax) return;
  std::size_t end = kObservedTextBytesMax;
  while (end > 0 && (static_cast<unsigned char>((*text)[end]) & 0xc0) == 0x80) --end;
  text->resize(end);
  text->shrink_to_fit();
}

void ShortenTexts(protocol::JobStatus* status) {
  for (std::string* text : {&status->message, &status->waiting_for, &status->checkpoint.error}) {
    Shorten(text);
  }
  for (protocol::Eviction& eviction : status->evicted) Shorten(&eviction.text);
}

}  // namespace

/// Shared with the work that is posted to the loop; the loop may be shared with other observers.
struct Observer::State : std::enable_shared_from_this<State> {
  mutable std::mutex mutex;
  std::optional<protocol::JobStatus> newest;      // guarded, like the fields up to `heard`
  std::size_t newest_bytes = 0, taken_bytes = 0;  // of memory: `newest`, and what Take gave last
  std::deque<protocol::DirectReply> replies;
  int expected = kUnaskedMax;  // messages that may come over this connection
  bool hung_up = false;
  bool crowded = false;  // the last status found no room
  bool connected = false;
  std::optional<Timepoint> heard;
  std::shared_ptr<StatusMemory> memory;
  std::vector<protocol::Address> trainer;
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
      Expect();
      // Without a connection there is nothing to wait for; the next question comes soon.
      (void)endpoint->Send(kTrainerId, net::Lane::kControl, {protocol::Observe{}, {}});
    }
    AskLater(interval);
  }

  void Expect() {
    const std::lock_guard lock(mutex);
    expected = std::min(expected + 1, kExpectedMax);
  }
  /// Under `mutex`. Whether a message may come.
  bool MayCome() {
    if (hung_up) return false;
    if (expected > 0) {
      --expected;
      return true;
    }
    hung_up = true;
    expected = kUnaskedMax;
    loop->Post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->HangUp();
    });
    return false;
  }
  void HangUp() {
    LOG_WARN("the trainer at {} sends what nobody asked for; calling it again in {} s",
             trainer.front().dial, ToSeconds(kHangUp));
    const std::lock_guard lock(asking);
    if (!endpoint) return;
    endpoint->Disconnect(kTrainerId);
    loop->PostAt(Clock::now() + kHangUp, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->CallAgain();
    });
  }
  void CallAgain() {
    const std::lock_guard call(asking);
    if (!endpoint) return;
    {
      const std::lock_guard lock(mutex);
      hung_up = false;
    }
    endpoint->Connect(kTrainerId, trainer);
  }

  /// Under `mutex`.
  void Keep(protocol::JobStatus status) {
    ShortenTexts(&status);
    const std::size_t bytes = BytesOf(status);
    newest.reset();
    Free(std::exchange(newest_bytes, 0));
    const bool fits = !memory || memory->Take(bytes);
    if (!fits && !crowded) {
      LOG_WARN(
          "no room for a status of {} bytes of the trainer at {}: other trainers' statuses are"
          " too large; dropping it",
          bytes, trainer.front().dial);
    }
    crowded = !fits;
    if (!fits) return;
    heard = Clock::now();
    newest = std::move(status);
    newest_bytes = bytes;
  }
  void Free(std::size_t bytes) {
    if (memory) memory->Release(bytes);
  }
};

Observer::Observer() : state_(std::make_shared<State>()) {}

Observer::~Observer() {
  if (state_->own_loop) state_->loop->Stop();  // else it would end on its own thread
  std::unique_ptr<net::Endpoint> endpoint;
  {
    const std::lock_guard lock(state_->asking);
    endpoint = std::move(state_->endpoint);
  }
  endpoint.reset();  // no message comes after this
  state_->Free(state_->newest_bytes);
  state_->Free(state_->taken_bytes);
}

Result<std::unique_ptr<Observer>> Observer::Start(const std::vector<protocol::Address>& trainer,
                                                  Duration interval,
                                                  const net::MakeEndpoint& make_endpoint,
                                                  std::shared_ptr<Loop> loop,
                                                  std::shared_ptr<StatusMemory> memory) {
  std::unique_ptr<Observer> observer(new Observer());
  State& state = *observer->state_;
  state.interval = interval;
  state.memory = std::move(memory);
  state.trainer = trainer;
  state.own_loop = !loop;
  state.loop = loop ? std::move(loop) : std::make_shared<Loop>("observer");
  ASSIGN_OR_RETURN(state.endpoint, make_endpoint(observer.get()));
  state.endpoint->Connect(kTrainerId, trainer);
  state.AskLater(Duration::zero());
  return observer;
}

std::optional<protocol::JobStatus> Observer::Take() {
  std::lock_guard lock(state_->mutex);
  if (!state_->newest) return std::nullopt;
  state_->Free(std::exchange(state_->taken_bytes, std::exchange(state_->newest_bytes, 0)));
  return std::exchange(state_->newest, std::nullopt);
}

Status Observer::Send(protocol::Direct direct) {
  state_->Expect();
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
  if (!state_->MayCome()) return;
  if (auto* status = std::get_if<protocol::JobStatus>(&envelope.message)) {
    state_->Keep(std::move(*status));
  } else if (auto* reply = std::get_if<protocol::DirectReply>(&envelope.message)) {
    Shorten(&reply->why);
    state_->replies.push_back(std::move(*reply));
    if (state_->replies.size() > kRepliesMax) state_->replies.pop_front();
  }
}

void Observer::OnPeerUp(const net::WorkerId&) {
  std::lock_guard lock(state_->mutex);
  state_->expected = kUnaskedMax;
  state_->connected = true;
}

void Observer::OnPeerDown(const net::WorkerId&, const Status&) {
  std::lock_guard lock(state_->mutex);
  state_->connected = false;
}

}  // namespace swarm::trainer

#include "worker/net/grpc/relay/relay.h"

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/log.h"
#include "worker/net/grpc/credentials.h"
#include "worker/net/grpc/status.h"

namespace swarm::net {
namespace {

/// Of one worker: it needs one, and some more while those of its last process are not noticed.
constexpr std::size_t kWaitingMax = 4;
/// For workers that are not there, all together.
constexpr std::size_t kEarlyMax = 1024;
/// A worker has two for each other one that it reaches so.
constexpr std::size_t kCallsMax = 8192;

}  // namespace

/// All calls, and what they wait for.
class Relay::Calls final {
 public:
  explicit Calls(MayCall may_call) : may_call_(std::move(may_call)) {}

  void Add(Call* call);
  void OnRead(Call* call, bool ok);
  void OnWrite(Call* call, bool ok);
  void OnCancel(Call* call);
  void OnDone(Call* call);
  void CheckAgain();
  void CloseAll(const Status& why);
  std::uint64_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  using Queue = std::deque<Call*>;
  using Queues = std::map<WorkerId, Queue>;

  // The lock is held in all of these. gRPC runs no reaction inside of the call that begins an
  // operation, so it is not taken twice.
  Status TakeHello(Call* call);
  void Match(Call* call);
  void Join(Call* call, Call* other);
  void Close(Call* call, const Status& why);
  void Forget(Call* call);

  const MayCall may_call_;
  mutable std::mutex mutex_;  // guards the rest, and what is in the calls
  std::set<Call*> all_;
  Queues waiting_;  // calls of a worker that waits to be called
  Queues early_;    // calls for a worker of which none waits
  std::size_t early_count_ = 0;
  std::uint64_t bytes_ = 0;
  std::optional<Status> closed_;
};

/// One call. Its fields are guarded by the lock of all calls.
class Relay::Call final : public grpc::ServerGenericBidiReactor {
 public:
  Call(std::shared_ptr<Calls> calls, grpc::GenericCallbackServerContext* context)
      : calls_(std::move(calls)), context(context) {}

  void OnReadDone(bool ok) override { calls_->OnRead(this, ok); }
  void OnWriteDone(bool ok) override { calls_->OnWrite(this, ok); }
  void OnCancel() override { calls_->OnCancel(this); }
  void OnDone() override {
    calls_->OnDone(this);
    delete this;
  }

 private:
  const std::shared_ptr<Calls> calls_;

 public:
  grpc::GenericCallbackServerContext* const context;
  std::vector<std::string> uris;    // known with the hello
  std::optional<RelayHello> hello;  // empty: it has not come
  Call* other = nullptr;            // that it is joined with
  grpc::ByteBuffer came, goes;
  bool writing = false;
  bool closed = false;
  Status why;  // of closed
};

void Relay::Calls::Add(Call* call) {
  const std::lock_guard lock(mutex_);
  all_.insert(call);
  if (closed_) return Close(call, *closed_);
  if (all_.size() > kCallsMax)
    return Close(call, ResourceExhausted("the relay has too many calls"));
  call->StartRead(&call->came);
}

void Relay::Calls::OnRead(Call* call, bool ok) {
  const std::lock_guard lock(mutex_);
  if (call->closed) return;
  if (!ok) return Close(call, Status());
  if (!call->hello) {
    const Status status = TakeHello(call);
    if (status.ok()) return Match(call);
    LOG_WARN("the relay refused {}: {}", call->context->peer(), status.ToString());
    return Close(call, status);
  }
  if (call->came.Length() > kRelayedBytesMax) {
    return Close(call, InvalidArgument("a message is longer than what a relay passes on"));
  }
  bytes_ += call->came.Length();
  Call* const to = call->other;
  to->goes.Swap(&call->came);
  to->writing = true;
  to->StartWrite(&to->goes);
}

Status Relay::Calls::TakeHello(Call* call) {
  call->uris = UrisOf(call->context->auth_context().get());
  grpc::Slice bytes;
  if (!call->came.DumpToSingleSlice(&bytes).ok()) return DataLoss("not a hello to a relay");
  call->came.Clear();
  ASSIGN_OR_RETURN(RelayHello hello,
                   DecodeRelayHello(std::as_bytes(std::span(bytes.begin(), bytes.size()))));
  RETURN_IF_ERROR(may_call_(call->uris, hello));
  call->hello = std::move(hello);
  return Status();
}

void Relay::Calls::Match(Call* call) {
  const bool waits = call->hello->waits();
  const WorkerId& called = call->hello->called();
  Queues& others = waits ? early_ : waiting_;
  if (const auto found = others.find(called); found != others.end()) {
    // Of calls that wait, the latest is the likeliest to have a worker at its other end.
    return Join(call, waits ? found->second.front() : found->second.back());
  }
  Queue& own = (waits ? waiting_ : early_)[called];
  own.push_back(call);
  if (waits) {
    if (own.size() > kWaitingMax) Close(own.front(), Cancelled("later calls of the worker wait"));
  } else if (++early_count_ > kEarlyMax) {
    Close(call, ResourceExhausted("too many calls wait for workers that are not there"));
  }
}

void Relay::Calls::Join(Call* call, Call* other) {
  Forget(other);
  call->other = other;
  other->other = call;
  for (Call* each : {call, other}) each->StartRead(&each->came);
}

void Relay::Calls::OnWrite(Call* call, bool ok) {
  const std::lock_guard lock(mutex_);
  call->writing = false;
  call->goes.Clear();
  if (call->closed) return call->Finish(ToGrpc(call->why));
  if (!ok) return Close(call, Status());
  call->other->StartRead(&call->other->came);
}

void Relay::Calls::OnCancel(Call* call) {
  const std::lock_guard lock(mutex_);
  Close(call, Status());
}

void Relay::Calls::OnDone(Call* call) {
  const std::lock_guard lock(mutex_);
  all_.erase(call);
}

void Relay::Calls::Forget(Call* call) {
  if (!call->hello) return;
  const bool waits = call->hello->waits();
  Queues& queues = waits ? waiting_ : early_;
  const auto queue = queues.find(call->hello->called());
  if (queue == queues.end()) return;
  const std::size_t gone = std::erase(queue->second, call);
  if (!waits) early_count_ -= gone;
  if (queue->second.empty()) queues.erase(queue);
}

void Relay::Calls::Close(Call* call, const Status& why) {
  if (std::exchange(call->closed, true)) return;
  call->why = why;
  Forget(call);
  if (call->writing) {
    call->context->TryCancel();  // the end of the write finishes it
  } else {
    call->Finish(ToGrpc(why));
  }
  if (Call* const other = std::exchange(call->other, nullptr)) {
    other->other = nullptr;
    Close(other, why);
  }
}

void Relay::Calls::CheckAgain() {
  const std::lock_guard lock(mutex_);
  for (Call* call : all_) {
    if (!call->hello || call->closed) continue;
    const Status status = may_call_(call->uris, *call->hello);
    if (!status.ok()) Close(call, status);
  }
}

void Relay::Calls::CloseAll(const Status& why) {
  const std::lock_guard lock(mutex_);
  closed_ = why;
  for (Call* call : all_) Close(call, why);
}

Relay::Relay(MayCall may_call) : calls_(std::make_shared<Calls>(std::move(may_call))) {}

Relay::~Relay() { Close(Unavailable("the relay is leaving")); }

grpc::ServerGenericBidiReactor* Relay::Accept(grpc::GenericCallbackServerContext* context) {
  auto* const call = new Call(calls_, context);  // until its end
  calls_->Add(call);
  return call;
}

void Relay::CheckAgain() { calls_->CheckAgain(); }

void Relay::Close(const Status& why) { calls_->CloseAll(why); }

std::uint64_t Relay::bytes() const { return calls_->bytes(); }

}  // namespace swarm::net

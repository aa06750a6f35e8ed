#include "operator/satellite/wire/byte_stream.h"

#include <utility>

#include "worker/enrol/service/bytes.h"
#include "worker/net/grpc/status.h"

namespace swarm::satellite {

using enrol::BytesOf;
using enrol::TextOf;

void ByteStream::Start(Events events) {
  events_ = std::move(events);
  self_ = shared_from_this();
  BeginRead(&read_);
}

Status ByteStream::Send(std::string message, WhenFull when_full) {
  const std::size_t size = message.size();
  grpc::ByteBuffer bytes = BytesOf(message);
  std::unique_lock lock(mutex_);
  const auto has_room = [&] {
    return closed_ || waiting_.empty() || waiting_bytes_ + size <= kQueuedBytesMax;
  };
  if (when_full == WhenFull::kWait) room_.wait(lock, has_room);
  if (closed_) return Unavailable("the connection is closed");
  if (!has_room()) return ResourceExhausted("too many bytes wait to be sent");
  waiting_.push_back(std::move(bytes));
  waiting_bytes_ += size;
  // gRPC never runs a reaction inside of the call that begins an operation.
  if (!std::exchange(writing_, true)) BeginWrite(&waiting_.front());
  return Status();
}

void ByteStream::WriteEnded(bool ok) {
  Status why;
  {
    const std::lock_guard lock(mutex_);
    waiting_bytes_ -= waiting_.front().Length();
    waiting_.pop_front();
    room_.notify_all();
    writing_ = false;
    if (ok && !closed_) {
      if (waiting_.empty()) return;
      writing_ = true;
      return BeginWrite(&waiting_.front());
    }
    closed_ = true;
    waiting_.clear();
    why = why_;
  }
  Release(why);
}

void ByteStream::Close(const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
    why_ = why;
    room_.notify_all();
    // Under the lock, without which the write's reaction could let the call end.
    if (writing_) return Cancel();
  }
  Release(why);
}

void ByteStream::ReadEnded(bool ok) {
  if (!ok) return Close(Status());
  std::string text = TextOf(read_);
  read_.Clear();
  events_.on_message(std::move(text), [stream = shared_from_this()] { stream->ReadOn(); });
}

void ByteStream::ReadOn() {
  // A closed stream may be past the end of its call, when no operation may begin any more.
  const std::lock_guard lock(mutex_);
  if (!closed_) BeginRead(&read_);
}

void ByteStream::CallEnded(const Status& why) {
  Status reason;
  {
    const std::lock_guard lock(mutex_);
    reason = why_.ok() ? why : why_;
  }
  const Events events = std::move(events_);  // may own this, and this may go in on_done
  events.on_done(std::move(self_), reason);
}

std::shared_ptr<ByteStream> DialledByteStream::Dial(std::shared_ptr<grpc::Channel> channel,
                                                    const std::string& method, Events events) {
  const std::shared_ptr<DialledByteStream> stream(new DialledByteStream(std::move(channel)));
  stream->stub_.PrepareBidiStreamingCall(&stream->context_, method, {}, stream.get());
  stream->AddHold();  // operations begin outside of reactions
  stream->Start(std::move(events));
  stream->StartCall();
  return stream;
}

void DialledByteStream::Release(const Status& why) {
  // When the other end has ended the call, its status is on the way and must not be overwritten.
  if (!why.ok()) context_.TryCancel();
  RemoveHold();
}

void DialledByteStream::OnDone(const grpc::Status& status) {
  CallEnded(status.ok() ? Unavailable("the other end closed the connection")
                        : net::FromGrpc(status));
}

void AcceptedByteStream::Release(const Status& why) { Finish(net::ToGrpc(why)); }

void AcceptedByteStream::OnDone() { CallEnded(Unavailable("the other end closed the connection")); }

}  // namespace swarm::satellite

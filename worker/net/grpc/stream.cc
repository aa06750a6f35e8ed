#include "worker/net/grpc/stream.h"

#include <utility>

#include "worker/net/grpc/credentials.h"
#include "worker/net/grpc/status.h"

namespace swarm::net {
namespace {

/// A slice that shares the memory of `bytes` and releases it when gRPC is done with the slice.
grpc::Slice ShareSlice(const Bytes& bytes) {
  if (bytes.empty()) return {};
  // gRPC does not write to slices that it was given to send.
  return grpc::Slice(
      const_cast<std::byte*>(bytes.data()), bytes.size(),
      [](void* kept) { delete static_cast<Bytes*>(kept); }, new Bytes(bytes));
}

}  // namespace

Stream::Stream(std::shared_ptr<StreamOwner> owner, const StreamOptions& options)
    : owner_(std::move(owner)), options_(options), reader_(options.caps, options.buffers) {}

void Stream::SendHello(const StreamHello& hello) {
  Waiting waiting;
  waiting.hello = EncodeHello(hello);
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    queue_.push_back(std::move(waiting));
    writing_ = true;
  }
  WriteNext();
}

Status Stream::Send(std::string header, Bytes payload) {
  const std::size_t bytes = header.size() + payload.size();
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return Unavailable("the connection is closed");
    if (queued_bytes_ > 0 && queued_bytes_ + bytes > window_bytes_) {
      return ResourceExhausted("the window of " + std::to_string(window_bytes_) +
                               " bytes is full; send it later or to another");
    }
    Waiting waiting;
    waiting.message.emplace(++last_sequence_, std::move(header), std::move(payload),
                            options_.piece_bytes);
    queued_bytes_ += bytes;
    queue_.push_back(std::move(waiting));
    if (std::exchange(writing_, true)) return Status();
  }
  WriteNext();
  return Status();
}

void Stream::WriteNext() {
  Waiting* head;
  {
    const std::lock_guard lock(mutex_);
    head = &queue_.front();
  }
  if (head->message) {
    const FrameWriter::Frame frame = head->message->Next();
    const grpc::Slice slices[] = {grpc::Slice(frame.prefix), ShareSlice(frame.piece)};
    write_buffer_ = grpc::ByteBuffer(slices, 2);
  } else {
    const grpc::Slice slice(head->hello);
    write_buffer_ = grpc::ByteBuffer(&slice, 1);
  }
  HandOver();
  BeginWrite(&write_buffer_);
}

void Stream::WriteEnded(bool ok) {
  TakeOver();
  write_buffer_.Clear();
  std::deque<Waiting> gone;  // released outside of the lock
  Status why;
  bool release = false;
  {
    const std::lock_guard lock(mutex_);
    if (ok && !closed_) {
      Waiting& head = queue_.front();
      if (!head.message || head.message->done()) {
        queued_bytes_ -= head.bytes();
        gone.push_back(std::move(head));
        queue_.pop_front();
      }
      writing_ = !queue_.empty();
      if (!writing_) return;
    } else {
      closed_ = release = true;
      writing_ = false;
      gone.swap(queue_);
      why = why_;
    }
  }
  release ? Release(why) : WriteNext();
}

void Stream::Close(const Status& why) {
  std::deque<Waiting> gone;  // released outside of the lock
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
    why_ = why;
    // Under the lock, without which the write's reaction cannot let the call end.
    if (writing_) return Cancel(why);
    gone.swap(queue_);
  }
  Release(why);
}

void Stream::StartReading(Sink sink) {
  // A closed stream may be past the end of its call, when no operation may begin any more. gRPC
  // never runs a reaction inside of the call that begins an operation, so the lock is not taken
  // twice.
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  sink_ = std::move(sink);
  HandOver();
  BeginRead(&read_buffer_);
}

void Stream::ReadEnded(bool ok) {
  TakeOver();
  if (!ok) return Close(Status());
  if (!hello_came_) return TakeHello();
  if (!TakeFrame()) return HandOver();
  HandOver();
  BeginRead(&read_buffer_);
}

void Stream::TakeHello() {
  hello_came_ = true;
  remote_ = DescribeRemote();
  grpc::Slice bytes;
  Result<StreamHello> hello = DataLoss("not a hello");
  if (read_buffer_.Length() <= kHelloBytesMax && read_buffer_.DumpToSingleSlice(&bytes).ok()) {
    hello = DecodeHello(std::as_bytes(std::span(bytes.begin(), bytes.size())));
  }
  read_buffer_.Clear();
  if (!hello.ok()) {
    owner_->OnStreamRefused(*this, hello.status());
    return Close(hello.status());
  }
  {
    const std::lock_guard lock(mutex_);
    window_bytes_ = options_.window_bytes[static_cast<std::size_t>(hello->lane)];
  }
  owner_->OnStreamHello(self_, std::move(hello).value());
}

bool Stream::TakeFrame() {
  const auto kept = std::make_shared<std::vector<grpc::Slice>>();
  Status status = FromGrpc(read_buffer_.Dump(kept.get()));
  read_buffer_.Clear();
  std::vector<FrameReader::Slice> slices;
  slices.reserve(kept->size());
  for (const grpc::Slice& slice : *kept) {
    slices.push_back(std::as_bytes(std::span(slice.begin(), slice.size())));
  }
  auto added = reader_.Add(slices, kept);
  if (!added.ok()) {
    owner_->OnStreamRefused(*this, added.status());
    Close(added.status());
    return false;
  }
  if (added->has_value()) {
    sink_(**std::move(added), reader_.bytes());
  }
  return true;
}

void Stream::CallEnded(const Status& why) {
  TakeOver();
  Status reason;
  {
    const std::lock_guard lock(mutex_);
    reason = why_.ok() ? why : why_;
  }
  const std::shared_ptr<StreamOwner> owner = owner_;
  sink_ = nullptr;
  // This may be gone before the call returns.
  owner->OnStreamDone(std::move(self_), reason);
}

DialledStream::DialledStream(std::shared_ptr<StreamOwner> owner, const StreamOptions& options,
                             std::shared_ptr<grpc::Channel> channel)
    : Stream(std::move(owner), options), channel_(std::move(channel)), stub_(channel_) {}

std::shared_ptr<Stream> DialledStream::Start(std::shared_ptr<StreamOwner> owner,
                                             const StreamOptions& options,
                                             std::shared_ptr<grpc::Channel> channel,
                                             const StreamHello& hello) {
  const std::shared_ptr<DialledStream> stream(
      new DialledStream(std::move(owner), options, std::move(channel)));
  stream->self_ = stream;
  stream->stub_.PrepareBidiStreamingCall(&stream->context_, kExchangeMethod, {}, stream.get());
  stream->AddHold();  // writes begin outside of reactions
  stream->ReadHello();
  stream->StartCall();
  stream->SendHello(hello);
  return stream;
}

void DialledStream::Cancel(const Status& why) {
  // When the other end has ended the call, its status is on the way and must not be overwritten.
  if (!why.ok()) context_.TryCancel();
}

void DialledStream::Release(const Status& why) {
  Cancel(why);
  RemoveHold();
}

void DialledStream::OnDone(const grpc::Status& status) {
  CallEnded(status.ok() ? Unavailable("the other end closed the connection") : FromGrpc(status));
}

Stream::Remote DialledStream::DescribeRemote() const {
  return {context_.peer(), UrisOf(context_.auth_context().get())};
}

AcceptedStream::AcceptedStream(std::shared_ptr<StreamOwner> owner, const StreamOptions& options,
                               grpc::GenericCallbackServerContext* context)
    : Stream(std::move(owner), options), context_(context) {}

std::shared_ptr<AcceptedStream> AcceptedStream::Start(std::shared_ptr<StreamOwner> owner,
                                                      const StreamOptions& options,
                                                      grpc::GenericCallbackServerContext* context) {
  const std::shared_ptr<AcceptedStream> stream(
      new AcceptedStream(std::move(owner), options, context));
  stream->self_ = stream;
  stream->ReadHello();
  return stream;
}

void AcceptedStream::Release(const Status& why) { Finish(ToGrpc(why)); }

void AcceptedStream::OnCancel() { Close(Status()); }

void AcceptedStream::OnDone() { CallEnded(Unavailable("the other end closed the connection")); }

Stream::Remote AcceptedStream::DescribeRemote() const {
  return {context_->peer(), UrisOf(context_->auth_context().get())};
}

}  // namespace swarm::net

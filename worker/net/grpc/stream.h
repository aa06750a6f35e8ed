// One lane of one connection: a bidirectional gRPC call, dialled or accepted.
//
// Threads: gRPC's threads call the reactions; the endpoint and its owner call Send,
// StartReading and Close from any thread. Nothing here blocks. At most one read and one write are
// under way; further messages wait in a queue that the window bounds.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "worker/net/grpc/hello.h"
#include "worker/net/wire/frame.h"

namespace swarm::net {

class Stream;

/// Receives the events of streams. Calls for one stream come one at a time, from gRPC's threads, in
/// this order: OnStreamHello once, messages, OnStreamRefused at most once, OnStreamDone once; after
/// OnStreamDone none.
class StreamOwner {
 public:
  virtual ~StreamOwner() = default;
  /// The first message came. Nothing more is read before StartReading.
  virtual void OnStreamHello(const std::shared_ptr<Stream>& stream, StreamHello hello) = 0;
  /// The peer sent something that is not a frame, or is above a cap; the stream closes.
  virtual void OnStreamRefused(Stream& stream, const Status& why) = 0;
  /// Takes over the reference that the call holds on the stream. Do not drop it on a thread of
  /// gRPC: with the last channel gRPC joins its threads.
  virtual void OnStreamDone(std::shared_ptr<Stream> stream, const Status& why) = 0;
};

struct StreamOptions {
  std::array<std::size_t, kLaneCount> window_bytes{};  ///< of messages that wait to be written
  std::size_t piece_bytes = 0;
  MessageCaps caps;
  std::shared_ptr<ReceiveBuffers> buffers;
};

/// Has more than 15 fields: the state of a writing and of a reading half, which differ in what
/// guards them.
class Stream {
 public:
  Stream(std::shared_ptr<StreamOwner> owner, const StreamOptions& options);
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Writes the first message of this direction. Once, before any Send.
  void SendHello(const StreamHello& hello);
  /// Queues a message whose header EncodeHeader gave. Errors: kUnavailable, kResourceExhausted.
  Status Send(std::string header, Bytes payload);
  /// Takes each message that arrives, and its bytes of header and payload.
  using Sink = std::function<void(Envelope envelope, std::size_t bytes)>;
  /// Reads messages from now on, into `sink`. Once, after OnStreamHello.
  void StartReading(Sink sink);
  /// Ends the call and drops the queued messages; OnStreamDone follows with `why` (ok: with the
  /// status that the other end gave). Where this end has accepted the call, the other end is told
  /// `why`.
  void Close(const Status& why);
  /// The other end, as the transport knows it. Known once the hello has come.
  struct Remote {
    std::string address;            ///< for logs
    std::vector<std::string> uris;  ///< in its verified certificate; empty in plaintext
  };
  const Remote& remote() const { return remote_; }

 protected:
  // The operations in which the two kinds of call differ.
  virtual void BeginRead(grpc::ByteBuffer* to) = 0;
  virtual void BeginWrite(const grpc::ByteBuffer* from) = 0;
  /// Asked in a reaction, while the call certainly lives.
  virtual Remote DescribeRemote() const = 0;
  /// A write is under way and the stream closes: makes it fail soon. The call lives.
  virtual void Cancel(const Status& why) = 0;
  /// No write is under way and none will begin: lets the call end. Once.
  virtual void Release(const Status& why) = 0;

  // Events of the calls' reactions.
  void ReadEnded(bool ok);
  void WriteEnded(bool ok);
  void CallEnded(const Status& why);

  /// The first read; before the call starts.
  void ReadHello() {
    HandOver();
    BeginRead(&read_buffer_);
  }

  /// Keeps this alive until CallEnded. Set before the call starts.
  std::shared_ptr<Stream> self_;

 private:
  struct Waiting {
    std::optional<FrameWriter> message;  // empty: the hello
    std::string hello;
    std::size_t bytes() const { return message ? message->bytes() : 0; }
  };

  void TakeHello();
  /// Whether to read on.
  bool TakeFrame();
  /// Puts the next frame of the queue's head into write_buffer_ and writes it. The caller has set
  /// writing_, which makes it the only one here.
  void WriteNext();

  const std::shared_ptr<StreamOwner> owner_;
  const StreamOptions options_;

  /// Makes the effects of one reaction visible to the next, on another thread. gRPC orders them,
  /// but its own synchronisation is invisible to the thread sanitizer and not documented.
  void HandOver() { handed_over_.fetch_add(1, std::memory_order_release); }
  void TakeOver() const { (void)handed_over_.load(std::memory_order_acquire); }

  std::atomic<std::uint64_t> handed_over_ = 0;
  std::mutex mutex_;
  std::deque<Waiting> queue_;  // guarded; deque: the head stays where it is while others are queued
  std::size_t window_bytes_ = 0;     // guarded; known with the hello
  std::size_t queued_bytes_ = 0;     // guarded
  std::uint64_t last_sequence_ = 0;  // guarded
  bool writing_ = false;             // guarded: a write is under way, or about to begin
  bool closed_ = false;              // guarded
  Status why_;                       // guarded

  grpc::ByteBuffer write_buffer_;  // owned by the thread that has set writing_

  // Of the reading reaction:
  grpc::ByteBuffer read_buffer_;
  bool hello_came_ = false;
  Remote remote_;
  Sink sink_;  // released when the call ends: it may own this
  FrameReader reader_;
};

/// The wire name of a stream of either lane.
inline constexpr char kExchangeMethod[] = "/swarmjob.v1.Transport/Exchange";

/// A call that this end has dialled.
class DialledStream final : public Stream,
                            private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  /// Starts the call over `channel` (which this keeps) and sends `hello`.
  static std::shared_ptr<Stream> Start(std::shared_ptr<StreamOwner> owner,
                                       const StreamOptions& options,
                                       std::shared_ptr<grpc::Channel> channel,
                                       const StreamHello& hello);

 private:
  DialledStream(std::shared_ptr<StreamOwner> owner, const StreamOptions& options,
                std::shared_ptr<grpc::Channel> channel);

  Remote DescribeRemote() const override;
  void BeginRead(grpc::ByteBuffer* to) override { StartRead(to); }
  void BeginWrite(const grpc::ByteBuffer* from) override { StartWrite(from); }
  void Cancel(const Status& why) override;
  void Release(const Status& why) override;

  void OnReadDone(bool ok) override { ReadEnded(ok); }
  void OnWriteDone(bool ok) override { WriteEnded(ok); }
  void OnDone(const grpc::Status& status) override;

  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
};

/// A call that the other end has dialled.
class AcceptedStream final : public Stream, private grpc::ServerGenericBidiReactor {
 public:
  /// `context` lives until the call's end; the reactor goes back to gRPC.
  static std::shared_ptr<AcceptedStream> Start(std::shared_ptr<StreamOwner> owner,
                                               const StreamOptions& options,
                                               grpc::GenericCallbackServerContext* context);
  grpc::ServerGenericBidiReactor* reactor() { return this; }

 private:
  AcceptedStream(std::shared_ptr<StreamOwner> owner, const StreamOptions& options,
                 grpc::GenericCallbackServerContext* context);

  Remote DescribeRemote() const override;
  void BeginRead(grpc::ByteBuffer* to) override { StartRead(to); }
  void BeginWrite(const grpc::ByteBuffer* from) override { StartWrite(from); }
  void Cancel(const Status&) override { context_->TryCancel(); }
  void Release(const Status& why) override;

  void OnReadDone(bool ok) override { ReadEnded(ok); }
  void OnWriteDone(bool ok) override { WriteEnded(ok); }
  void OnCancel() override;
  void OnDone() override;

  grpc::GenericCallbackServerContext* const context_;
};

}  // namespace swarm::net

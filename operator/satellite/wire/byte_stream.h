// A two-way stream of messages over gRPC, as texts of bytes. Private to this folder.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"

namespace swarm::satellite {

/// Of a message, and of those that wait to be sent.
inline constexpr int kMessageBytesMax = 4 << 20;
inline constexpr std::size_t kQueuedBytesMax = std::size_t{16} << 20;

/// Thread-safe. Lives until on_done, even if its owner has let it go.
class ByteStream : public std::enable_shared_from_this<ByteStream> {
 public:
  struct Events {
    /// A message has come. The next one is read when `resume` is called, from any thread, or never.
    std::function<void(std::string message, std::function<void()> resume)> on_message;
    /// The stream has ended; no other event follows. Takes over the call's reference. Where this
    /// end has dialled, do not drop it here: with the last channel gRPC joins the threads on which
    /// it reacts.
    std::function<void(std::shared_ptr<ByteStream> stream, const Status& why)> on_done;
  };

  virtual ~ByteStream() = default;

  /// Begins to read.
  void Start(Events events);
  enum class WhenFull { kRefuse, kWait };
  /// Errors: kUnavailable (the stream has ended), kResourceExhausted (too much waits to be sent).
  Status Send(std::string message, WhenFull when_full = WhenFull::kRefuse);
  /// Ends the stream, and drops what waits to be sent. on_done follows.
  void Close(const Status& why);

 protected:
  virtual void BeginRead(grpc::ByteBuffer* to) = 0;
  virtual void BeginWrite(const grpc::ByteBuffer* from) = 0;
  /// A write is under way, and is to fail soon.
  virtual void Cancel() = 0;
  /// No write is under way, and none will begin: lets the call end. Called once.
  virtual void Release(const Status& why) = 0;

  // Reactions of gRPC.
  void ReadEnded(bool ok);
  void WriteEnded(bool ok);
  void CallEnded(const Status& why);

 private:
  void ReadOn();

  std::mutex mutex_;
  std::condition_variable room_;
  Events events_;
  std::shared_ptr<ByteStream> self_;      // until CallEnded
  std::deque<grpc::ByteBuffer> waiting_;  // guarded; its head is being written
  std::size_t waiting_bytes_ = 0;         // guarded
  bool writing_ = false;                  // guarded
  bool closed_ = false;                   // guarded
  Status why_;                            // guarded
  grpc::ByteBuffer read_;                 // of the reading reaction
};

/// A stream that this end has dialled.
class DialledByteStream final
    : public ByteStream,
      private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  /// Starts a call of `method` over the channel.
  static std::shared_ptr<ByteStream> Dial(std::shared_ptr<grpc::Channel> channel,
                                          const std::string& method, Events events);

 private:
  explicit DialledByteStream(std::shared_ptr<grpc::Channel> channel)
      : channel_(std::move(channel)), stub_(channel_) {}

  void BeginRead(grpc::ByteBuffer* to) override { StartRead(to); }
  void BeginWrite(const grpc::ByteBuffer* from) override { StartWrite(from); }
  void Cancel() override { context_.TryCancel(); }
  void Release(const Status& why) override;

  void OnReadDone(bool ok) override { ReadEnded(ok); }
  void OnWriteDone(bool ok) override { WriteEnded(ok); }
  void OnDone(const grpc::Status& status) override;

  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
};

/// A stream that the other end has dialled.
class AcceptedByteStream final : public ByteStream, public grpc::ServerGenericBidiReactor {
 public:
  explicit AcceptedByteStream(grpc::GenericCallbackServerContext* context) : context_(context) {}

 private:
  void BeginRead(grpc::ByteBuffer* to) override { StartRead(to); }
  void BeginWrite(const grpc::ByteBuffer* from) override { StartWrite(from); }
  void Cancel() override { context_->TryCancel(); }
  void Release(const Status& why) override;

  void OnReadDone(bool ok) override { ReadEnded(ok); }
  void OnWriteDone(bool ok) override { WriteEnded(ok); }
  void OnCancel() override { Close(Status()); }
  void OnDone() override;

  grpc::GenericCallbackServerContext* const context_;
};

}  // namespace swarm::satellite

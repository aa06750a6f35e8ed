// For tests: a gRPC client that calls an endpoint and sends any bytes.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <optional>
#include <string>

#include "worker/net/grpc/hello.h"
#include "worker/net/grpc/status.h"
#include "worker/net/grpc/stream.h"

namespace swarm::net {

/// One call, used from one thread; every operation waits for its end, a minute at the most.
class RawCaller {
 public:
  RawCaller(const std::string& address,
            const std::shared_ptr<grpc::ChannelCredentials>& credentials,
            const std::string& method = kExchangeMethod) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(address, credentials, arguments));
    call_ = stub_->PrepareCall(&context_, method, &queue_);
    call_->StartCall(this);
    Wait();
  }
  ~RawCaller() {
    context_.TryCancel();
    if (!finished_) (void)Finish();
    queue_.Shutdown();
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  bool Write(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    call_->Write(grpc::ByteBuffer(&slice, 1), this);
    return Wait();
  }
  bool WriteHello(const StreamHello& hello) { return Write(EncodeHello(hello)); }
  std::optional<std::string> Read() {
    grpc::ByteBuffer buffer;
    call_->Read(&buffer, this);
    grpc::Slice slice;
    if (!Wait() || !buffer.DumpToSingleSlice(&slice).ok()) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  /// How the other end ended the call.
  Status Finish() {
    grpc::Status status;
    call_->Finish(&status, this);
    Wait();
    finished_ = true;
    return FromGrpc(status);
  }
  /// The same, after reading all that comes before it.
  Status ReadToEnd() {
    while (Read()) {
    }
    return Finish();
  }

 private:
  bool Wait() {
    void* tag;
    bool ok = false;
    const auto deadline = std::chrono::system_clock::now() + std::chrono::minutes(1);
    const auto next = queue_.AsyncNext(&tag, &ok, deadline);
    SWARM_CHECK(next == grpc::CompletionQueue::GOT_EVENT, "no answer in a minute");
    return ok;
  }

  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool finished_ = false;
};

}  // namespace swarm::net

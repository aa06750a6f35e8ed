// A call at home with one question and one answer. For the rooms that know gRPC.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <functional>
#include <string>

#include "base/status.h"
#include "worker/enrol/service/messages.h"

namespace swarm::enrol {

/// Who has made the call.
Caller CallerOf(const grpc::GenericCallbackServerContext& context);

/// The encoded answer to an encoded question.
using Answer = std::function<Result<std::string>(const std::string& question)>;

/// Reads the question, which has at most kMessageBytesMax, asks `answer`, and ends the call with
/// what it returns. Deletes itself then. `answer` runs on a thread of gRPC.
grpc::ServerGenericBidiReactor* AnswerOnce(Answer answer);

/// Takes the encoded answer. Is called once, on any thread.
using Answered = std::function<void(Result<std::string> answer)>;
/// Returns without waiting for what would hold up a thread of gRPC, of which there are few.
using Ask = std::function<void(const std::string& question, Answered done)>;

/// As AnswerOnce, for an answer that may come later.
grpc::ServerGenericBidiReactor* AnswerLater(Ask ask);

}  // namespace swarm::enrol

// How machines enrol and renew (proto/swarmjob/v1/enrolment.proto) at a server that has other
// services, too: home's operator.
#pragma once

#include <functional>
#include <string>

#include "worker/enrol/service/messages.h"

namespace swarm::enrol {

/// Take the outcome of one call. Are called once, on any thread.
using Enrolled = std::function<void(Result<EnrolReply> reply)>;
using Refreshed = std::function<void(Result<RefreshReply> reply)>;

/// As Desk, but for its owner's calls. Called on threads of gRPC, several at a time; returns
/// without waiting for an API server.
class JoinDesk {
 public:
  virtual ~JoinDesk() = default;
  virtual void Enrol(const Caller& caller, const EnrolRequest& request, Enrolled done) = 0;
  virtual void Refresh(const Caller& caller, const std::string& request, Refreshed done) = 0;
};

/// Whether `method` is one of a JoinDesk.
bool IsJoinMethod(const std::string& method);
/// Gives `done` the encoded reply to an encoded request. Requires: IsJoinMethod.
void AnswerJoin(JoinDesk& desk, const std::string& method, const Caller& caller,
                const std::string& text, std::function<void(Result<std::string> answer)> done);

/// Encoded for the wire, and the other way. Errors: kInvalidArgument.
std::string ToText(const EnrolReply& reply);
std::string ToText(const RefreshReply& reply);
Result<EnrolRequest> ReadEnrolRequest(const std::string& text);
/// The request for the next certificate.
Result<std::string> ReadRefreshRequest(const std::string& text);

}  // namespace swarm::enrol

#include "worker/enrol/service/join.h"

#include <utility>

#include "swarmjob/v1/enrolment.pb.h"

namespace swarm::enrol {

namespace pb = ::swarmjob::v1;

namespace {

constexpr const char* kEnrolMethod = "/swarmjob.v1.Enrolment/Enrol";
constexpr const char* kRefreshMethod = "/swarmjob.v1.Enrolment/Refresh";

std::uint64_t WholeSeconds(Duration duration) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::seconds>(duration).count());
}

template <typename Reply>
std::function<void(Result<Reply>)> Encoded(std::function<void(Result<std::string>)> done) {
  return [done = std::move(done)](Result<Reply> reply) {
    done(reply.ok() ? Result<std::string>(ToText(*reply)) : reply.status());
  };
}

}  // namespace

std::string ToText(const EnrolReply& reply) {
  pb::EnrolReply answer;
  answer.set_worker(reply.worker);
  answer.set_certificate(reply.certificate);
  answer.set_validity_seconds(WholeSeconds(reply.validity));
  answer.set_job_uid(reply.job_uid);
  answer.set_job_name(reply.job_name);
  answer.set_trainer(reply.trainer);
  answer.set_seen_as(reply.seen_as);
  answer.set_authority(reply.authority);
  answer.set_home_certificate(reply.home_certificate);
  answer.set_trainer_gateway(reply.trainer_gateway);
  answer.set_job(reply.job);
  return answer.SerializeAsString();
}

std::string ToText(const RefreshReply& reply) {
  pb::RefreshReply answer;
  answer.set_certificate(reply.certificate);
  answer.set_validity_seconds(WholeSeconds(reply.validity));
  for (const std::string& worker : reply.revoked) answer.add_revoked(worker);
  answer.set_home_certificate(reply.home_certificate);
  return answer.SerializeAsString();
}

Result<EnrolRequest> ReadEnrolRequest(const std::string& text) {
  pb::EnrolRequest request;
  if (!request.ParseFromString(text)) return InvalidArgument("the request cannot be read");
  return EnrolRequest{request.token_id(), request.secret(), request.request()};
}

Result<std::string> ReadRefreshRequest(const std::string& text) {
  pb::RefreshRequest request;
  if (!request.ParseFromString(text)) return InvalidArgument("the request cannot be read");
  return request.request();
}

bool IsJoinMethod(const std::string& method) {
  return method == kEnrolMethod || method == kRefreshMethod;
}

void AnswerJoin(JoinDesk& desk, const std::string& method, const Caller& caller,
                const std::string& text, std::function<void(Result<std::string> answer)> done) {
  if (method == kEnrolMethod) {
    const auto request = ReadEnrolRequest(text);
    if (!request.ok()) return done(request.status());
    return desk.Enrol(caller, *request, Encoded<EnrolReply>(std::move(done)));
  }
  const auto request = ReadRefreshRequest(text);
  if (!request.ok()) return done(request.status());
  desk.Refresh(caller, *request, Encoded<RefreshReply>(std::move(done)));
}

}  // namespace swarm::enrol

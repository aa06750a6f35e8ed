#include "worker/enrol/service/prove.h"

#include <utility>

#include "swarmjob/v1/proof.pb.h"

namespace swarm::enrol {

namespace pb = ::swarmjob::v1;

namespace {

std::string ToText(const ProveReply& reply) {
  pb::ProveReply answer;
  answer.set_certificate(reply.certificate);
  answer.set_authority(reply.authority);
  answer.set_validity_seconds(static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::seconds>(reply.validity).count()));
  return answer.SerializeAsString();
}

}  // namespace

void AnswerProve(const Prove& prove, const Caller& caller, const std::string& text,
                 std::function<void(Result<std::string> answer)> done) {
  pb::ProveRequest request;
  if (!request.ParseFromString(text)) return done(InvalidArgument("the request cannot be read"));
  prove(
      caller,
      {request.token(), request.job_uid(), request.cluster(), request.worker(), request.request()},
      [done = std::move(done)](Result<ProveReply> reply) {
        done(reply.ok() ? Result<std::string>(ToText(*reply)) : reply.status());
      });
}

}  // namespace swarm::enrol

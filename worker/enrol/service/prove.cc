#include "worker/enrol/service/prove.h"

#include "swarmjob/v1/proof.pb.h"

namespace swarm::enrol {

namespace pb = ::swarmjob::v1;

Result<std::string> AnswerProve(const Prove& prove, const Caller& caller, const std::string& text) {
  pb::ProveRequest request;
  if (!request.ParseFromString(text)) return InvalidArgument("the request cannot be read");
  ASSIGN_OR_RETURN(const ProveReply reply,
                   prove(caller, {request.token(), request.job_uid(), request.cluster(),
                                  request.worker(), request.request()}));
  pb::ProveReply answer;
  answer.set_certificate(reply.certificate);
  answer.set_authority(reply.authority);
  answer.set_validity_seconds(static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::seconds>(reply.validity).count()));
  return answer.SerializeAsString();
}

}  // namespace swarm::enrol

#include "worker/enrol/service/client.h"

#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <future>
#include <utility>

#include "base/identity/trust.h"
#include "swarmjob/v1/enrolment.pb.h"
#include "swarmjob/v1/proof.pb.h"
#include "worker/enrol/service/bytes.h"
#include "worker/enrol/service/home_channel.h"
#include "worker/net/grpc/process.h"
#include "worker/net/grpc/status.h"

namespace swarm::enrol {
namespace {

namespace pb = ::swarmjob::v1;

/// Whether a name of home's may become a part of a file's name on this machine.
bool IsPlainName(const std::string& name) {
  return !name.empty() && name.size() <= 253 && name[0] != '.' &&
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.';
         });
}

}  // namespace

template <typename Reply, typename Request>
Result<Reply> Client::Call(const std::string& method, const Request& request) {
  net::PrepareProcess();
  const grpc::ByteBuffer sent = BytesOf(request.SerializeAsString());
  grpc::ByteBuffer received;
  const auto deadline =
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::system_clock::duration>(options_.limit);
  std::shared_ptr<HomeSeen> seen;
  const auto call = [&](const std::shared_ptr<HomeSeen>& notes) {
    grpc::GenericStub stub(MakeHomeChannel(
        {options_.address, options_.fingerprint, kMessageBytesMax}, identity_, notes));
    grpc::ClientContext context;
    context.set_deadline(deadline);
    std::promise<grpc::Status> ended;
    stub.UnaryCall(&context, "/swarmjob.v1." + method, grpc::StubOptions(), &sent, &received,
                   [&ended](grpc::Status status) { ended.set_value(std::move(status)); });
    return net::FromGrpc(ended.get_future().get());
  };
  const Status status = TryConnections(call, &seen);
  if (const Status refused = seen->Refused(); !refused.ok()) {
    return Status(refused.code(),
                  "the server at " + options_.address +
                      " is not the home of this job: " + refused.message() +
                      "; if another run has its place, ask for a token of that one");
  }
  if (std::string authority = seen->Authority(); !authority.empty()) {
    authority_ = std::move(authority);
  }
  if (!status.ok()) {
    const bool lost =
        status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kDeadlineExceeded;
    return lost ? status.WithContext("home at " + options_.address + " does not answer") : status;
  }
  Reply reply;
  if (!reply.ParseFromString(TextOf(received))) return DataLoss("home's answer cannot be read");
  return reply;
}

Result<EnrolReply> Client::Enrol(const EnrolRequest& request) {
  pb::EnrolRequest sent;
  sent.set_token_id(request.token_id);
  sent.set_secret(request.secret);
  sent.set_request(request.request);
  ASSIGN_OR_RETURN(const auto reply, Call<pb::EnrolReply>("Enrolment/Enrol", sent));
  const std::string& authority = reply.authority().empty() ? authority_ : reply.authority();
  RETURN_IF_ERROR(identity::CheckSigned(reply.certificate(), authority));
  if (!reply.home_certificate().empty()) {
    RETURN_IF_ERROR(identity::CheckSigned(reply.home_certificate(), authority_));
  }
  if (!IsPlainName(reply.worker()) || !IsPlainName(reply.job_name())) {
    return DataLoss("home's answer has a name that cannot be one of a folder");
  }
  job_authority_ = authority;
  return EnrolReply{.worker = reply.worker(),
                    .certificate = reply.certificate(),
                    .validity = std::chrono::seconds(reply.validity_seconds()),
                    .job_uid = reply.job_uid(),
                    .job_name = reply.job_name(),
                    .trainer = reply.trainer(),
                    .seen_as = reply.seen_as(),
                    .authority = reply.authority(),
                    .home_certificate = reply.home_certificate(),
                    .trainer_gateway = reply.trainer_gateway(),
                    .job = reply.job()};
}

Result<ProveReply> Client::Prove(const ProveRequest& request) {
  pb::ProveRequest sent;
  sent.set_token(request.token);
  sent.set_job_uid(request.job_uid);
  sent.set_cluster(request.cluster);
  sent.set_worker(request.worker);
  sent.set_request(request.request);
  ASSIGN_OR_RETURN(const auto reply, Call<pb::ProveReply>("Proofs/Prove", sent));
  RETURN_IF_ERROR(identity::CheckSigned(reply.certificate(), reply.authority()));
  return ProveReply{reply.certificate(), reply.authority(),
                    std::chrono::seconds(reply.validity_seconds())};
}

Result<RefreshReply> Client::Refresh(const std::string& request) {
  pb::RefreshRequest sent;
  sent.set_request(request);
  ASSIGN_OR_RETURN(const auto reply, Call<pb::RefreshReply>("Enrolment/Refresh", sent));
  if (!request.empty()) {
    RETURN_IF_ERROR(identity::CheckSigned(reply.certificate(),
                                          job_authority_.empty() ? authority_ : job_authority_));
  }
  if (!reply.home_certificate().empty()) {
    RETURN_IF_ERROR(identity::CheckSigned(reply.home_certificate(), authority_));
  }
  return RefreshReply{reply.certificate(),
                      std::chrono::seconds(reply.validity_seconds()),
                      {reply.revoked().begin(), reply.revoked().end()},
                      reply.home_certificate()};
}

Result<std::string> Client::CreateToken(const TokenTerms& terms) {
  pb::CreateTokenRequest sent;
  sent.set_lifetime_seconds(ToSeconds(terms.lifetime));
  sent.set_uses(terms.uses);
  ASSIGN_OR_RETURN(const auto reply, Call<pb::CreateTokenReply>("Enrolment/CreateToken", sent));
  return reply.token();
}

Result<std::vector<TokenStatus>> Client::ListTokens() {
  ASSIGN_OR_RETURN(const auto reply,
                   Call<pb::ListTokensReply>("Enrolment/ListTokens", pb::ListTokensRequest()));
  std::vector<TokenStatus> tokens;
  for (const pb::TokenStatus& token : reply.tokens()) {
    tokens.push_back({token.id(),
                      static_cast<TokenState>(token.state()),
                      token.uses_left(),
                      FromSeconds(token.seconds_left()),
                      {token.workers().begin(), token.workers().end()}});
  }
  return tokens;
}

Result<std::vector<std::string>> Client::Revoke(const std::string& name) {
  pb::RevokeRequest sent;
  sent.set_name(name);
  ASSIGN_OR_RETURN(const auto reply, Call<pb::RevokeReply>("Enrolment/Revoke", sent));
  return std::vector<std::string>(reply.workers().begin(), reply.workers().end());
}

}  // namespace swarm::enrol

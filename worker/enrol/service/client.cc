#include "worker/enrol/service/client.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <future>
#include <mutex>
#include <utility>

#include "base/identity/authority.h"
#include "base/identity/trust.h"
#include "swarmjob/v1/enrolment.pb.h"
#include "worker/enrol/service/bytes.h"
#include "worker/net/grpc/process.h"
#include "worker/net/grpc/status.h"

namespace swarm::enrol {
namespace {

namespace pb = ::swarmjob::v1;

/// What a verifier has found. Shared with gRPC's threads.
struct Verdict {
  std::mutex mutex;
  Status refused;         // guarded: why the server is not home
  std::string authority;  // guarded: empty: no handshake has come so far
};

/// Whether the server whose certificates are `chain` is the home of the job with this authority.
Result<std::string> FindHome(const std::string& chain, const std::string& fingerprint) {
  ASSIGN_OR_RETURN(std::string authority, identity::FindByFingerprint(chain, fingerprint));
  RETURN_IF_ERROR(identity::CheckSigned(chain, authority));
  ASSIGN_OR_RETURN(const auto facts, identity::ReadCertificate(chain, "the server's certificate"));
  // The authority is that of one job, so the job's UID need not be known: it is between the two
  // ends of the URI.
  const std::string before = identity::JobUri("");
  const std::string uri = facts.uris.size() == 1 ? facts.uris[0] : "";
  const std::string uid = uri.substr(std::min(before.size(), uri.size()));
  if (uri != identity::HomeUri(uid.substr(0, uid.find('/')))) {
    return Status(StatusCode::kUnauthenticated,
                  "the certificate does not name home, but another program of the job");
  }
  return authority;
}

class HomeVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  HomeVerifier(std::string fingerprint, std::shared_ptr<Verdict> verdict)
      : fingerprint_(std::move(fingerprint)), verdict_(std::move(verdict)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>, grpc::Status* sync_status) override {
    const grpc::string_ref chain = request->peer_cert_full_chain();
    const auto home = FindHome(std::string(chain.data(), chain.size()), fingerprint_);
    const std::lock_guard lock(verdict_->mutex);
    if (home.ok()) {
      verdict_->authority = *home;
    } else {
      verdict_->refused = home.status();
    }
    *sync_status = net::ToGrpc(home.status());
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::string fingerprint_;
  const std::shared_ptr<Verdict> verdict_;
};

std::shared_ptr<grpc::Channel> MakeChannel(const Client::Options& options,
                                           const std::optional<identity::KeyPair>& identity,
                                           const std::shared_ptr<Verdict>& verdict) {
  grpc::experimental::TlsChannelCredentialsOptions tls;
  if (identity) {
    tls.set_certificate_provider(
        std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
            std::vector<grpc::experimental::IdentityKeyCertPair>{
                {identity->key, identity->certificate}}));
    tls.watch_identity_key_cert_pairs();
  }
  // HomeVerifier does it: of the authority only the fingerprint is known before.
  tls.set_verify_server_certs(false);
  tls.set_check_call_host(false);
  tls.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<HomeVerifier>(options.fingerprint,
                                                                            verdict));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  // Else gRPC would name an address, which is none in TLS.
  arguments.SetSslTargetNameOverride("home.swarmjob.local");
  return grpc::CreateCustomChannel(options.address, grpc::experimental::TlsCredentials(tls),
                                   arguments);
}

}  // namespace

template <typename Reply, typename Request>
Result<Reply> Client::Call(const char* method, const Request& request) {
  net::PrepareProcess();
  const auto verdict = std::make_shared<Verdict>();
  grpc::GenericStub stub(MakeChannel(options_, identity_, verdict));
  grpc::ClientContext context;
  context.set_deadline(
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::system_clock::duration>(options_.limit));
  const grpc::ByteBuffer sent = ToBytes(request);
  grpc::ByteBuffer received;
  std::promise<grpc::Status> ended;
  stub.UnaryCall(&context, std::string("/swarmjob.v1.Enrolment/") + method, grpc::StubOptions(),
                 &sent, &received,
                 [&ended](grpc::Status status) { ended.set_value(std::move(status)); });
  const Status status = net::FromGrpc(ended.get_future().get());
  {
    const std::lock_guard lock(verdict->mutex);
    if (!verdict->refused.ok()) {
      return verdict->refused.WithContext("the server at " + options_.address +
                                          " is not the home of this job");
    }
    if (!verdict->authority.empty()) authority_ = verdict->authority;
  }
  if (!status.ok()) {
    const bool lost =
        status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kDeadlineExceeded;
    return lost ? status.WithContext("home at " + options_.address + " does not answer") : status;
  }
  Reply reply;
  if (!FromBytes(received, &reply)) return DataLoss("home's answer cannot be read");
  return reply;
}

Result<EnrolReply> Client::Enrol(const EnrolRequest& request) {
  pb::EnrolRequest sent;
  sent.set_token_id(request.token_id);
  sent.set_secret(request.secret);
  sent.set_request(request.request);
  ASSIGN_OR_RETURN(const auto reply, Call<pb::EnrolReply>("Enrol", sent));
  RETURN_IF_ERROR(identity::CheckSigned(reply.certificate(), authority_));
  return EnrolReply{
      reply.worker(),  reply.certificate(), std::chrono::seconds(reply.validity_seconds()),
      reply.job_uid(), reply.job_name(),    reply.trainer(),
      reply.seen_as()};
}

Result<RefreshReply> Client::Refresh(const std::string& request) {
  pb::RefreshRequest sent;
  sent.set_request(request);
  ASSIGN_OR_RETURN(const auto reply, Call<pb::RefreshReply>("Refresh", sent));
  if (!request.empty()) RETURN_IF_ERROR(identity::CheckSigned(reply.certificate(), authority_));
  return RefreshReply{reply.certificate(),
                      std::chrono::seconds(reply.validity_seconds()),
                      {reply.revoked().begin(), reply.revoked().end()}};
}

Result<std::string> Client::CreateToken(const TokenTerms& terms) {
  pb::CreateTokenRequest sent;
  sent.set_lifetime_seconds(ToSeconds(terms.lifetime));
  sent.set_uses(terms.uses);
  ASSIGN_OR_RETURN(const auto reply, Call<pb::CreateTokenReply>("CreateToken", sent));
  return reply.token();
}

Result<std::vector<TokenStatus>> Client::ListTokens() {
  ASSIGN_OR_RETURN(const auto reply,
                   Call<pb::ListTokensReply>("ListTokens", pb::ListTokensRequest()));
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
  ASSIGN_OR_RETURN(const auto reply, Call<pb::RevokeReply>("Revoke", sent));
  return std::vector<std::string>(reply.workers().begin(), reply.workers().end());
}

}  // namespace swarm::enrol

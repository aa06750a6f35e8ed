#include "worker/enrol/service/home_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <chrono>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "base/identity/authority.h"
#include "base/identity/trust.h"
#include "worker/net/grpc/status.h"

namespace swarm::enrol {
namespace {

constexpr int kConnectionsMax = 5;
constexpr std::chrono::milliseconds kBetweenConnections{100};
constexpr int kPingMilliseconds = 20000, kPongMilliseconds = 10000;

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
  HomeVerifier(std::string fingerprint, std::shared_ptr<HomeSeen> seen)
      : fingerprint_(std::move(fingerprint)), seen_(std::move(seen)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>, grpc::Status* sync_status) override {
    const grpc::string_ref chain = request->peer_cert_full_chain();
    const auto home = FindHome(std::string(chain.data(), chain.size()), fingerprint_);
    if (home.ok()) {
      seen_->Accept(*home);
    } else {
      seen_->Refuse(home.status());
    }
    *sync_status = net::ToGrpc(home.status());
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::string fingerprint_;
  const std::shared_ptr<HomeSeen> seen_;
};

}  // namespace

Status HomeSeen::Refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

bool HomeSeen::WasReached() const {
  const std::lock_guard lock(mutex_);
  return !refused_.ok() || !authority_.empty();
}

std::string HomeSeen::Authority() const {
  const std::lock_guard lock(mutex_);
  return authority_;
}

void HomeSeen::Refuse(const Status& why) {
  const std::lock_guard lock(mutex_);
  refused_ = why;
}

void HomeSeen::Accept(const std::string& authority) {
  const std::lock_guard lock(mutex_);
  authority_ = authority;
}

Status TryConnections(const std::function<Status(const std::shared_ptr<HomeSeen>& seen)>& call,
                      std::shared_ptr<HomeSeen>* seen) {
  for (int tries = 1;; ++tries) {
    *seen = std::make_shared<HomeSeen>();
    Status status = call(*seen);
    const bool reached = status.code() != StatusCode::kUnavailable || (*seen)->WasReached();
    if (reached || tries == kConnectionsMax) return status;
    std::this_thread::sleep_for(kBetweenConnections);
  }
}

std::shared_ptr<grpc::Channel> MakeHomeChannel(const HomeAddress& home,
                                               const std::optional<identity::KeyPair>& identity,
                                               std::shared_ptr<HomeSeen> seen) {
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
      grpc::experimental::ExternalCertificateVerifier::Create<HomeVerifier>(home.fingerprint,
                                                                            std::move(seen)));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetMaxReceiveMessageSize(home.message_bytes_max);
  // Notices a home that has vanished while a call waits for it.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMilliseconds);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPongMilliseconds);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Else gRPC would name an address, which is none in TLS.
  arguments.SetSslTargetNameOverride("home.swarmjob.local");
  return grpc::CreateCustomChannel(home.address, grpc::experimental::TlsCredentials(tls),
                                   arguments);
}

std::shared_ptr<grpc::ServerCredentials> MakeHomeCredentials(const std::string& authority,
                                                             const identity::KeyPair& identity) {
  auto provider = std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
      authority, std::vector<grpc::experimental::IdentityKeyCertPair>{
                     {identity.key, identity.certificate + authority}});
  grpc::experimental::TlsServerCredentialsOptions tls(provider);
  tls.watch_root_certs();
  tls.watch_identity_key_cert_pairs();
  tls.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(tls);
}

}  // namespace swarm::enrol

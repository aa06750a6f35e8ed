#include "worker/net/grpc/credentials.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>

#include "base/identity/authority.h"
#include "base/log.h"
#include "base/percent_encode.h"
#include "worker/net/grpc/certificate.h"
#include "worker/net/grpc/process.h"

namespace swarm::net {
namespace {

constexpr unsigned kReloadSeconds = 1;

/// Refuses, during the handshake, a peer that does not belong to the job or is not the one that was
/// called. It ignores the dialled host: addresses of gateways and pods are not in certificates.
class IdentityVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  /// `expected`: whole URIs, or the beginnings of some, which then end with '/'; at least one.
  explicit IdentityVerifier(std::vector<std::string> expected) : expected_(std::move(expected)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>, grpc::Status* sync_status) override {
    const auto uris = request->uri_names();
    const std::string uri = uris.size() == 1 ? std::string(uris[0].data(), uris[0].size())
                                             : std::to_string(uris.size()) + " URIs";
    const bool good = std::ranges::any_of(expected_, [&](const std::string& each) {
      return each.back() == '/' ? uri.starts_with(each) : uri == each;
    });
    *sync_status =
        good ? grpc::Status()
             : grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                            "the certificate names " + uri + ", not " + expected_.front());
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::vector<std::string> expected_;
};

using Provider = std::shared_ptr<grpc::experimental::CertificateProviderInterface>;

class TlsCredentials final : public Credentials {
 public:
  /// `files`: those that `provider` watches; null if it watches none.
  TlsCredentials(const GrpcOptions& options, std::unique_ptr<CheckedCertificates> files,
                 Provider provider)
      : job_(options.job), files_(std::move(files)), provider_(std::move(provider)) {}

  std::shared_ptr<grpc::ServerCredentials> ForListening() const override {
    grpc::experimental::TlsServerCredentialsOptions options(provider_);
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    SetCommon({JobUri(job_)}, &options);
    return grpc::experimental::TlsServerCredentials(options);
  }

  std::shared_ptr<grpc::ChannelCredentials> ForDialling(const WorkerId& peer) const override {
    grpc::experimental::TlsChannelCredentialsOptions options;
    options.set_certificate_provider(provider_);
    options.set_verify_server_certs(true);
    SetCommon(IdentityUris(job_, peer), &options);
    return grpc::experimental::TlsCredentials(options);
  }

  void Refresh() override {
    if (!files_) return;
    const Status status = files_->Refresh();
    if (!status.ok() && last_refresh_.ok()) {
      LOG_WARN("the certificate in use stays: {}", status.ToString());
    }
    last_refresh_ = status;
  }

  Status AuthorizeId(const std::vector<std::string>& uris, const WorkerId& id) const override {
    const std::vector<std::string> its = IdentityUris(job_, id);
    if (uris.size() == 1 && std::ranges::find(its, uris[0]) != its.end()) return Status();
    return PermissionDenied("calls itself " + id.value + ", but its certificate names " +
                            (uris.size() == 1 ? uris[0] : std::to_string(uris.size()) + " URIs"));
  }

 private:
  static void SetCommon(const std::vector<std::string>& expected,
                        grpc::experimental::TlsCredentialsOptions* options) {
    options->watch_root_certs();
    options->watch_identity_key_cert_pairs();
    options->set_check_call_host(false);
    options->set_certificate_verifier(
        grpc::experimental::ExternalCertificateVerifier::Create<IdentityVerifier>(expected));
  }

  const std::string job_;
  const std::unique_ptr<CheckedCertificates> files_;
  Status last_refresh_;
  const Provider provider_;
};

class PlaintextCredentials final : public Credentials {
 public:
  std::shared_ptr<grpc::ServerCredentials> ForListening() const override {
    return grpc::InsecureServerCredentials();
  }
  std::shared_ptr<grpc::ChannelCredentials> ForDialling(const WorkerId&) const override {
    return grpc::InsecureChannelCredentials();
  }
  void Refresh() override {}
  Status AuthorizeId(const std::vector<std::string>&, const WorkerId&) const override {
    return Status();
  }
};

}  // namespace

std::string JobUri(const std::string& job) { return identity::JobUri(PercentEncode(job)) + "/"; }

std::string IdentityUri(const std::string& job, const WorkerId& id) {
  const std::string uid = PercentEncode(job);
  const auto is = [&](const std::string& role) {
    return id.value == role || id.value.starts_with(role + "/");
  };
  if (id.value == "trainer") return identity::TrainerUri(uid);
  if (is("observer")) return identity::ObserverUri(uid);
  if (is("operator")) return identity::OperatorUri(uid);
  return identity::WorkerUri(uid, PercentEncode(id.value));
}

std::vector<std::string> IdentityUris(const std::string& job, const WorkerId& id) {
  const std::string uid = PercentEncode(job);
  std::vector<std::string> uris{IdentityUri(job, id)};
  const std::size_t dash = id.value.rfind('-');
  if (uris[0] != identity::WorkerUri(uid, PercentEncode(id.value)) || dash == id.value.npos ||
      dash == 0) {
    return uris;
  }
  const std::string index = id.value.substr(dash + 1);
  const bool is_index = !index.empty() && index.size() <= 3 &&
                        index.find_first_not_of("0123456789") == index.npos &&
                        (index == "0" || index[0] != '0');
  if (is_index) uris.push_back(identity::WorkerUri(uid, PercentEncode(id.value.substr(0, dash))));
  return uris;
}

std::vector<std::string> UrisOf(const grpc::AuthContext* context) {
  std::vector<std::string> uris;
  if (context == nullptr) return uris;
  for (const grpc::string_ref& uri : context->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    uris.emplace_back(uri.data(), uri.size());
  }
  return uris;
}

namespace {

Result<std::unique_ptr<Credentials>> FromFiles(const GrpcOptions& options,
                                               const std::vector<std::string>& uris) {
  auto files = std::make_unique<CheckedCertificates>(*options.tls, uris);
  RETURN_IF_ERROR(files->Refresh());
  auto provider = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      files->identity_path(), files->identity_path(), files->ca_path(), kReloadSeconds);
  return std::unique_ptr<Credentials>(
      std::make_unique<TlsCredentials>(options, std::move(files), std::move(provider)));
}

Result<std::unique_ptr<Credentials>> FromMemory(const GrpcOptions& options,
                                                const std::vector<std::string>& uris) {
  const TlsPem& pem = *options.tls_pem;
  RETURN_IF_ERROR(CheckIdentity({pem.certificate, pem.key}, "the certificate", "the key", uris));
  RETURN_IF_ERROR(identity::ReadCertificate(pem.ca, "the authority").status());
  auto provider = std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
      pem.ca, std::vector<grpc::experimental::IdentityKeyCertPair>{{pem.key, pem.certificate}});
  return std::unique_ptr<Credentials>(
      std::make_unique<TlsCredentials>(options, /*files=*/nullptr, std::move(provider)));
}

}  // namespace

Result<std::unique_ptr<Credentials>> Credentials::Create(const GrpcOptions& options) {
  if (options.plaintext + options.tls.has_value() + options.tls_pem.has_value() != 1) {
    return InvalidArgument("give the files for TLS, or ask for plaintext, and not both");
  }
  if (options.plaintext) {
    return std::unique_ptr<Credentials>(std::make_unique<PlaintextCredentials>());
  }
  PrepareProcess();
  const std::vector<std::string> uris = IdentityUris(options.job, options.self);
  return options.tls ? FromFiles(options, uris) : FromMemory(options, uris);
}

}  // namespace swarm::net

#include "ctl/enrol/run_home.h"

#include <chrono>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files.h"
#include "base/identity/trust.h"
#include "base/short_time.h"
#include "ctl/enrol/listed.h"
#include "ctl/enrol/local_address.h"
#include "worker/enrol/register.h"
#include "worker/enrol/service/server.h"
#include "worker/enrol/token.h"

namespace swarm::ctl {
namespace {

constexpr int kTokenIdBytes = 4;  // a name for people
constexpr int kSecretBytes = 16;

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class RunHome final : public Home, public enrol::Desk {
 public:
  RunHome(HomeOptions options, const identity::JobAuthority& authority, std::string fingerprint)
      : options_(std::move(options)),
        authority_(authority),
        fingerprint_(std::move(fingerprint)),
        events_file_(options_.events_file, std::ios::app) {}

  Status Open() {
    if (!events_file_) return Unavailable("cannot write " + options_.events_file.string());
    RETURN_IF_ERROR(WriteFile(options_.revoked_file, "", 0600));
    ASSIGN_OR_RETURN(const identity::KeyPair pair, authority_.IssueHome());
    ASSIGN_OR_RETURN(
        auto server,
        enrol::Server::Start({options_.listen, authority_.pair().certificate, pair}, this));
    address_ = server->address();
    RETURN_IF_ERROR(WriteFile(options_.address_file, address_ + "\n" + fingerprint_ + "\n", 0600));
    server_ = std::move(server);
    return Status();
  }

  // Home, on the thread of the run
  Result<std::string> CreateToken() override { return MakeToken({}); }
  std::vector<std::string> TakeEvents() override {
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }

  // enrol::Desk, on gRPC's threads
  Result<enrol::EnrolReply> Enrol(const enrol::Caller& caller,
                                  const enrol::EnrolRequest& request) override {
    const std::lock_guard lock(mutex_);
    const auto worker = register_.Enrol(
        {request.token_id, identity::Sha256(request.secret), SourceOf(caller.address)},
        Clock::now());
    if (!worker.ok()) {
      // Whoever has to wait is not told about again: events must not fill the disk.
      if (worker.status().code() != StatusCode::kResourceExhausted) {
        Note("JoinRefused",
             "a machine at " + caller.address + " may not join: " + worker.status().message());
      }
      return worker.status();
    }
    ASSIGN_OR_RETURN(const std::string certificate, Sign(request.request, *worker));
    Note("WorkerEnrolled",
         *worker + " was enrolled from " + caller.address + " with the token " + request.token_id);
    return enrol::EnrolReply{.worker = *worker,
                             .certificate = certificate,
                             .validity = options_.validity,
                             .job_uid = options_.job_uid,
                             .job_name = options_.job_name,
                             .trainer = options_.trainer,
                             .seen_as = caller.address,
                             .job = options_.job};
  }

  Result<enrol::RefreshReply> Refresh(const enrol::Caller& caller,
                                      const std::string& request) override {
    ASSIGN_OR_RETURN(const std::string worker, WorkerOf(caller));
    const std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(register_.MayRenew(worker));
    enrol::RefreshReply reply{.validity = options_.validity, .revoked = register_.revoked()};
    if (request.empty()) return reply;
    ASSIGN_OR_RETURN(reply.certificate, Sign(request, worker));
    Note("CertificateRenewed", worker + " has the next certificate");
    return reply;
  }

  Result<std::string> CreateToken(const enrol::Caller& caller,
                                  const enrol::TokenTerms& terms) override {
    RETURN_IF_ERROR(CheckOwner(caller));
    return MakeToken(terms);
  }

  Result<std::vector<enrol::TokenStatus>> ListTokens(const enrol::Caller& caller) override {
    RETURN_IF_ERROR(CheckOwner(caller));
    const std::lock_guard lock(mutex_);
    return register_.List(Clock::now());
  }

  Result<std::vector<std::string>> Revoke(const enrol::Caller& caller,
                                          const std::string& name) override {
    RETURN_IF_ERROR(CheckOwner(caller));
    const std::lock_guard lock(mutex_);
    ASSIGN_OR_RETURN(const std::vector<std::string> workers, register_.Revoke(name));
    std::string lines;
    for (const std::string& worker : register_.revoked()) lines += worker + "\n";
    RETURN_IF_ERROR(WriteFile(options_.revoked_file, lines, 0600));
    Note("Revoked", name + " was revoked; " +
                        (workers.empty() ? "no worker is" : Listed(workers) + " must be") +
                        " out with it");
    return workers;
  }

 private:
  Result<std::string> MakeToken(const enrol::TokenTerms& terms) {
    ASSIGN_OR_RETURN(const std::string id, identity::MakeSecret(kTokenIdBytes));
    ASSIGN_OR_RETURN(const std::string secret, identity::MakeSecret(kSecretBytes));
    const std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(register_.Create(id, identity::Sha256(secret), terms, Clock::now()));
    Note("TokenCreated", "the token " + id + " lets " + std::to_string(terms.uses) +
                             (terms.uses == 1 ? " machine" : " machines") + " join for " +
                             ShortTime(ToSeconds(terms.lifetime)));
    return enrol::ToText({address_, fingerprint_, id, secret});
  }

  Result<std::string> Sign(const std::string& request, const std::string& worker) const {
    return authority_.Sign(request, worker, identity::WorkerUri(options_.job_uid, worker),
                           std::chrono::duration_cast<std::chrono::seconds>(options_.validity));
  }

  /// The worker that calls, by its certificate.
  Result<std::string> WorkerOf(const enrol::Caller& caller) const {
    const std::string prefix = identity::WorkerUri(options_.job_uid, "");
    if (caller.uris.size() == 1 && caller.uris[0].starts_with(prefix)) {
      return caller.uris[0].substr(prefix.size());
    }
    return PermissionDenied("only a worker gets the next certificate of a worker; the caller is " +
                            Describe(caller));
  }

  Status CheckOwner(const enrol::Caller& caller) const {
    if (caller.uris == std::vector{identity::OperatorUri(options_.job_uid)}) return Status();
    return PermissionDenied("only the operator of the job decides about tokens; the caller is " +
                            Describe(caller));
  }

  static std::string Describe(const enrol::Caller& caller) {
    return caller.uris.empty() ? "nobody: it has no certificate" : Listed(caller.uris);
  }

  /// Under `mutex_`.
  void Note(const std::string& kind, const std::string& text) {
    const nlohmann::json event{{"time", UnixSeconds()}, {"kind", kind}, {"text", text}};
    events_file_ << event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                 << std::endl;
    events_.push_back(text);
  }

  const HomeOptions options_;
  const identity::JobAuthority& authority_;
  const std::string fingerprint_;
  std::string address_;
  std::mutex mutex_;
  enrol::Register register_;         // guarded
  std::ofstream events_file_;        // guarded
  std::vector<std::string> events_;  // guarded: not taken yet
  std::unique_ptr<enrol::Server> server_;
};

}  // namespace

Result<std::unique_ptr<Home>> OpenRunHome(const HomeOptions& options,
                                          const identity::JobAuthority& authority) {
  ASSIGN_OR_RETURN(std::string fingerprint,
                   identity::Fingerprint(authority.pair().certificate, "the authority"));
  auto home = std::make_unique<RunHome>(options, authority, std::move(fingerprint));
  RETURN_IF_ERROR(home->Open());
  return std::unique_ptr<Home>(std::move(home));
}

}  // namespace swarm::ctl

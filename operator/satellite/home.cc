#include "operator/satellite/home.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/identity/trust.h"
#include "base/log.h"
#include "operator/machines/admission.h"
#include "operator/names/names.h"
#include "operator/satellite/gateway.h"

namespace swarm::satellite {
namespace {

using nlohmann::json;

/// A satellite may be without home for half of this.
constexpr std::chrono::seconds kValidity = identity::kLeafValidity;
constexpr std::size_t kTriesPerSecond = 5;
/// The satellites of an earlier leader dial the next one within this time.
constexpr std::chrono::seconds kComing{60};

Result<identity::JobAuthority> ReadOrMakeAuthority(kube::Client& client,
                                                   const kube::ObjectName& name) {
  auto secret = client.Get(kube::resources::Secrets(), name);
  if (secret.status().code() == StatusCode::kNotFound) {
    ASSIGN_OR_RETURN(const std::string uid, identity::MakeJobUid());
    ASSIGN_OR_RETURN(identity::JobAuthority made, identity::JobAuthority::Create(uid));
    const json wanted = {{"apiVersion", "v1"},
                         {"kind", "Secret"},
                         {"metadata", {{"name", name.name}, {"namespace", name.ns}}},
                         {"type", "Opaque"},
                         {"stringData",
                          {{kAuthorityCertificate, made.pair().certificate},
                           {kAuthorityKey, made.pair().key},
                           {kAuthorityUid, uid},
                           {kAccount, ToText(Account())}}}};
    const auto created = client.Create(kube::resources::Secrets(), wanted);
    if (created.ok()) return made;
    if (created.status().code() != StatusCode::kAlreadyExists) return created.status();
    secret = client.Get(kube::resources::Secrets(), name);  // another operator was first
  }
  RETURN_IF_ERROR(secret.status());
  auto loaded = identity::JobAuthority::Load(kube::SecretText(**secret, kAuthorityUid),
                                             {kube::SecretText(**secret, kAuthorityCertificate),
                                              kube::SecretText(**secret, kAuthorityKey)});
  if (loaded.ok()) return loaded;
  return FailedPrecondition("Secret " + name.ToString() + " contains no authority (" +
                            loaded.status().message() +
                            "); delete it to get a new one, and enrol the satellites again");
}

/// What the identities of all machines that call this home have in common.
std::string MachinesPrefix(const std::string& home_uid) {
  const std::string nobody = identity::MachineUri(home_uid, "", "");
  return nobody.substr(0, nobody.size() - 1);
}

/// What the one identity in the caller's certificate has behind the prefix; empty: nothing, or it
/// is another one's.
std::string NamedBehind(const std::string& prefix, const Caller& caller) {
  const bool has = caller.uris.size() == 1 && caller.uris[0].starts_with(prefix);
  return has ? caller.uris[0].substr(prefix.size()) : "";
}

Status Revoked(const std::string& cluster) {
  return PermissionDenied("the satellite of cluster " + cluster + " was revoked");
}

}  // namespace

Result<std::unique_ptr<Home>> Home::Open(const Options& options, kube::Client& client,
                                         kube::Timing& timing, ClusterCame on_cluster) {
  ASSIGN_OR_RETURN(identity::JobAuthority authority, ReadOrMakeAuthority(client, options.secret));
  ASSIGN_OR_RETURN(const identity::KeyPair pair, authority.IssueHome());
  ASSIGN_OR_RETURN(std::string fingerprint,
                   identity::Fingerprint(authority.pair().certificate, kAuthorityCertificate));
  std::unique_ptr<Home> home(new Home(options, client, timing, std::move(authority),
                                      std::move(fingerprint), std::move(on_cluster)));
  if (const Status published = home->Publish(); !published.ok()) {
    LOG_WARN("who makes tokens for machines needs the Secret {} therefore: {}",
             options.secret.ToString(), published.ToString());
  }
  ASSIGN_OR_RETURN(home->door_,
                   HomeDoor::Start({options.listen, home->authority_.pair().certificate, pair,
                                    options.leader_term, options.prove,
                                    options.machines == nullptr ? nullptr : home.get()},
                                   home.get()));
  LOG_INFO("satellites are expected at {}", home->address());
  return home;
}

Status Home::AdmitTry() {
  const std::lock_guard lock(mutex_);
  const Timepoint now = timing_.Now();
  while (!tries_.empty() && now - tries_.front() >= std::chrono::seconds(1)) tries_.pop_front();
  if (tries_.size() >= kTriesPerSecond) {
    return ResourceExhausted("too many satellites try to enrol at once; try again later");
  }
  tries_.push_back(now);
  return Status();
}

Result<EnrolReply> Home::Enrol(const Caller& caller, const EnrolRequest& request) {
  RETURN_IF_ERROR(AdmitTry());
  std::string cluster, seat;
  const Status used = ChangeAccount(client_, secret_, [&](Account* account) {
    ASSIGN_OR_RETURN(cluster, UseToken(request.token_id, identity::Sha256(request.secret),
                                       timing_.WallNow(), account));
    seat = SeatOf(*account, cluster);
    return Status();
  });
  if (!used.ok()) {
    LOG_WARN("a satellite at {} may not come: {}", caller.address, used.ToString());
    return used;
  }
  LOG_INFO("the satellite of cluster {} was enrolled from {} with the token {}", cluster,
           caller.address, request.token_id);
  return Sign(seat, request.request);
}

void Home::Enrol(const Caller& caller, const EnrolRequest& request, enrol::Enrolled done) {
  if (const Status may = AdmitTry(); !may.ok()) return done(may);
  machines_->Enrol(caller, request,
                   [this, asked = request.request, done](Result<enrol::EnrolReply> reply) {
                     if (!reply.ok()) return done(std::move(reply));
                     auto certificate = SignFor({reply->job_uid, reply->worker}, asked);
                     if (!certificate.ok()) return done(certificate.status());
                     reply->home_certificate = *std::move(certificate);
                     done(std::move(reply));
                   });
}

void Home::Refresh(const Caller& caller, const std::string& request, enrol::Refreshed done) {
  // "JOB-UID/WORKER".
  const std::string named = NamedBehind(MachinesPrefix(authority_.job_uid()), caller);
  const std::size_t between = named.find('/');
  if (between == named.npos) {
    return done(PermissionDenied("the caller has no certificate of a machine"));
  }
  const machines::Seat seat{named.substr(0, between), named.substr(between + 1)};
  machines_->Refresh(seat, request, [this, seat, request, done](Result<enrol::RefreshReply> reply) {
    if (!reply.ok() || request.empty()) return done(std::move(reply));
    auto certificate = SignFor(seat, request);
    if (!certificate.ok()) return done(certificate.status());
    reply->home_certificate = *std::move(certificate);
    done(std::move(reply));
  });
}

Result<std::string> Home::SignFor(const machines::Seat& seat, const std::string& request) const {
  return authority_.Sign(request, seat.worker,
                         identity::MachineUri(authority_.job_uid(), seat.job_uid, seat.worker),
                         machines::kCertificateValidity);
}

Status Home::Publish() {
  const json wanted = {{"apiVersion", "v1"},
                       {"kind", "ConfigMap"},
                       {"metadata", {{"name", kHomeConfigMap}, {"namespace", secret_.ns}}},
                       {"data", {{kAuthorityCertificate, authority_.pair().certificate}}}};
  return client_.Apply(kube::resources::ConfigMaps(), wanted).status();
}

Result<EnrolReply> Home::Renew(const Caller& caller, const std::string& request) {
  RETURN_IF_ERROR(ClusterOf(caller).status());
  return Sign(*SeatNamedBy(caller), request);
}

Result<EnrolReply> Home::Sign(const std::string& seat, const std::string& request) const {
  const std::string cluster = seat.substr(0, seat.find('/'));
  ASSIGN_OR_RETURN(std::string certificate,
                   authority_.Sign(request, cluster,
                                   identity::SatelliteUri(authority_.job_uid(), seat), kValidity));
  return EnrolReply{cluster, std::move(certificate), kValidity};
}

Result<std::string> Home::SeatNamedBy(const Caller& caller) const {
  std::string seat = NamedBehind(identity::SatelliteUri(authority_.job_uid(), ""), caller);
  if (!seat.empty()) return seat;
  return PermissionDenied("the caller has no certificate of a satellite");
}

Result<std::string> Home::ClusterOf(const Caller& caller) {
  ASSIGN_OR_RETURN(const std::string seat, SeatNamedBy(caller));
  ASSIGN_OR_RETURN(const Account account, ReadAccount(client_, secret_));
  return ClusterAt(seat, account);
}

std::optional<enrol::ProofPlace> Home::ProofPlaceOf(const std::string& cluster) const {
  const std::string home =
      cluster == names::kHomeCluster ? proof_home_ : door_->ProofHomeOf(cluster);
  if (home.empty()) return std::nullopt;
  return enrol::ProofPlace{home, fingerprint_, cluster, ""};
}

std::map<std::string, std::string> Home::Connected() const {
  std::map<std::string, std::string> connected = door_->Connected();
  for (auto& [cluster, gateway] : connected) {
    if (!IsGatewayAddress(gateway)) gateway.clear();  // no pod could begin with it
  }
  return connected;
}

Status Home::Tend(const std::set<std::string>& job_uids) {
  door_->TellJobs(job_uids);
  ASSIGN_OR_RETURN(const Account account, ReadAccount(client_, secret_));
  for (const std::string& cluster : account.revoked) door_->Close(cluster, Revoked(cluster));
  const std::map<std::string, std::string> connected = Connected();
  for (const auto& [cluster, gateway] : connected) seen_.insert(cluster);
  const auto note = [&](Account* noted) {
    NoteConnections(connected, seen_, timing_.Now() - opened_ >= kComing, timing_.WallNow(), noted);
    return Status();
  };
  Account noted = account;
  (void)note(&noted);
  return noted == account ? Status() : ChangeAccount(client_, secret_, note);
}

}  // namespace swarm::satellite

#include "operator/satellite/satellite.h"

#include <pthread.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/identity/request.h"
#include "base/log.h"
#include "operator/names/names.h"
#include "operator/satellite/account_secret.h"
#include "operator/satellite/gate.h"
#include "operator/satellite/gateway.h"
#include "operator/satellite/wire/guest.h"
#include "worker/enrol/token.h"

namespace swarm::satellite {
namespace {

using nlohmann::json;

constexpr Duration kSweepPeriod = std::chrono::seconds(10);
/// How often the satellite asks whether its gateway has another address.
constexpr Duration kGatewayPeriod = std::chrono::seconds(10);
/// Pods are counted at each of so many sweeps: a list of them costs the API server more than one of
/// outposts.
constexpr int kSweepsPerCount = 6;
/// The least time between two tries for the next certificate over a connection that stays.
constexpr Duration kRenewalPause = std::chrono::hours(1);
constexpr const char* kCertificate = "tls.crt";
constexpr const char* kKey = "tls.key";
constexpr const char* kHomeAddress = "home";
constexpr const char* kFingerprint = "fingerprint";
constexpr const char* kCluster = "cluster";

/// What the Secret has.
struct Membership {
  HomeAddress home;
  identity::KeyPair pair;
  std::string cluster;
};

bool IsFinal(const Status& status) {
  return status.code() == StatusCode::kUnauthenticated ||
         status.code() == StatusCode::kPermissionDenied ||
         status.code() == StatusCode::kInvalidArgument ||
         status.code() == StatusCode::kFailedPrecondition;
}

class Satellite {
 public:
  Satellite(const SatelliteOptions& options, const OwnCluster& own, kube::Timing& timing,
            SatelliteMetrics* metrics)
      : options_(options),
        own_(own),
        timing_(timing),
        metrics_(metrics),
        gateway_(options.gateway, own.client),
        sweep_(options.sweep, timing.Now()) {}

  Status Run(std::stop_token stop) {
    const std::jthread sweeper([this](std::stop_token end) {
      pthread_setname_np(pthread_self(), "sweep");
      for (int sweeps = 0; timing_.Sleep(kSweepPeriod, end); ++sweeps) {
        SweepOnce();
        if (sweeps % kSweepsPerCount == 0) CountPods();
      }
    });
    kube::Backoff pauses({});
    Status failed;
    while (!stop.stop_requested()) {
      const Timepoint began = timing_.Now();
      failed = Serve(stop);
      if (stop.stop_requested()) break;
      if (IsFinal(failed)) return failed;
      if (timing_.Now() - began > std::chrono::minutes(1)) pauses.Reset();
      LOG_WARN("{}; trying again", failed.ToString());
      timing_.Sleep(pauses.Next(timing_.Uniform()), stop);
    }
    return Status();
  }

 private:
  Status Serve(std::stop_token stop) {
    ASSIGN_OR_RETURN(Membership member, Join());
    ASSIGN_OR_RETURN(const WallTime renew_at, RenewalOf(member.pair));
    TellCertificate(member.pair);
    if (timing_.WallNow() >= renew_at) {
      const Status renewed = RenewNow(&member);
      // A certificate that is still good serves meanwhile.
      if (IsFinal(renewed)) return renewed;
      if (!renewed.ok()) LOG_WARN("no new certificate: {}", renewed.ToString());
      TellCertificate(member.pair);
    }
    LOG_INFO("serving home at {} as cluster {}", member.home.address, member.cluster);
    GuestOptions guest;
    guest.home = member.home;
    guest.identity = member.pair;
    guest.transport = own_.transport;
    guest.credentials = own_.credentials;
    if (options_.pods_prove) {
      guest.proof_home = options_.proof_home.empty() ? member.home.address : options_.proof_home;
    }
    gateway_.Look();
    guest.gateway = gateway_.address();
    guest.check = [this](const kube::HttpRequest& request) {
      Status allowed = CheckRequest(request, options_.namespaces);
      if (!allowed.ok()) metrics_->Refused();
      return allowed;
    };
    guest.on_welcome = [this](std::uint64_t term) {
      Status followed = Follow(term);
      metrics_->Connected(followed.ok());
      return followed;
    };
    guest.on_jobs = [this](const std::set<std::string>& uids) {
      const std::lock_guard lock(mutex_);
      sweep_.Hear(uids, timing_.Now());
    };
    const Status ended = ServeWhileTrue(guest, member.pair, stop);
    metrics_->Connected(false);
    return ended;
  }

  /// Serves until the certificate is to be renewed: a connection may outlast it, and no other one
  /// could be made then. Or until what home was told of the gateway is not so any more.
  Status ServeWhileTrue(const GuestOptions& guest, const identity::KeyPair& pair,
                        const std::stop_token& stop) {
    ASSIGN_OR_RETURN(const WallTime renew_at, RenewalOf(pair));
    const Duration left = std::max<Duration>(renew_at - timing_.WallNow(), kRenewalPause);
    std::stop_source ends;
    const std::stop_callback passes_on(stop, [&] { ends.request_stop(); });
    const std::jthread renewal([&](std::stop_token over) {
      pthread_setname_np(pthread_self(), "renewal");
      if (timing_.Sleep(left, over)) ends.request_stop();
    });
    const std::jthread looks([&](std::stop_token over) {
      pthread_setname_np(pthread_self(), "gateway");
      while (gateway_.exists() && timing_.Sleep(kGatewayPeriod, over)) {
        if (gateway_.Look()) ends.request_stop();
      }
    });
    Status ended = ServeHome(guest, ends.get_token());
    const bool in_order = ends.stop_requested() && !stop.stop_requested();
    return in_order
               ? Unavailable("the certificate or what home knows of the gateway is to be renewed")
               : ended;
  }

  void TellCertificate(const identity::KeyPair& pair) {
    const auto facts = identity::ReadCertificate(pair.certificate, kCertificate);
    if (facts.ok()) metrics_->HasCertificateUntil(facts->not_after);
  }

  /// From the Secret, or by the token.
  Result<Membership> Join() {
    const auto secret = own_.client.Get(kube::resources::Secrets(), options_.secret);
    if (secret.status().code() == StatusCode::kNotFound) return EnrolAtHome();
    RETURN_IF_ERROR(secret.status());
    Membership member{
        {kube::SecretText(**secret, kHomeAddress), kube::SecretText(**secret, kFingerprint)},
        {kube::SecretText(**secret, kCertificate), kube::SecretText(**secret, kKey)},
        kube::SecretText(**secret, kCluster)};
    const Status pair = identity::CheckPair(member.pair, kCertificate, kKey);
    if (pair.ok()) return member;
    return FailedPrecondition("Secret " + options_.secret.ToString() + " has no identity (" +
                              pair.message() + "); delete it, and give the satellite a new token");
  }

  Result<Membership> EnrolAtHome() {
    ASSIGN_OR_RETURN(const enrol::JoinToken token, enrol::ParseJoinToken(options_.token));
    ASSIGN_OR_RETURN(const identity::KeyAndRequest asked, identity::MakeRequest("satellite"));
    const HomeAddress home{token.address, token.fingerprint};
    ASSIGN_OR_RETURN(const EnrolReply reply, Enrol(home, {token.id, token.secret, asked.request}));
    Membership member{home, {reply.certificate, asked.key}, reply.cluster};
    // The token is used up: without the Secret, the satellite would need another one.
    const json secret = {
        {"apiVersion", "v1"},
        {"kind", "Secret"},
        {"metadata", {{"name", options_.secret.name}, {"namespace", options_.secret.ns}}},
        {"type", "kubernetes.io/tls"},
        {"stringData", ContentOf(member)}};
    RETURN_IF_ERROR(own_.client.Create(kube::resources::Secrets(), secret).status());
    LOG_INFO("enrolled at home as cluster {}", member.cluster);
    return member;
  }

  Status RenewNow(Membership* member) {
    ASSIGN_OR_RETURN(const identity::KeyAndRequest asked, identity::MakeRequest("satellite"));
    ASSIGN_OR_RETURN(const EnrolReply reply, Renew(member->home, member->pair, asked.request));
    member->pair = {reply.certificate, asked.key};
    return own_.client
        .Patch(kube::resources::Secrets(), options_.secret, kube::PatchType::kMerge,
               {{"stringData", ContentOf(*member)}})
        .status();
  }

  static json ContentOf(const Membership& member) {
    return {{kCertificate, member.pair.certificate},
            {kKey, member.pair.key},
            {kHomeAddress, member.home.address},
            {kFingerprint, member.home.fingerprint},
            {kCluster, member.cluster}};
  }

  static Result<WallTime> RenewalOf(const identity::KeyPair& pair) {
    ASSIGN_OR_RETURN(const identity::CertificateFacts facts,
                     identity::ReadCertificate(pair.certificate, kCertificate));
    return facts.not_before + (facts.not_after - facts.not_before) / 2;
  }

  /// An earlier leader of home may not know yet that it is none any more.
  Status Follow(std::uint64_t term) {
    const std::lock_guard lock(mutex_);
    if (term < term_) {
      return Unavailable("home's leader of term " + std::to_string(term) +
                         " was followed by that of term " + std::to_string(term_));
    }
    term_ = term;
    return Status();
  }

  void SweepOnce() {
    std::map<std::string, std::vector<kube::ObjectName>> outposts;  // by job
    std::set<std::string> namespaces = options_.namespaces;
    if (namespaces.empty()) namespaces.insert("");
    for (const std::string& ns : namespaces) {
      const auto found = own_.client.List(
          kube::resources::ConfigMaps(),
          {.ns = ns, .label_selector = std::string(names::kOutpostLabel) + "=true"});
      if (!found.ok()) {
        LOG_WARN("cannot look for outposts of jobs that are gone: {}", found.status().ToString());
        return;
      }
      for (const kube::Object& each : found->Unpack()) {
        outposts[kube::LabelOf(*each, names::kJobUidLabel)].push_back(kube::NameOf(*each));
      }
    }
    std::set<std::string> jobs;
    for (const auto& [job, objects] : outposts) jobs.insert(job);
    std::set<std::string> gone;
    {
      const std::lock_guard lock(mutex_);
      gone = sweep_.Gone(jobs, timing_.Now());
    }
    for (const std::string& job : gone) {
      for (const kube::ObjectName& name : outposts[job]) {
        const Status deleted = own_.client.Delete(kube::resources::ConfigMaps(), name);
        LOG_INFO("{} and all it owns: its job is gone; deleting: {}", name.ToString(),
                 deleted.ToString());
      }
    }
  }

  /// Those that home has made here, in the satellite's namespaces.
  void CountPods() {
    std::set<std::string> namespaces = options_.namespaces;
    if (namespaces.empty()) namespaces.insert("");
    std::uint64_t pods = 0;
    for (const std::string& ns : namespaces) {
      const auto found = own_.client.List(kube::resources::Pods(),
                                          {.ns = ns, .label_selector = names::kJobUidLabel});
      if (!found.ok()) return LOG_WARN("cannot count pods: {}", found.status().ToString());
      pods += found->items.size();
    }
    metrics_->Keeps(pods);
  }

  const SatelliteOptions& options_;
  const OwnCluster& own_;
  kube::Timing& timing_;
  SatelliteMetrics* const metrics_;
  OwnGateway gateway_;
  std::mutex mutex_;
  Sweep sweep_;             // guarded
  std::uint64_t term_ = 0;  // guarded: the latest of home's leaders
};

}  // namespace

Status RunSatellite(const SatelliteOptions& options, const OwnCluster& own, kube::Timing& timing,
                    SatelliteMetrics* metrics, std::stop_token stop) {
  return Satellite(options, own, timing, metrics).Run(std::move(stop));
}

}  // namespace swarm::satellite

#include "worker/prove/keeper.h"

#include <pthread.h>

#include <random>
#include <utility>

#include "base/files.h"
#include "base/identity/request.h"
#include "base/log.h"
#include "base/short_time.h"
#include "worker/enrol/service/client.h"
#include "worker/enrol/upkeep.h"

namespace swarm::prove {
namespace {

double Random() {
  static thread_local std::mt19937_64 generator{std::random_device()()};
  return std::uniform_real_distribution<double>()(generator);
}

}  // namespace

AskHome AskAt(const enrol::ProofPlace& place) {
  return [place](const enrol::ProveRequest& request) {
    return enrol::Client({.address = place.home, .fingerprint = place.fingerprint}).Prove(request);
  };
}

Result<std::unique_ptr<Keeper>> Keeper::Start(const KeeperOptions& options, AskHome ask,
                                              std::stop_token stop) {
  std::unique_ptr<Keeper> keeper(new Keeper(options, std::move(ask)));
  RETURN_IF_ERROR(keeper->First(stop));
  keeper->thread_ = std::jthread([self = keeper.get()](std::stop_token ends) {
    pthread_setname_np(pthread_self(), "identity");
    self->Keep(ends);
  });
  return keeper;
}

Keeper::~Keeper() = default;

Result<Duration> Keeper::Renew() {
  ASSIGN_OR_RETURN(std::string token, ReadFile(options_.place.token_file));
  token.erase(token.find_last_not_of(" \n") + 1);
  ASSIGN_OR_RETURN(const identity::KeyAndRequest asked, identity::MakeRequest(options_.worker));
  ASSIGN_OR_RETURN(
      const enrol::ProveReply reply,
      ask_({token, options_.job_uid, options_.place.cluster, options_.worker, asked.request}));
  // The programs go on with the files before until all of these fit together.
  RETURN_IF_ERROR(WriteFile(options_.ca, reply.authority, 0600));
  RETURN_IF_ERROR(WriteFile(options_.key, asked.key, 0600));
  RETURN_IF_ERROR(WriteFile(options_.certificate, reply.certificate, 0600));
  return reply.validity;
}

Status Keeper::First(const std::stop_token& stop) {
  const Timepoint deadline = Clock::now() + options_.patience;
  for (std::uint64_t failures = 1;; ++failures) {
    const auto validity = Renew();
    if (validity.ok()) {
      validity_ = *validity;
      LOG_INFO("home has signed a certificate for {}, which lasts {}", options_.worker,
               ShortTime(ToSeconds(validity_)));
      return Status();
    }
    LOG_WARN("no certificate for {} yet: {}", options_.worker, validity.status().ToString());
    const Duration pause = enrol::RetryPause(failures, Random());
    if (Clock::now() + pause > deadline) {
      return validity.status().WithContext("this pod could not prove to home at " +
                                           options_.place.home + " which one it is");
    }
    if (!Wait(pause, stop)) return Cancelled("told to end before it had a certificate");
  }
}

void Keeper::Keep(const std::stop_token& stop) {
  Duration pause = enrol::RenewalAge(validity_, Random());
  for (std::uint64_t failures = 0; Wait(pause, stop);) {
    const auto validity = Renew();
    failures = validity.ok() ? 0 : failures + 1;
    pause = validity.ok() ? enrol::RenewalAge(*validity, Random())
                          : enrol::RetryPause(failures, Random());
    if (!validity.ok()) LOG_WARN("no new certificate: {}", validity.status().ToString());
  }
}

bool Keeper::Wait(Duration pause, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  wakes_.wait_for(lock, stop, pause, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace swarm::prove

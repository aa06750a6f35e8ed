#include "operator/kube/leader/election.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/log.h"
#include "operator/kube/timing/micro_time.h"

namespace swarm::kube {
namespace {

using nlohmann::json;

constexpr double kJitter = 1.2;
constexpr Duration kRequestTimeoutMin = std::chrono::seconds(1);

std::int64_t IntegerAt(const json& object, const char* pointer) {
  const json::json_pointer place(pointer);
  if (!object.contains(place) || !object.at(place).is_number_integer()) return 0;
  return object.at(place).get<std::int64_t>();
}

std::int64_t ParseTerm(const std::string& text) {
  std::int64_t term = 0;
  std::from_chars(text.data(), text.data() + text.size(), term);
  return term;
}

std::int64_t UnixSeconds(WallTime wall) {
  return std::chrono::duration_cast<std::chrono::seconds>(wall.time_since_epoch()).count();
}

}  // namespace

json ToLease(const ObjectName& name, const LeaseRecord& record) {
  json metadata{{"name", name.name},
                {"namespace", name.ns},
                {"annotations", {{kTermAnnotation, std::to_string(record.term)}}}};
  if (!record.resource_version.empty()) metadata["resourceVersion"] = record.resource_version;
  json spec{{"holderIdentity", record.holder},
            {"leaseDurationSeconds", record.lease_seconds},
            {"leaseTransitions", record.transitions}};
  if (!record.acquire_time.empty()) spec["acquireTime"] = record.acquire_time;
  if (!record.renew_time.empty()) spec["renewTime"] = record.renew_time;
  return {{"apiVersion", "coordination.k8s.io/v1"},
          {"kind", "Lease"},
          {"metadata", std::move(metadata)},
          {"spec", std::move(spec)}};
}

LeaseRecord FromLease(const json& lease) {
  LeaseRecord record;
  record.holder = TextAt(lease, "/spec/holderIdentity");
  record.lease_seconds = static_cast<int>(
      std::clamp<std::int64_t>(IntegerAt(lease, "/spec/leaseDurationSeconds"), 0, 86400));
  record.acquire_time = TextAt(lease, "/spec/acquireTime");
  record.renew_time = TextAt(lease, "/spec/renewTime");
  record.transitions = IntegerAt(lease, "/spec/leaseTransitions");
  // "~1" is a slash in a JSON pointer.
  record.term = ParseTerm(TextAt(lease, "/metadata/annotations/swarmjob.dev~1leader-term"));
  record.resource_version = ResourceVersionOf(lease);
  return record;
}

std::int64_t NextTerm(std::int64_t last, WallTime wall) {
  return std::max(last + 1, UnixSeconds(wall));
}

void ElectionRules::OnRead(const LeaseRecord& record, Timepoint now) {
  if (record != record_) {
    record_ = record;
    changed_at_ = now;
  }
}

void ElectionRules::OnWritten(const LeaseRecord& record, Timepoint began) {
  record_ = record;
  changed_at_ = began;
  renewed_at_ = began;
  leading_since_term_ = record.term;
}

bool ElectionRules::IsLost(Timepoint now) const {
  return leading() && (now >= renew_by() || record_.holder != options_.identity);
}

std::optional<LeaseRecord> ElectionRules::Wish(Timepoint now, WallTime wall) const {
  const bool ours = record_.holder == options_.identity;
  const bool is_over = now - changed_at_ >= std::chrono::seconds(record_.lease_seconds);
  if (!ours && !record_.holder.empty() && !is_over) return std::nullopt;
  LeaseRecord wish = record_;
  wish.lease_seconds = static_cast<int>(ToSeconds(options_.lease_duration));
  wish.renew_time = MicroTime(wall);
  if (!leading()) {
    if (!ours && !record_.resource_version.empty()) ++wish.transitions;
    wish.holder = options_.identity;
    wish.acquire_time = wish.renew_time;
    wish.term = NextTerm(record_.term, wall);
  }
  return wish;
}

LeaseRecord ElectionRules::Release(WallTime wall) const {
  LeaseRecord free = record_;
  free.holder.clear();
  free.lease_seconds = 1;
  free.renew_time = MicroTime(wall);
  return free;
}

Elector::Elector(Client& client, const ElectionOptions& options, ElectionCallbacks callbacks,
                 Timing& timing)
    : client_(client),
      options_(options),
      callbacks_(std::move(callbacks)),
      timing_(timing),
      rules_(options) {
  SWARM_CHECK(options.renew_deadline < options.lease_duration,
              "a leader must stop before its lease ends");
}

Elector::~Elector() { Stop(); }

void Elector::Start() {
  thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
}

void Elector::Stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

Duration Elector::RequestTimeout() const {
  const Duration usual = std::max(kRequestTimeoutMin, options_.renew_deadline / 2);
  if (!rules_.leading()) return usual;
  // A leader must not wait for an answer beyond its renew deadline.
  return std::clamp(rules_.renew_by() - timing_.Now(), Duration(std::chrono::milliseconds(1)),
                    usual);
}

Status Elector::Read() {
  const auto lease =
      client_.Get(resources::Leases(), options_.lease, GetOptions{.timeout = RequestTimeout()});
  if (!lease.ok() && lease.status().code() != StatusCode::kNotFound) return lease.status();
  rules_.OnRead(lease.ok() ? FromLease(**lease) : LeaseRecord{}, timing_.Now());
  return Status();
}

Status Elector::Write(const LeaseRecord& record) {
  const Timepoint began = timing_.Now();
  const WriteOptions options{.timeout = RequestTimeout()};
  const json lease = ToLease(options_.lease, record);
  const auto written = record.resource_version.empty()
                           ? client_.Create(resources::Leases(), lease, options)
                           : client_.Update(resources::Leases(), lease, options);
  if (!written.ok()) return written.status();
  rules_.OnWritten(FromLease(**written), began);
  return Status();
}

// A leader renews the record that it wrote last, and reads only if another process has written.
Status Elector::Try() {
  if (!rules_.leading()) RETURN_IF_ERROR(Read());
  auto wish = rules_.Wish(timing_.Now(), timing_.WallNow());
  if (!wish) return Status();
  Status written = Write(*wish);
  const bool overtaken = written.code() == StatusCode::kAborted ||
                         written.code() == StatusCode::kAlreadyExists ||
                         written.code() == StatusCode::kNotFound;
  if (!overtaken) return written;
  return Read();
}

void Elector::Release() {
  const Status released = Write(rules_.Release(timing_.WallNow()));
  if (!released.ok()) LOG_WARN("cannot release the lease: {}", released.message());
}

void Elector::Run(std::stop_token stop) {
  while (true) {
    const Status tried = Try();
    if (!tried.ok() && !std::exchange(failing_, true)) {
      LOG_WARN("lease {}: {}", options_.lease.ToString(), tried.message());
    }
    if (tried.ok()) failing_ = false;
    if (rules_.IsLost(timing_.Now())) {
      LOG_ERROR("lease {} is lost", options_.lease.ToString());
      leading_ = false;
      return callbacks_.on_lost();
    }
    if (rules_.leading() && !leading_.exchange(true)) {
      LOG_INFO("leading, term {}", rules_.term());
      callbacks_.on_started(rules_.term());
    }
    Duration pause = options_.retry_period;
    if (!rules_.leading()) pause += FromSeconds(ToSeconds(pause) * kJitter * timing_.Uniform());
    if (rules_.leading()) pause = std::min(pause, rules_.renew_by() - timing_.Now());
    if (stop.stop_requested() || !timing_.Sleep(pause, stop)) break;
  }
  if (leading_.exchange(false)) Release();
}

std::string MakeIdentity() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::random_device dice;
  std::array<char, 40> unique{};
  std::snprintf(unique.data(), unique.size(), "_%08x%08x%08x%08x", dice(), dice(), dice(), dice());
  return std::string(host.data()) + unique.data();
}

}  // namespace swarm::kube

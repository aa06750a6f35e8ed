// The tables of docs/security.md hold: of the calls at a run's home and at an operator that has
// satellites, each made by each role over TLS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/identity/trust.h"
#include "base/testing/temporary_folder.h"
#include "ctl/enrol/run_home.h"
#include "operator/kube/testing/fake_client.h"
#include "operator/kube/timing/timing.h"
#include "operator/machines/admission.h"
#include "operator/machines/desk.h"
#include "operator/satellite/home.h"
#include "swarmjob/v1/enrolment.pb.h"
#include "swarmjob/v1/proof.pb.h"
#include "swarmjob/v1/satellite.pb.h"
#include "tests/security/access_table.h"
#include "tests/security/callers.h"
#include "worker/enrol/token.h"

namespace swarm::security {
namespace {

namespace pb = ::swarmjob::v1;
using nlohmann::json;

/// A request for a certificate, as whoever asks for one makes it.
std::string AskedFor() { return identity::MakeRequest("x")->request; }

/// The encoded Enrol of either service: they have the same fields.
template <typename Request>
std::string EnrolWith(const std::string& id, const std::string& secret) {
  Request request;
  request.set_token_id(id);
  request.set_secret(secret);
  request.set_request(AskedFor());
  return request.SerializeAsString();
}

/// A run's home that has enrolled joined-0 and joined-1, and has revoked joined-1.
class RunHomeUnderTest {
 public:
  explicit RunHomeUnderTest(const Callers& callers) : callers_(callers) {
    auto home = ctl::OpenRunHome({.listen = "127.0.0.1:0",
                                  .job_uid = kJob,
                                  .job_name = "tiny",
                                  .trainer = "127.0.0.1:1",
                                  .validity = std::chrono::hours(1),
                                  .address_file = folder_.path() / "address",
                                  .revoked_file = folder_.path() / "revoked",
                                  .events_file = folder_.path() / "events"},
                                 callers.job);
    SWARM_CHECK(home.ok(), home.status().ToString());
    home_ = *std::move(home);
    token_ = *enrol::ParseJoinToken(*home_->CreateToken());
    EXPECT_TRUE(Ask("guest", "Enrolment.Enrol"));
    EXPECT_TRUE(Ask("guest", "Enrolment.Enrol"));
    EXPECT_TRUE(Ask("operator", "Enrolment.Revoke"));
  }

  bool Ask(const std::string& role, const std::string& what) const {
    const std::string call = what.substr(what.find('.') + 1);
    return callers_.IsAnswered(role, token_.address, "/swarmjob.v1.Enrolment/" + call,
                               QuestionOf(role, call));
  }

 private:
  std::string QuestionOf(const std::string& role, const std::string& call) const {
    if (call == "Enrol") {
      return EnrolWith<pb::EnrolRequest>(token_.id, role == "guest" ? token_.secret : "guess");
    }
    if (call == "Refresh") {
      pb::RefreshRequest request;
      request.set_request(AskedFor());
      return request.SerializeAsString();
    }
    if (call == "CreateToken") {
      pb::CreateTokenRequest request;
      request.set_lifetime_seconds(60);
      request.set_uses(1);
      return request.SerializeAsString();
    }
    if (call == "Revoke") {
      pb::RevokeRequest request;
      request.set_name("joined-1");
      return request.SerializeAsString();
    }
    return pb::ListTokensRequest().SerializeAsString();
  }

  const Callers& callers_;
  TemporaryFolder folder_;
  std::unique_ptr<ctl::Home> home_;
  enrol::JoinToken token_;
};

/// One Secret, as an API server keeps it.
class OneSecret final : public kube::FakeClient {
 public:
  explicit OneSecret(const json& texts) { Merge(texts); }

  Result<kube::Object> Get(const kube::Resource&, const kube::ObjectName&,
                           const kube::GetOptions&) override {
    const std::lock_guard lock(mutex_);
    return std::make_shared<const json>(secret_);
  }
  Result<kube::Object> Patch(const kube::Resource&, const kube::ObjectName&, kube::PatchType,
                             const json& patch, const kube::WriteOptions&) override {
    const std::lock_guard lock(mutex_);
    Merge(patch.at("stringData"));
    return std::make_shared<const json>(secret_);
  }

 private:
  void Merge(const json& texts) {
    for (const auto& [key, text] : texts.items()) {
      secret_["data"][key] = EncodeBase64(text.get<std::string>());
    }
  }
  std::mutex mutex_;
  json secret_ = {{"metadata", {{"name", "s"}, {"namespace", "n"}, {"resourceVersion", "1"}}}};
};

/// Knows a token, and the machine tiny-w1; tiny-w0 is out.
class MachinesUnderTest final : public machines::Desk {
 public:
  void Enrol(const enrol::Caller&, const enrol::EnrolRequest& request,
             enrol::Enrolled done) override {
    const auto now = std::chrono::system_clock::now();
    const machines::Account account{
        {{"5f", {identity::Sha256("sesame"), "friends", now + std::chrono::hours(1), 1}}}, {}};
    const auto token =
        machines::FindToken(account, request.token_id, identity::Sha256(request.secret), now);
    if (!token.ok()) return done(token.status());
    done(enrol::EnrolReply{.worker = "tiny-w1", .job_uid = kJob});
  }
  void Refresh(const machines::Seat& seat, const std::string&, enrol::Refreshed done) override {
    api::SwarmJobStatus status;
    status.nextWorkerOrdinal = 2;
    status.machines = {{1, "friends", "5f", {}}};
    const auto ordinal = machines::OrdinalOf("tiny", seat.worker);
    const Status may = ordinal && seat.job_uid == kJob ? machines::MayRenew(*ordinal, status)
                                                       : PermissionDenied("of another job");
    if (!may.ok()) return done(may);
    done(enrol::RefreshReply());
  }
};

/// Home's operator, whose cluster "west" has enrolled twice and "east" is out.
class OperatorUnderTest {
 public:
  explicit OperatorUnderTest(const Callers& callers)
      : callers_(callers),
        client_({{satellite::kAuthorityCertificate, callers.operators.pair().certificate},
                 {satellite::kAuthorityKey, callers.operators.pair().key},
                 {satellite::kAuthorityUid, kOperators},
                 {satellite::kAccount, ToText(TheAccount())}}) {
    auto home = satellite::Home::Open(
        {"127.0.0.1:0", {"n", "s"}, 1, Judge, &machines_}, client_, kube::SystemTiming(),
        [](const std::string&, const std::shared_ptr<kube::HttpTransport>&,
           const std::function<bool()>&) {});
    SWARM_CHECK(home.ok(), home.status().ToString());
    home_ = *std::move(home);
  }

  bool Ask(const std::string& role, const std::string& what) const {
    const std::size_t dot = what.find('.');
    const std::string service = what.substr(0, dot), call = what.substr(dot + 1);
    std::string question;
    if (call == "Enrol") {  // of both services
      question = EnrolWith<pb::EnrolSatelliteRequest>("5f", role == "guest" ? "sesame" : "guess");
    } else if (call == "Refresh") {
      pb::RefreshRequest request;
      request.set_request(AskedFor());
      question = request.SerializeAsString();
    } else if (call == "Renew") {
      pb::RenewSatelliteRequest request;
      request.set_request(AskedFor());
      question = request.SerializeAsString();
    } else if (call == "Prove") {
      pb::ProveRequest request;
      request.set_token(role == "guest" ? "sesame" : "guess");
      question = request.SerializeAsString();
    }
    return callers_.IsAnswered(role, home_->address(), "/swarmjob.v1." + service + "/" + call,
                               question);
  }

 private:
  /// As the API server of one word.
  static void Judge(const enrol::Caller&, const enrol::ProveRequest& request,
                    const enrol::Proved& done) {
    if (request.token != "sesame") return done(PermissionDenied("another pod's token"));
    done(enrol::ProveReply{"certificate", "authority", std::chrono::hours(1)});
  }
  static satellite::Account TheAccount() {
    return {.tokens = {{"5f",
                        {identity::Sha256("sesame"), "north",
                         std::chrono::time_point_cast<std::chrono::seconds>(
                             std::chrono::system_clock::now() + std::chrono::hours(1))}}},
            .revoked = {"east"},
            .enrolments = {{"west", 2}}};
  }

  const Callers& callers_;
  MachinesUnderTest machines_;
  OneSecret client_;
  std::unique_ptr<satellite::Home> home_;
};

/// Lets each role make each call of a server's rows, which are all of these services, at a new
/// server each time: refusals count there.
template <typename Server>
void ExpectTable(const std::string& server, const std::set<std::string>& services) {
  const Callers callers;
  std::set<std::string> seen;
  for (const Access& row : AccessTo(server, "Calls")) {
    seen.insert(row.what.substr(0, row.what.find('.')));
    for (const std::string& role : AllRoles()) {
      const Server at(callers);
      EXPECT_EQ(at.Ask(role, row.what), row.allowed.contains(role)) << row.what << " by " << role;
    }
  }
  EXPECT_EQ(seen, services);
}

TEST(CallsTest, AtTheHomeOfARunEachRoleMayDoWhatTheTableSays) {
  ExpectTable<RunHomeUnderTest>("home of a run", {"Enrolment"});
}

TEST(CallsTest, AtTheOperatorEachRoleMayDoWhatTheTableSays) {
  ExpectTable<OperatorUnderTest>("home's operator", {"Enrolment", "Proofs", "Satellites"});
}

TEST(CallsTest, TheTableHasEveryCallOfEveryService) {
  std::set<std::string> declared, told;
  for (const auto& file :
       std::filesystem::directory_iterator(std::string(SWARM_SOURCE_DIR) + "/proto/swarmjob/v1")) {
    std::istringstream lines(SourceOf("proto/swarmjob/v1/" + file.path().filename().string()));
    std::string service;
    std::smatch match;
    const std::regex begins("^service (\\w+) .*"), call("^  rpc (\\w+).*");
    for (std::string line; std::getline(lines, line);) {
      if (std::regex_match(line, match, begins)) service = match[1];
      if (std::regex_match(line, match, call)) declared.insert(service + "." + match[1].str());
    }
  }
  for (const auto& row : TableBelow("Calls")) told.merge(NamesIn(row.at(1)));
  EXPECT_EQ(told, declared);
}

TEST(CallsTest, EveryRoleThatHasACertificateIsPlayed) {
  const Callers callers;
  for (const std::string& role : AllRoles()) {
    EXPECT_EQ(callers.PairOf(role).has_value(), role != "nobody" && role != "guest") << role;
  }
}

}  // namespace
}  // namespace swarm::security

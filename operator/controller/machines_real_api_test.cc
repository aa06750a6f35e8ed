// Machines without Kubernetes join a job by home's door. The API server is real; the test plays the
// owner, who makes tokens, and the machines.
#include <gmock/gmock.h>

#include <algorithm>

#include "api/job_for_machines.h"
#include "base/identity/authority.h"
#include "base/identity/request.h"
#include "base/identity/trust.h"
#include "operator/controller/testing/two_clusters_under_test.h"
#include "operator/machines/account.h"
#include "operator/names/names.h"
#include "operator/objects/read.h"
#include "worker/enrol/service/client.h"

namespace swarm::controller {
namespace {

using kube::resources::ConfigMaps;
using kube::resources::Secrets;
using kube::resources::SwarmJobs;
using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kSpec = R"({"workers": {"replicas": 2, "pools": [{"name": "here"}],
    "machinePools": [{"name": "friends", "maxReplicas": 2}]}})";

class MachinesRealApiTest : public TwoClustersUnderTest {
 protected:
  void SetUp() override {
    TwoClustersUnderTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    controller_->UseGateways(
        [] { return std::map<std::string, std::string>{{"home", "gateway.example:7444"}}; });
    Submit("tiny");
  }

  void Submit(const std::string& job) {
    ASSERT_TRUE(client_->Create(SwarmJobs(), JobUnderTest(kSpec, {ns_, job})).ok());
    ASSERT_TRUE(Await([&] { return NamesIn(*client_, Secrets()).contains(job + "-ca"); }));
  }

  objects::JobView View(const std::string& job = "tiny") {
    const auto read = client_->Get(SwarmJobs(), {ns_, job});
    EXPECT_TRUE(read.ok());
    return *objects::ReadJob(**read);
  }

  /// As `swarmctl token create` makes them. Replaces the account.
  void Give(const std::map<std::string, machines::Token>& tokens,
            const std::set<std::uint64_t>& revoked = {}) {
    const objects::JobView view = View();
    const json secret{{"apiVersion", "v1"},
                      {"kind", "Secret"},
                      {"metadata",
                       {{"name", names::TokensSecretName(view.name)},
                        {"namespace", ns_},
                        {"ownerReferences",
                         {{{"apiVersion", names::kApiVersion},
                           {"kind", names::kKind},
                           {"name", view.name},
                           {"uid", view.uid}}}}}},
                      {"stringData", {{machines::kAccount, machines::ToText({tokens, revoked})}}}};
    const auto applied = client_->Apply(Secrets(), secret);
    ASSERT_TRUE(applied.ok()) << applied.status().ToString();
  }
  static machines::Token Good(std::uint64_t uses = 10) {
    return {identity::Sha256("sesame"), "friends",
            std::chrono::system_clock::now() + std::chrono::hours(1), uses};
  }

  enrol::Client Machine() {
    const auto published = client_->Get(ConfigMaps(), {ns_, satellite::kHomeConfigMap});
    EXPECT_TRUE(published.ok());
    return enrol::Client({.address = home_->address(),
                          .fingerprint = *identity::Fingerprint(
                              (**published)["data"][satellite::kAuthorityCertificate], "ca")});
  }
  /// Once more while the operator has not seen the job yet.
  Result<enrol::EnrolReply> Join(enrol::Client& machine, const std::string& name = "ab12",
                                 const std::string& secret = "sesame") {
    Result<enrol::EnrolReply> reply = NotFound("not asked yet");
    const std::string id = machines::ToText(machines::TokenId{View().uid, name});
    Await([&] {
      reply = machine.Enrol({id, secret, asked_.request});
      return reply.status().code() != StatusCode::kUnavailable &&
             reply.status().code() != StatusCode::kResourceExhausted;
    });
    return reply;
  }
  /// A machine that has joined and calls as itself.
  enrol::EnrolReply MustJoin(enrol::Client& machine) {
    const auto reply = Join(machine);
    EXPECT_TRUE(reply.ok()) << reply.status().ToString();
    if (!reply.ok()) return {};
    machine.SetIdentity({reply->home_certificate, asked_.key});
    return *reply;
  }
  /// Waits until the operator has seen what the job's status says.
  StatusCode RefreshOf(enrol::Client& machine) {
    StatusCode code = StatusCode::kUnavailable;
    Await([&] {
      code = machine.Refresh("").status().code();
      return code != StatusCode::kUnavailable;
    });
    return code;
  }

  const identity::KeyAndRequest asked_ = *identity::MakeRequest("x");
};

TEST_F(MachinesRealApiTest, AMachineBecomesAWorkerOfTheJob) {
  Give({{"ab12", Good()}});
  enrol::Client machine = Machine();
  const enrol::EnrolReply joined = MustJoin(machine);
  const objects::JobView view = View();
  ASSERT_EQ(view.status.machines.size(), 1u);
  const api::MachineStatus& listed = view.status.machines[0];
  EXPECT_EQ(joined.worker, "tiny-w" + std::to_string(listed.ordinal));
  EXPECT_LT(listed.ordinal, view.status.nextWorkerOrdinal);
  EXPECT_EQ(listed.token, "ab12");
  EXPECT_EQ(joined.job, api::JobForMachines(view.job));
  EXPECT_THAT(joined.job, HasSubstr("hidden_size"));
  EXPECT_EQ(joined.trainer_gateway, "gateway.example:7444/tiny-trainer." + ns_ + ".svc");
  const auto facts = identity::ReadCertificate(joined.certificate, "machine");
  ASSERT_TRUE(facts.ok());
  EXPECT_THAT(facts->uris, ElementsAre(identity::WorkerUri(view.uid, joined.worker)));
  EXPECT_TRUE(identity::CheckSigned(joined.certificate, joined.authority).ok());
  const auto account = client_->Get(Secrets(), {ns_, "tiny-tokens"});
  ASSERT_TRUE(account.ok());
  EXPECT_EQ(machines::ParseAccount(kube::SecretText(**account, machines::kAccount))
                ->tokens.at("ab12")
                .uses_left,
            9u);
}

TEST_F(MachinesRealApiTest, ItRenewsUntilItsOwnerPutsItOut) {
  Give({{"ab12", Good()}});
  enrol::Client machine = Machine();
  const enrol::EnrolReply joined = MustJoin(machine);
  EXPECT_EQ(RefreshOf(machine), StatusCode::kOk);
  const auto next = machine.Refresh(asked_.request);
  ASSERT_TRUE(next.ok()) << next.status().ToString();
  EXPECT_TRUE(identity::CheckSigned(next->certificate, joined.authority).ok());
  machine.SetIdentity({next->home_certificate, asked_.key});
  EXPECT_EQ(RefreshOf(machine), StatusCode::kOk);

  Give({{"ab12", Good()}}, {View().status.machines[0].ordinal});
  EXPECT_TRUE(Await([&] {
    controller_->machines().Tend();
    return View().status.machines.empty();
  }));
  EXPECT_TRUE(Await([&] { return RefreshOf(machine) == StatusCode::kPermissionDenied; }));
}

TEST_F(MachinesRealApiTest, WithTheTokenItsMachinesAreOut) {
  Give({{"ab12", Good()}, {"cd34", Good()}});
  enrol::Client machine = Machine();
  MustJoin(machine);
  Give({{"cd34", Good()}});
  EXPECT_TRUE(Await([&] {
    controller_->machines().Tend();
    return View().status.machines.empty();
  }));
  enrol::Client another = Machine();
  EXPECT_EQ(Join(another).status().code(), StatusCode::kUnauthenticated);
}

TEST_F(MachinesRealApiTest, NoOtherTokenLetsAMachineIn) {
  enrol::Client machine = Machine();
  EXPECT_EQ(Join(machine).status().code(), StatusCode::kUnauthenticated) << "there are none";
  machines::Token expired = Good();
  expired.expires = std::chrono::system_clock::now() - std::chrono::seconds(1);
  machines::Token elsewhere = Good();
  elsewhere.pool = "here";
  Give({{"ab12", Good()}, {"old", expired}, {"spent", Good(0)}, {"pods", elsewhere}});
  const auto code = [&](const std::string& name, const std::string& secret = "sesame") {
    return Join(machine, name, secret).status().code();
  };
  EXPECT_EQ(code("ab12", "guess"), StatusCode::kUnauthenticated);
  EXPECT_EQ(code("ef56"), StatusCode::kUnauthenticated);
  EXPECT_EQ(code("old"), StatusCode::kPermissionDenied);
  EXPECT_EQ(code("spent"), StatusCode::kPermissionDenied);
  EXPECT_EQ(code("pods"), StatusCode::kPermissionDenied) << "no pool for machines";
  Submit("other");
  const auto foreign = machine.Enrol(
      {machines::ToText(machines::TokenId{View("other").uid, "ab12"}), "sesame", asked_.request});
  EXPECT_EQ(foreign.status().code(), StatusCode::kUnauthenticated) << "of another job";
  EXPECT_TRUE(View().status.machines.empty());
}

TEST_F(MachinesRealApiTest, APoolTakesNoMoreMachinesThanItSays) {
  Give({{"ab12", Good()}});
  for (int i = 0; i < 2; ++i) {
    enrol::Client machine = Machine();
    MustJoin(machine);
  }
  enrol::Client third = Machine();
  const std::string id = machines::ToText(machines::TokenId{View().uid, "ab12"});
  EXPECT_TRUE(Await([&] {
    return third.Enrol({id, "sesame", asked_.request}).status().message().find("maxReplicas") !=
           std::string::npos;
  }));
  EXPECT_EQ(View().status.machines.size(), 2u);
}

TEST_F(MachinesRealApiTest, NoOtherCertificateOfTheJobRenews) {
  Give({{"ab12", Good()}});
  enrol::Client machine = Machine();
  const enrol::EnrolReply joined = MustJoin(machine);
  machine.SetIdentity({joined.certificate, asked_.key});  // home's authority has not signed it
  const auto refused = machine.Refresh("");
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(refused.status().code(), StatusCode::kPermissionDenied) << "home does not hear it";
  enrol::Client nobody = Machine();
  EXPECT_EQ(nobody.Refresh("").status().code(), StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace swarm::controller

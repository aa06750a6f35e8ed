// A relay, its calls, and what they carry.
#include "worker/net/grpc/relay/relay.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/identity/authority.h"
#include "base/identity/testing/made_authority.h"
#include "base/testing/temporary_folder.h"
#include "worker/net/grpc/credentials.h"
#include "worker/net/grpc/grpc_endpoint.h"
#include "worker/net/grpc/testing/raw_caller.h"
#include "worker/net/grpc/testing/raw_credentials.h"
#include "worker/net/testing/recorder.h"

namespace swarm::net {
namespace {

using Caller = std::unique_ptr<RawCaller>;

const WorkerId kTrainer("trainer"), kAnn("ann"), kBob("bob");

class RelayTest : public ::testing::Test {
 protected:
  RelayTest() {
    GrpcOptions options = OptionsOf(kTrainer);
    options.listen = "127.0.0.1:0";
    options.relays = true;
    options.revocations = std::make_shared<Revocations>("7", folder_ / "revoked");
    trainer_ = std::move(GrpcEndpoint::Create(options, &trainer_heard_)).value();
  }

  GrpcOptions OptionsOf(const WorkerId& self) const {
    const auto pair = *authority_.Issue("x", IdentityUri("7", self));
    GrpcOptions options{.self = self, .listen = "", .job = "7"};
    options.tls_pem = TlsPem{authority_.pair().certificate, pair.certificate, pair.key};
    return options;
  }
  /// Nobody can dial it.
  std::unique_ptr<GrpcEndpoint> Make(const WorkerId& self, Recorder* heard) const {
    GrpcOptions options = OptionsOf(self);
    options.relay = RelayAt{kTrainer, trainer_->addresses()};
    return std::move(GrpcEndpoint::Create(options, heard)).value();
  }
  /// A call with the certificate of `owner`.
  Caller Call(const WorkerId& owner) const {
    return std::make_unique<RawCaller>(
        trainer_->addresses()[0].dial,
        RawCredentials(*authority_.Issue("x", IdentityUri("7", owner))), kRelayMethod);
  }
  Caller Say(const WorkerId& owner, const RelayHello& hello) const {
    auto caller = Call(owner);
    EXPECT_TRUE(caller->Write(EncodeRelayHello(hello)));
    return caller;
  }
  Caller Wait(const WorkerId& self) const { return Say(self, {"7", self, {}}); }
  Caller Call(const WorkerId& self, const WorkerId& to) const { return Say(self, {"7", self, to}); }

  static void ExpectJoined(RawCaller& one, RawCaller& other) {
    for (const std::string text : {"a", "bc"}) {
      EXPECT_TRUE(one.Write(text));
      EXPECT_EQ(other.Read(), text);
      EXPECT_TRUE(other.Write(text + text));
      EXPECT_EQ(one.Read(), text + text);
    }
  }

  const TemporaryFolder folder_;
  const identity::JobAuthority authority_ = identity::MadeAuthority("7");
  Recorder trainer_heard_;
  std::unique_ptr<GrpcEndpoint> trainer_;
};

TEST_F(RelayTest, ACallMeetsTheWorkerThatWaitsForIt) {
  const auto bob = Wait(kBob), ann = Call(kAnn, kBob);
  ExpectJoined(*ann, *bob);
  EXPECT_EQ(trainer_->traffic().bytes_relayed, 9u);
}

TEST_F(RelayTest, ACallWaitsForAWorkerThatIsNotThere) {
  const auto ann = Call(kAnn, kBob), bob = Wait(kBob);
  ExpectJoined(*ann, *bob);
}

TEST_F(RelayTest, CallsOfAWorkerThatAreLeftFromBeforeGiveWayToLaterOnes) {
  std::vector<Caller> waiting;
  for (int i = 0; i < 5; ++i) waiting.push_back(Wait(kBob));
  EXPECT_EQ(waiting[0]->ReadToEnd().code(), StatusCode::kCancelled);
  const auto ann = Call(kAnn, kBob);
  ExpectJoined(*ann, *waiting[4]);
}

TEST_F(RelayTest, AMessageAboveTheBoundEndsTheCall) {
  const auto bob = Wait(kBob), ann = Call(kAnn, kBob);
  EXPECT_TRUE(ann->Write(std::string(kRelayedBytesMax + 1, 'x')));
  EXPECT_EQ(ann->ReadToEnd().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(bob->Read());
}

TEST_F(RelayTest, WhenOneEndsTheOtherEnds) {
  const auto bob = Wait(kBob);
  auto ann = Call(kAnn, kBob);
  ExpectJoined(*ann, *bob);
  ann = nullptr;
  EXPECT_FALSE(bob->Read());
}

TEST_F(RelayTest, NobodySpeaksForAnother) {
  EXPECT_EQ(Say(kAnn, {"7", kBob, {}})->ReadToEnd().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(Say(kAnn, {"7", kBob, kAnn})->ReadToEnd().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(Say(kAnn, {"8", kAnn, kBob})->ReadToEnd().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(Say(kTrainer, {"7", kTrainer, {}})->ReadToEnd().code(), StatusCode::kPermissionDenied);
  const auto caller = Call(kAnn);
  EXPECT_TRUE(caller->Write("no hello"));
  EXPECT_EQ(caller->ReadToEnd().code(), StatusCode::kDataLoss);
}

TEST_F(RelayTest, WhoIsRevokedIsOut) {
  const auto bob = Wait(kBob), ann = Call(kAnn, kBob);
  ExpectJoined(*ann, *bob);
  ASSERT_TRUE(WriteFile(folder_ / "revoked", "ann\n").ok());
  EXPECT_EQ(ann->ReadToEnd().code(), StatusCode::kPermissionDenied);
  EXPECT_FALSE(bob->Read());
  EXPECT_EQ(Call(kAnn, kBob)->ReadToEnd().code(), StatusCode::kPermissionDenied);
}

TEST_F(RelayTest, WhatTwoWorkersSayIsSealedAndOnlyTheOneThatIsCalledMayAnswer) {
  const auto in_between = Wait(kBob);  // as a relay that answers itself could
  Recorder heard;
  const auto ann = Make(kAnn, &heard);
  ann->Connect(kBob, {{protocol::kRelayScope, "the relay", ""}});
  const auto first = in_between->Read();
  ASSERT_TRUE(first && first->size() > 3);
  EXPECT_EQ(first->substr(0, 2), "\x16\x03") << "a handshake of TLS begins so";
  EXPECT_TRUE(in_between->Write(*first));
  EXPECT_FALSE(in_between->Read()) << "ann hangs up";
  EXPECT_EQ(heard.EventCount("up bob"), 0);
}

TEST_F(RelayTest, OfSeveralWaysToTheRelayTheOneThatLeadsThereServes) {
  Recorder ann_heard, bob_heard;
  const auto make = [this](const WorkerId& self, Recorder* heard) {
    GrpcOptions options = OptionsOf(self);
    options.relay = RelayAt{kTrainer, {{"cluster", "127.0.0.1:1", ""}, trainer_->addresses()[0]}};
    return std::move(GrpcEndpoint::Create(options, heard)).value();
  };
  const auto ann = make(kAnn, &ann_heard), bob = make(kBob, &bob_heard);
  ann->Connect(kBob, bob->addresses());
  EXPECT_TRUE(ann_heard.WaitForEvent("up bob"));
  EXPECT_TRUE(bob_heard.WaitForEvent("up ann"));
}

TEST_F(RelayTest, TheNextRelayServesThoseOfTheLast) {
  Recorder ann_heard, bob_heard;
  const auto ann = Make(kAnn, &ann_heard), bob = Make(kBob, &bob_heard);
  ann->Connect(kBob, bob->addresses());
  ASSERT_TRUE(ann_heard.WaitForEvent("up bob"));
  GrpcOptions options = OptionsOf(kTrainer);
  options.listen = trainer_->addresses()[0].dial;
  options.relays = true;
  trainer_ = nullptr;
  ASSERT_TRUE(ann_heard.WaitForEvent("down bob"));
  trainer_ = std::move(GrpcEndpoint::Create(options, &trainer_heard_)).value();
  EXPECT_TRUE(ann_heard.WaitForEvent("up bob", 2));
}

}  // namespace
}  // namespace swarm::net

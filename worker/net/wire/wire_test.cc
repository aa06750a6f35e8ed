#include "worker/net/wire/wire.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "swarmjob/v1/frame.pb.h"
#include "worker/net/wire/testing/message_generator.h"
#include "worker/net/wire/utf8.h"

namespace swarm::net {
namespace {

constexpr std::size_t kKinds = std::variant_size_v<protocol::Message>;

std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(WireTest, EveryFieldOfEveryMessageComesBack) {
  Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      const protocol::Message sent = MakeMessage(rng, kind);
      const auto encoded = EncodeHeader(sent);
      ASSERT_TRUE(encoded.ok()) << encoded.status().ToString();
      const auto received = DecodeHeader(AsBytes(*encoded));
      ASSERT_TRUE(received.ok()) << MessageName(sent) << ": " << received.status().ToString();
      EXPECT_TRUE(SameFields(sent, *received)) << MessageName(sent);
    }
  }
}

TEST(WireTest, AMessageOfDefaultsComesBack) {
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    Rng rng(2);
    protocol::Message sent = MakeMessage(rng, kind);
    std::visit([](auto& content) { content = {}; }, sent);
    const auto encoded = EncodeHeader(sent);
    ASSERT_TRUE(encoded.ok());
    const auto received = DecodeHeader(AsBytes(*encoded));
    ASSERT_TRUE(received.ok()) << MessageName(sent);
    EXPECT_TRUE(SameFields(sent, *received)) << MessageName(sent);
  }
}

TEST(WireTest, NumbersThatAreNotRetiredComeInOrderAndBelowTheBound) {
  const auto decoded = [](std::vector<std::uint64_t> except) {
    return DecodeHeader(AsBytes(*EncodeHeader(protocol::Retire{.workers = {"w", 5, except}})));
  };
  EXPECT_TRUE(decoded({1, 2, 4}).ok());
  for (const auto& except : {std::vector<std::uint64_t>{2, 1}, {1, 1}, {1, 5}, {5, 1}}) {
    EXPECT_EQ(decoded(except).status().code(), StatusCode::kDataLoss);
  }
}

TEST(WireTest, ABackwardHasTheseBytesForEver) {
  protocol::Backward backward;
  backward.key = {protocol::Generation(1),
                  protocol::Step(2),
                  protocol::Microbatch(3),
                  protocol::StageIndex(4),
                  {protocol::Term(5), 6}};
  backward.version = protocol::Version(2);
  const auto encoded = EncodeHeader(backward);
  ASSERT_TRUE(encoded.ok());
  EXPECT_EQ(*encoded, std::string("\x3a\x12"                          // Header.backward, 18 bytes
                                  "\x0a\x0e"                          // key, 14 bytes
                                  "\x08\x01\x10\x02\x18\x03\x20\x04"  // generation to stage
                                  "\x2a\x04\x08\x05\x10\x06"          // attempt
                                  "\x10\x02"));                       // version
}

TEST(WireTest, MutatedBytesGiveAMessageOrAnError) {
  const google::protobuf::LogSilencer quiet;
  Rng rng(3);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    auto encoded = EncodeHeader(MakeMessage(rng, rng.Below(kKinds)));
    ASSERT_TRUE(encoded.ok());
    std::string bytes = *encoded;
    for (std::uint64_t n = 1 + rng.Below(4); n > 0 && !bytes.empty(); --n) {
      bytes[rng.Below(bytes.size())] = static_cast<char>(rng());
    }
    if (rng.Below(4) == 0) bytes.resize(rng.Below(bytes.size() + 1));
    const auto decoded = DecodeHeader(AsBytes(bytes));
    if (decoded.ok()) {
      EXPECT_TRUE(EncodeHeader(*decoded).ok());
    } else {
      EXPECT_EQ(decoded.status().code(), StatusCode::kDataLoss);
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(WireTest, AnUnknownEnumValueIsRefused) {
  swarmjob::v1::Header header;
  header.mutable_forward()->set_kind(static_cast<swarmjob::v1::TaskKind>(2));
  EXPECT_EQ(DecodeHeader(AsBytes(header.SerializeAsString())).status().code(),
            StatusCode::kDataLoss);
  header.mutable_reduce_chunk()->set_phase(static_cast<swarmjob::v1::ReduceChunk::Phase>(-1));
  EXPECT_FALSE(DecodeHeader(AsBytes(header.SerializeAsString())).ok());
  header.mutable_progress()->add_reports()->set_event(
      static_cast<swarmjob::v1::TaskReport::Event>(77));
  EXPECT_FALSE(DecodeHeader(AsBytes(header.SerializeAsString())).ok());
  header.mutable_fetch()->set_kind(static_cast<swarmjob::v1::FetchKind>(6));
  EXPECT_FALSE(DecodeHeader(AsBytes(header.SerializeAsString())).ok());
  header.mutable_fetched()->set_kind(static_cast<swarmjob::v1::FetchKind>(-1));
  EXPECT_FALSE(DecodeHeader(AsBytes(header.SerializeAsString())).ok());
}

TEST(WireTest, AnUnknownEnumValueDeepInAMessageIsRefused) {
  swarmjob::v1::Header header;
  header.mutable_resend()->mutable_frame()->set_kind(static_cast<swarmjob::v1::TaskKind>(2));
  EXPECT_EQ(DecodeHeader(AsBytes(header.SerializeAsString())).status().code(),
            StatusCode::kDataLoss);
}

TEST(WireTest, AnEmptyHeaderAndAnUnknownMessageAreRefused) {
  EXPECT_FALSE(DecodeHeader({}).ok());
  EXPECT_FALSE(DecodeHeader(AsBytes(std::string("\xfa\x3f\x00", 3))).ok());  // field 1023
}

/// A list of a message, and its cap: `local` is the list in the message, `wire` adds an element to
/// that of the header.
template <typename Message, typename Local, typename Wire>
void ExpectCap(int max, const Local& local, const Wire& wire) {
  SCOPED_TRACE(MessageName(Message()));
  Message message;
  local(message).resize(static_cast<std::size_t>(max));
  EXPECT_TRUE(EncodeHeader(message).ok());
  local(message).resize(static_cast<std::size_t>(max) + 1);
  EXPECT_EQ(EncodeHeader(message).status().code(), StatusCode::kInvalidArgument);
  swarmjob::v1::Header header;
  for (int i = 0; i < max; ++i) wire(header);
  EXPECT_TRUE(DecodeHeader(AsBytes(header.SerializeAsString())).ok());
  wire(header);
  const Status refused = DecodeHeader(AsBytes(header.SerializeAsString())).status();
  EXPECT_EQ(refused.code(), StatusCode::kDataLoss);
  EXPECT_NE(refused.ToString().find("a list of " + std::to_string(max + 1)), std::string::npos);
}

TEST(WireTest, AListAboveItsCapIsRefusedByBothEnds) {
  using swarmjob::v1::Header;
  ExpectCap<protocol::Forward>(
      kStagesMax, [](auto& m) -> auto& { return m.hops; },
      [](Header& h) { h.mutable_forward()->add_hops(); });
  ExpectCap<protocol::Resend>(
      kStagesMax, [](auto& m) -> auto& { return m.frame.hops; },
      [](Header& h) { h.mutable_resend()->mutable_frame()->add_hops(); });
  ExpectCap<protocol::Welcome>(
      kMembersMax, [](auto& m) -> auto& { return m.donors; },
      [](Header& h) { h.mutable_welcome()->add_donors(); });
  ExpectCap<protocol::Roster>(
      kMembersMax, [](auto& m) -> auto& { return m.members.Own(); },
      [](Header& h) { h.mutable_roster()->add_members(); });
  ExpectCap<protocol::Roster>(
      kMembersMax, [](auto& m) -> auto& { return m.adoptions; },
      [](Header& h) { h.mutable_roster()->add_adoptions(); });
  ExpectCap<protocol::RosterChange>(
      kMembersMax, [](auto& m) -> auto& { return m.came; },
      [](Header& h) { h.mutable_roster_change()->add_came(); });
  ExpectCap<protocol::RosterChange>(
      kMembersMax, [](auto& m) -> auto& { return m.gone; },
      [](Header& h) { h.mutable_roster_change()->add_gone(); });
  ExpectCap<protocol::Holding>(
      kMembersMax, [](auto& m) -> auto& { return m.roster.members.Own(); },
      [](Header& h) { h.mutable_holding()->mutable_roster()->add_members(); });
  ExpectCap<protocol::Holding>(
      kStepsMax, [](auto& m) -> auto& { return m.records; },
      [](Header& h) { h.mutable_holding()->add_records(); });
  ExpectCap<protocol::Holding>(
      kStepsMax, [](auto& m) -> auto& { return m.steps; },
      [](Header& h) { h.mutable_holding()->add_steps(); });
  ExpectCap<protocol::Holding>(
      kStepsMax, [](auto& m) -> auto& { return m.past; },
      [](Header& h) { h.mutable_holding()->add_past(); });
}

TEST(WireTest, AListInAListAboveItsCapIsRefusedByBothEnds) {
  using swarmjob::v1::Header;
  const auto step = [](protocol::Holding& m) -> protocol::HeldStep& {
    m.steps.resize(1);
    return m.steps[0];
  };
  const auto wire_step = [](Header& h) {
    if (h.holding().steps_size() == 0) h.mutable_holding()->add_steps();
    return h.mutable_holding()->mutable_steps(0);
  };
  ExpectCap<protocol::Holding>(
      kStagesMax, [&](auto& m) -> auto& { return step(m).reduces; },
      [&](Header& h) { wire_step(h)->add_reduces(); });
  ExpectCap<protocol::Holding>(
      kMembersMax,
      [&](auto& m) -> auto& {
        step(m).reduces.resize(1);
        return m.steps[0].reduces[0].participants;
      },
      [&](Header& h) {
        auto* held = wire_step(h);
        if (held->reduces_size() == 0) held->add_reduces();
        held->mutable_reduces(0)->add_participants();
      });
}

TEST(WireTest, AStatusListsNoMoreWorkersThanAJobHas) {
  protocol::JobStatus status;
  status.stages.resize(2);
  status.stages[0].workers.resize(kMembersMax);
  EXPECT_TRUE(EncodeHeader(status).ok());
  status.stages[1].workers.resize(1);
  EXPECT_EQ(EncodeHeader(status).status().code(), StatusCode::kInvalidArgument);
  swarmjob::v1::Header header;
  for (int stage = 0; stage < 2; ++stage) header.mutable_job_status()->add_stages();
  for (int i = 0; i < kMembersMax; ++i) {
    header.mutable_job_status()->mutable_stages(0)->add_workers();
  }
  EXPECT_TRUE(DecodeHeader(AsBytes(header.SerializeAsString())).ok());
  header.mutable_job_status()->mutable_stages(1)->add_workers();
  EXPECT_EQ(DecodeHeader(AsBytes(header.SerializeAsString())).status().code(),
            StatusCode::kDataLoss);
}

/// `count` contributions as a worker of the last stage has them.
std::vector<protocol::Contribution> Contributions(std::size_t count) {
  std::vector<protocol::Contribution> contributions(count);
  for (std::size_t m = 0; m < count; ++m) {
    contributions[m] = {protocol::Microbatch(m), {protocol::Term(3), 1000 * m}, 1.0 / (1.0 + m)};
  }
  return contributions;
}

TEST(WireTest, TheContributionsOfAHundredThousandMicrobatchesFit) {
  constexpr std::size_t kMicrobatches = 100000;
  protocol::Parcel parcel;
  protocol::ParcelHeld held;
  protocol::Holding holding;
  holding.steps.resize(1);
  parcel.contributions = held.contributions = holding.steps[0].folded =
      Contributions(kMicrobatches);
  for (const protocol::Message& sent :
       {protocol::Message(parcel), protocol::Message(held), protocol::Message(holding)}) {
    const auto encoded = EncodeHeader(sent);
    ASSERT_TRUE(encoded.ok()) << encoded.status().ToString();
    const auto received = DecodeHeader(AsBytes(*encoded));
    ASSERT_TRUE(received.ok()) << received.status().ToString();
    EXPECT_TRUE(SameFields(sent, *received)) << MessageName(sent);
  }
}

TEST(WireTest, MoreContributionsThanAnyStepHasAreRefusedByBothEnds) {
  protocol::ParcelHeld held;
  held.contributions.resize(kMicrobatchesMax + 1);
  const Status too_many = EncodeHeader(held).status();
  EXPECT_EQ(too_many.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(too_many.ToString().find("a list of"), std::string::npos) << too_many.ToString();
  // An empty contribution takes two bytes: the list's cap, not the header's, is what binds.
  swarmjob::v1::Header header;
  for (int i = 0; i <= kMicrobatchesMax; ++i) header.mutable_parcel()->add_contributions();
  ASSERT_LT(header.ByteSizeLong(), kHeaderBytesMax);
  EXPECT_EQ(DecodeHeader(AsBytes(header.SerializeAsString())).status().code(),
            StatusCode::kDataLoss);
}

TEST(WireTest, AHeaderAboveItsCapIsRefusedByBothEnds) {
  protocol::Welcome welcome;
  welcome.job_json.assign(kHeaderBytesMax, 'x');
  EXPECT_EQ(EncodeHeader(welcome).status().code(), StatusCode::kInvalidArgument);
  swarmjob::v1::Header header;
  header.mutable_welcome()->set_job_json(welcome.job_json);
  EXPECT_EQ(DecodeHeader(AsBytes(header.SerializeAsString())).status().code(),
            StatusCode::kDataLoss);
}

TEST(WireTest, TextThatIsNotUtf8StillArrives) {
  const auto encoded = EncodeHeader(protocol::Failure{"cannot read caf\xe9.bin"});
  ASSERT_TRUE(encoded.ok());
  const auto decoded = DecodeHeader(AsBytes(*encoded));
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(std::get<protocol::Failure>(*decoded).reason, "cannot read caf?.bin");
}

TEST(Utf8Test, KnowsWellFormedText) {
  for (const char* good :
       {"", "plain", "ü", "€", "\xf0\x9f\x90\x9d", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(IsUtf8(good)) << good;
  }
  for (const char* bad : {"\x80", "\xc1\x81", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                          "\xf8\x88\x80\x80", "\xe2\x82", "a\xff"}) {
    EXPECT_FALSE(IsUtf8(bad));
  }
}

}  // namespace
}  // namespace swarm::net

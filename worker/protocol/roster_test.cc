#include "worker/protocol/roster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/rng.h"

namespace swarm::protocol {
namespace {

Member MemberOf(const std::string& name, std::uint64_t incarnation = 1) {
  return {.id = WorkerId(name), .incarnation = Incarnation(incarnation)};
}

TEST(RosterTest, AMemberIsFoundByItsIdAndAStrangerIsNot) {
  const Roster roster{.members = {MemberOf("a"), MemberOf("c")}};
  EXPECT_EQ(FindMember(roster, WorkerId("c")), &roster.members[1]);
  EXPECT_EQ(FindMember(roster, WorkerId("b")), nullptr);
  EXPECT_EQ(FindMember(roster, WorkerId("d")), nullptr);
}

TEST(RosterTest, AWorkerThatCameBackIsAMemberAsItsNewIncarnation) {
  Roster roster{.members = {MemberOf("a"), MemberOf("b")}};
  Apply({.came = {MemberOf("a", 2)}, .gone = {WorkerId("a")}}, &roster);
  EXPECT_EQ(roster.members, (SharedVector{MemberOf("a", 2), MemberOf("b")}));
}

TEST(RosterTest, OfTwoNeighboursOneDialsAndWhoeverHasNoAddressDoes) {
  Member a = MemberOf("a"), b = MemberOf("b");
  for (const bool reachable : {false, true}) {
    a.addresses = b.addresses = {};
    if (reachable) a.addresses = b.addresses = {{"cluster", "host:1", ""}};
    EXPECT_TRUE(IsDialler(a, b));
    EXPECT_FALSE(IsDialler(b, a));
  }
  const std::vector<Address> relay{{kRelayScope, "", ""}};
  for (const auto& only_dials : {std::vector<Address>(), relay}) {
    a.addresses = {{"cluster", "host:1", ""}};
    b.addresses = only_dials;
    EXPECT_FALSE(IsDialler(a, b));
    EXPECT_TRUE(IsDialler(b, a));
  }
  a.addresses = b.addresses = relay;
  EXPECT_TRUE(IsDialler(a, b));
  EXPECT_FALSE(IsDialler(b, a));
}

TEST(RosterTest, WhoHasTheAddressOfTheRelayAloneIsReachedThroughIt) {
  Member a = MemberOf("a");
  EXPECT_FALSE(IsRelayed(a)) << "nobody reaches it but those that it dials";
  a.addresses = {{kRelayScope, "", ""}};
  EXPECT_TRUE(IsRelayed(a));
  a.addresses.push_back({"cluster", "host:1", ""});
  EXPECT_FALSE(IsRelayed(a));
}

TEST(RosterTest, AWorkerOfAnotherClusterIsTriedByItsGatewayFirst) {
  const Address own{"cluster", "10.0.0.7:7000", ""};
  const Address gateway{"global", "west.example:7443", "tiny-w7.tiny-workers.team.svc"};
  Member west = MemberOf("tiny-w7");
  west.cluster = "west";
  west.addresses = {own, gateway};
  EXPECT_EQ(WaysTo(west, "west"), (std::vector{own, gateway}));
  EXPECT_EQ(WaysTo(west, "home"), (std::vector{gateway, own}));
  west.addresses = {own};
  EXPECT_EQ(WaysTo(west, "home"), (std::vector{own})) << "the networks are one";
}

TEST(RosterTest, ChangesOneAfterTheOtherGiveTheRosterOfTheLastEpoch) {
  Rng rng(1);
  std::map<WorkerId, Member> truth;
  Roster known;
  for (std::uint64_t epoch = 1; epoch <= 200; ++epoch) {
    RosterChange change{Term(2), Generation(3), Epoch(epoch), {}, {}, {}};
    for (int i = 0; i < 30; ++i) {
      const std::string name = "w" + std::to_string(i);
      if (rng.Below(4) > 0) continue;
      if (truth.erase(WorkerId(name)) > 0) change.gone.emplace_back(name);
      if (rng.Below(2) == 0) truth[WorkerId(name)] = MemberOf(name, epoch);
    }
    std::ranges::sort(change.gone);
    for (const auto& [id, member] : truth) {
      if (member.incarnation == Incarnation(epoch)) change.came.push_back(member);
    }
    Apply(change, &known);
    Roster expected{Term(2), Generation(3), Epoch(epoch), {}, {}};
    for (const auto& [id, member] : truth) expected.members.Own().push_back(member);
    ASSERT_EQ(known, expected);
  }
}

}  // namespace
}  // namespace swarm::protocol

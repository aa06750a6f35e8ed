#include "worker/protocol/fetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <optional>

#include "base/rng.h"

namespace swarm::protocol {
namespace {

using Ask = Fetcher::Ask;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const WorkerId kAda("ada");
const WorkerId kBob("bob");
const WorkerId kCal("cal");

Timepoint At(int second) { return Timepoint() + seconds(second); }

Fetcher MakeFetcher(std::vector<WorkerId> donors, std::uint64_t pieces,
                    std::uint64_t owed_max = 2) {
  Fetcher fetcher({.donors = std::move(donors), .owed_max = owed_max});
  fetcher.Want(pieces);
  return fetcher;
}

TEST(FetcherTest, AsksAllDonorsAtOnceAndNoneForMoreThanItMayOwe) {
  Fetcher fetcher = MakeFetcher({kAda, kBob, kCal}, 100);
  EXPECT_THAT(fetcher.Next(At(0)), ElementsAre(Ask{kAda, 0}, Ask{kBob, 1}, Ask{kCal, 2},
                                               Ask{kAda, 3}, Ask{kBob, 4}, Ask{kCal, 5}));
  EXPECT_THAT(fetcher.Next(At(0)), IsEmpty());
  fetcher.OnPiece(kBob, 4, true, At(1));
  EXPECT_THAT(fetcher.Next(At(1)), ElementsAre(Ask{kBob, 6})) << "who is quick gets more";
}

TEST(FetcherTest, AsksAFarDonorOnlyForWhatNoNearOneGives) {
  Fetcher fetcher({.donors = {kAda, kBob, kCal}, .far = {kAda}, .owed_max = 2});
  fetcher.Want(6);
  EXPECT_THAT(fetcher.Next(At(0)),
              ElementsAre(Ask{kBob, 0}, Ask{kCal, 1}, Ask{kBob, 2}, Ask{kCal, 3}));
  fetcher.OnPiece(kBob, 0, true, At(1));
  EXPECT_THAT(fetcher.Next(At(1)), ElementsAre(Ask{kBob, 4})) << "however busy they are";
  fetcher.OnPiece(kCal, 1, false, At(1));
  EXPECT_THAT(fetcher.Next(At(1)), ElementsAre(Ask{kCal, 5}))
      << "Bob owes enough, and is not asked";
  fetcher.OnGone(kBob, "connection reset");
  fetcher.OnGone(kCal, "connection reset");
  EXPECT_THAT(fetcher.Next(At(1)), ElementsAre(Ask{kAda, 1}, Ask{kAda, 2}));
}

TEST(FetcherTest, AsksAFarDonorWhereNearOnesAreSilent) {
  Fetcher fetcher({.donors = {kAda, kBob}, .far = {kAda}});
  fetcher.Want(1);
  EXPECT_THAT(fetcher.Next(At(0)), ElementsAre(Ask{kBob, 0}));
  EXPECT_THAT(fetcher.Next(At(5)), ElementsAre(Ask{kAda, 0}));
}

TEST(FetcherTest, IsDoneWhenAllIsHere) {
  Fetcher fetcher = MakeFetcher({kAda}, 1);
  fetcher.Next(At(0));
  EXPECT_FALSE(fetcher.done());
  EXPECT_TRUE(fetcher.Wants(0));
  fetcher.OnPiece(kAda, 0, true, At(0));
  EXPECT_FALSE(fetcher.Wants(0));
  EXPECT_FALSE(fetcher.Wants(1));
  EXPECT_TRUE(fetcher.done());
  fetcher.Want(2);
  EXPECT_FALSE(fetcher.done()) << "it told of one more";
  EXPECT_THAT(fetcher.Next(At(0)), ElementsAre(Ask{kAda, 1}));
}

TEST(FetcherTest, AsksAnotherForWhatALostDonorOwed) {
  Fetcher fetcher = MakeFetcher({kAda, kBob}, 4, 4);
  fetcher.Next(At(0));  // 0 and 2 of Ada
  fetcher.OnGone(kAda, "connection reset");
  EXPECT_THAT(fetcher.Next(At(0)), UnorderedElementsAre(Ask{kBob, 0}, Ask{kBob, 2}));
}

TEST(FetcherTest, AsksAnotherForACorruptPieceAndDropsWhoSendsTwo) {
  Fetcher fetcher = MakeFetcher({kAda, kBob}, 100);
  fetcher.Next(At(0));  // 0 and 2 of Ada
  fetcher.OnPiece(kAda, 0, false, At(0));
  fetcher.OnPiece(kBob, 1, true, At(0));
  EXPECT_THAT(fetcher.Next(At(0)), UnorderedElementsAre(Ask{kBob, 0}, Ask{kAda, 4}));
  fetcher.OnPiece(kAda, 2, false, At(0));
  fetcher.OnPiece(kBob, 0, true, At(0));
  fetcher.OnPiece(kBob, 3, true, At(0));
  EXPECT_THAT(fetcher.Next(At(0)), ElementsAre(Ask{kBob, 2}, Ask{kBob, 4}));
}

TEST(FetcherTest, AsksTheSameAgainWhenThereIsNobodyElse) {
  Fetcher fetcher = MakeFetcher({kAda}, 1);
  fetcher.Next(At(0));
  fetcher.OnPiece(kAda, 0, false, At(0));
  EXPECT_THAT(fetcher.Next(At(0)), ElementsAre(Ask{kAda, 0}));
  fetcher.OnPiece(kAda, 0, false, At(0));
  EXPECT_THAT(fetcher.Next(At(0)), IsEmpty());
  EXPECT_EQ(fetcher.failure(), "no donor is left; ada: sent 2 corrupt pieces");
}

TEST(FetcherTest, ASilentDonorIsAskedForNothingMoreUntilItSpeaks) {
  Fetcher fetcher = MakeFetcher({kAda, kBob}, 100);
  fetcher.Next(At(0));  // 0 and 2 of Ada, 1 and 3 of Bob
  fetcher.OnPiece(kBob, 1, true, At(4));
  EXPECT_THAT(fetcher.Next(At(4)), ElementsAre(Ask{kBob, 4})) << "patience is five seconds";
  fetcher.OnPiece(kBob, 3, true, At(5));
  EXPECT_THAT(fetcher.Next(At(5)), ElementsAre(Ask{kBob, 0}));
  fetcher.OnPiece(kAda, 0, true, At(6));
  EXPECT_THAT(fetcher.Next(At(6)), ElementsAre(Ask{kAda, 5}, Ask{kBob, 2}, Ask{kAda, 6}))
      << "late is not wrong";
}

TEST(FetcherTest, ADonorThatSendsSteadilyIsNotSilentHoweverSlow) {
  Fetcher fetcher = MakeFetcher({kAda, kBob}, 6, 3);
  fetcher.Next(At(0));  // 0, 2, 4 of Ada
  for (const std::uint64_t piece : {1, 3, 5}) fetcher.OnPiece(kBob, piece, true, At(0));
  fetcher.OnPiece(kAda, 0, true, At(4));
  fetcher.OnPiece(kAda, 2, true, At(8));
  EXPECT_THAT(fetcher.Next(At(12)), IsEmpty());
  EXPECT_THAT(fetcher.Next(At(13)), ElementsAre(Ask{kBob, 4}));
}

TEST(FetcherTest, FailsWhenAllAreSilentForTooLong) {
  Fetcher fetcher = MakeFetcher({kAda, kBob}, 1);
  EXPECT_THAT(fetcher.Next(At(0)), ElementsAre(Ask{kAda, 0}));
  EXPECT_THAT(fetcher.Next(At(5)), ElementsAre(Ask{kBob, 0}));
  int now = 10;
  for (; fetcher.failure().empty() && now < 100; now += 5) fetcher.Next(At(now));
  EXPECT_EQ(fetcher.failure(), "no donor is left; ada: silent; bob: silent");
  EXPECT_LE(now, 40);
}

TEST(FetcherTest, FailsWhenOnePieceDoesNotComeWhileOthersDo) {
  Fetcher fetcher = MakeFetcher({kAda}, 100);
  std::uint64_t asks = 0;
  for (int now = 0; fetcher.failure().empty() && now < 1000; now += 5) {
    for (const Ask& ask : fetcher.Next(At(now))) {
      asks += ask.piece == 0;
      if (ask.piece != 0) fetcher.OnPiece(kAda, ask.piece, true, At(now));
    }
  }
  EXPECT_EQ(fetcher.failure(), "piece 0 did not come from any donor; ada: there");
  EXPECT_EQ(asks, 3);
}

TEST(FetcherTest, SaysWhyItFailed) {
  Fetcher fetcher = MakeFetcher({kAda, kBob}, 3);
  fetcher.Next(At(0));
  fetcher.OnGone(kAda, "version 7 is not pinned");
  EXPECT_EQ(fetcher.failure(), "");
  fetcher.OnGone(kBob, "evicted");
  EXPECT_EQ(fetcher.failure(), "no donor is left; ada: version 7 is not pinned; bob: evicted");
  EXPECT_THAT(MakeFetcher({}, 3).failure(), HasSubstr("no donor"));
}

TEST(FetcherTest, AStrangerCanOnlyHelp) {
  Fetcher fetcher = MakeFetcher({kAda}, 1);
  fetcher.Next(At(0));
  const WorkerId stranger("eve");
  for (int i = 0; i < 9; ++i) fetcher.OnPiece(stranger, 0, false, At(0));
  fetcher.OnGone(stranger, "evicted");
  EXPECT_FALSE(fetcher.done());
  EXPECT_EQ(fetcher.failure(), "");
  fetcher.OnPiece(stranger, 0, true, At(0));
  EXPECT_TRUE(fetcher.done());
}

/// A fetch from donors of which all but the first `honest` do what they like: answer late, corrupt,
/// not at all, or die. Honest ones answer in less time than the fetcher's patience.
class Scene {
 public:
  Scene(std::uint64_t honest, std::uint64_t hostile, std::uint64_t pieces, std::uint64_t owed_max,
        std::uint64_t seed)
      : honest_(honest), rng_(seed), fetcher_(OptionsOf(honest + hostile, owed_max)) {
    fetcher_.Want(pieces);
  }

  void Run() {
    constexpr Duration kLong = std::chrono::hours(1);  // of virtual time: it should have ended
    for (Send(); (!answers_.empty() || Waiting()) && now_ < Timepoint() + kLong; Send()) {
      if (answers_.empty() || answers_.begin()->first > now_ + seconds(1)) {
        now_ += seconds(1);
        continue;
      }
      const auto next = answers_.extract(answers_.begin());
      now_ = std::max(now_, next.key());
      Answer(next.mapped());
    }
  }

  const Fetcher& fetcher() const { return fetcher_; }
  std::uint64_t asks_of_one_piece_max() const {
    std::uint64_t most = 0;
    for (const auto& [piece, asks] : asks_) most = std::max(most, asks);
    return most;
  }

 private:
  static FetcherOptions OptionsOf(std::uint64_t donors, std::uint64_t owed_max) {
    FetcherOptions options{.owed_max = owed_max};
    for (std::uint64_t i = 0; i < donors; ++i) {
      options.donors.emplace_back(std::to_string(i));
    }
    return options;
  }

  bool Waiting() const { return !fetcher_.done() && fetcher_.failure().empty(); }
  bool IsHonest(const WorkerId& donor) const { return std::stoull(donor.value) < honest_; }

  void Send() {
    for (const Ask& ask : fetcher_.Next(now_)) {
      ++asks_[ask.piece];
      const std::uint64_t milliseconds = rng_.Below(IsHonest(ask.donor) ? 4900 : 20000);
      answers_.emplace(now_ + std::chrono::milliseconds(milliseconds), ask);
    }
  }

  void Answer(const Ask& ask) {
    const std::uint64_t mood = IsHonest(ask.donor) ? 0 : rng_.Below(6);
    if (mood <= 2) fetcher_.OnPiece(ask.donor, ask.piece, true, now_);
    if (mood == 3) fetcher_.OnPiece(ask.donor, ask.piece, false, now_);
    if (mood == 4 && rng_.Below(4) == 0) fetcher_.OnGone(ask.donor, "lost");
  }

  const std::uint64_t honest_;
  Rng rng_;
  Fetcher fetcher_;
  Timepoint now_;
  std::multimap<Timepoint, Ask> answers_;
  std::map<std::uint64_t, std::uint64_t> asks_;
};

TEST(FetcherPropertyTest, OneHonestDonorIsEnough) {
  EXPECT_TRUE(rc::check("completes, and asks for no piece more often than allowed", [] {
    const auto honest = *rc::gen::inRange<std::uint64_t>(1, 3);
    const auto hostile = *rc::gen::inRange<std::uint64_t>(0, 5);
    Scene scene(honest, hostile, *rc::gen::inRange<std::uint64_t>(0, 200),
                *rc::gen::inRange<std::uint64_t>(1, 6), *rc::gen::arbitrary<std::uint64_t>());
    scene.Run();
    RC_ASSERT(scene.fetcher().failure() == "");
    RC_ASSERT(scene.fetcher().done());
    RC_ASSERT(scene.asks_of_one_piece_max() <= (honest + hostile) * FetcherOptions().asks_max);
  }));
}

TEST(FetcherPropertyTest, WithoutAnHonestDonorItEndsOneWayOrTheOther) {
  EXPECT_TRUE(rc::check("completes or fails", [] {
    const auto hostile = *rc::gen::inRange<std::uint64_t>(0, 5);
    Scene scene(0, hostile, *rc::gen::inRange<std::uint64_t>(1, 40),
                *rc::gen::inRange<std::uint64_t>(1, 6), *rc::gen::arbitrary<std::uint64_t>());
    scene.Run();
    RC_ASSERT(scene.fetcher().done() != !scene.fetcher().failure().empty());
    RC_ASSERT(scene.asks_of_one_piece_max() <= hostile * FetcherOptions().asks_max);
  }));
}

}  // namespace
}  // namespace swarm::protocol

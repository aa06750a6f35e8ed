#include "worker/stage/join/joining.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "worker/stage/join/donor.h"

namespace swarm::stage {
namespace {

using checkpoint::kPieceBytes;
using checkpoint::NamedTensor;
using checkpoint::PiecedBytes;
using protocol::Fetch;
using protocol::Fetched;
using protocol::FetchKind;
using protocol::Generation;
using protocol::GroupIndex;
using protocol::Step;
using protocol::Version;
using protocol::WorkerId;
using ::testing::HasSubstr;

constexpr Generation kGeneration(2);
constexpr Version kVersion(7);

Bytes RandomBytes(std::size_t size, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::uint64_t> words(size / 8 + 1);
  for (std::uint64_t& word : words) word = rng();
  return Bytes::Copy(words.data(), size);
}

/// A state of four pieces; the elements come from the seed.
std::vector<NamedTensor> StateOf(std::uint64_t seed) {
  std::vector<NamedTensor> tensors;
  for (const std::int64_t rows : {1, 5, 9}) {
    tensors.push_back({"layer" + std::to_string(rows),
                       checkpoint::ElementType::kF32,
                       {rows, 1 << 18},
                       RandomBytes(static_cast<std::size_t>(rows) << 20, seed + rows)});
  }
  return tensors;
}

std::shared_ptr<const PiecedBytes> Cut(const std::vector<NamedTensor>& tensors) {
  auto pieced = checkpoint::CutState(tensors);
  EXPECT_TRUE(pieced.ok()) << pieced.status().ToString();
  return std::make_shared<const PiecedBytes>(*std::move(pieced));
}

Bytes Flipped(const Bytes& bytes) {
  std::string changed(bytes.text());
  if (!changed.empty()) changed[changed.size() / 2] ^= 1;
  return Bytes::Copy(changed);
}

/// Three donors, and the requests to them. A test decides how they are answered.
class JoiningTest : public ::testing::Test {
 protected:
  JoiningTest() {
    for (const char* name : {"ada", "bob", "cal"}) {
      const WorkerId id(name);
      donors_.try_emplace(
          id, &account_,
          [this, id](Generation, Step step, GroupIndex group, const protocol::Attempt&) {
            const auto found = gradients_.find({id, step, group});
            return found == gradients_.end() ? nullptr : found->second;
          });
    }
  }

  void PinEverywhere(const std::shared_ptr<const PiecedBytes>& state) {
    for (auto& [id, donor] : donors_) donor.Pin(kGeneration, kVersion, state);
  }

  protocol::Welcome WelcomeTo(const Digest& state) const {
    protocol::Welcome welcome{.generation = kGeneration, .version = kVersion};
    welcome.state = state;
    for (const auto& [id, donor] : donors_) {
      protocol::Member member;
      member.id = id;
      welcome.donors.push_back(member);
    }
    return welcome;
  }

  SendFetch Sender() {
    return [this](const WorkerId& to, const Fetch& fetch) { asked_.push_back({to, fetch}); };
  }

  void FetchState(const Digest& digest) {
    state_fetch_.emplace(WelcomeTo(digest), Sender(),
                         [this](Result<checkpoint::TensorLookup> result) {
                           EXPECT_FALSE(state_.has_value()) << "called twice";
                           state_ = std::move(result);
                         });
    state_fetch_->OnTick(now_);
  }

  /// Answers the requests in order, after `tamper` has changed the answers.
  using Tamper = std::function<void(const WorkerId& donor, Donor::Answer& answer)>;
  template <typename Joining>
  void Serve(Joining& fetch, const Tamper& tamper = [](const WorkerId&, Donor::Answer&) {}) {
    while (!asked_.empty()) {
      const auto [to, request] = asked_.front();
      asked_.pop_front();
      if (lost_.contains(to)) continue;
      Donor::Answer answer = donors_.at(to).OnFetch(request);
      tamper(to, answer);
      served_bytes_[to] += answer.payload.size();
      EXPECT_TRUE(fetch.OnFetched(to, answer.message, answer.payload, now_));
    }
  }

  void ExpectState(const std::vector<NamedTensor>& tensors) {
    ASSERT_TRUE(state_.has_value()) << "not done";
    ASSERT_TRUE(state_->ok()) << state_->status().ToString();
    for (const NamedTensor& tensor : tensors) {
      const auto found = (**state_)(tensor.name);
      ASSERT_TRUE(found.ok()) << found.status().ToString();
      EXPECT_EQ(found->shape, tensor.shape);
      EXPECT_TRUE(found->data.text() == tensor.data.text()) << tensor.name;
    }
  }

  const WorkerId ada_{"ada"};
  const WorkerId bob_{"bob"};
  const WorkerId cal_{"cal"};
  Timepoint now_;
  MemoryAccount account_;
  std::map<WorkerId, Donor> donors_;
  std::map<std::tuple<WorkerId, Step, GroupIndex>, std::shared_ptr<const PiecedBytes>> gradients_;
  std::deque<std::pair<WorkerId, Fetch>> asked_;
  std::set<WorkerId> lost_;
  std::map<WorkerId, std::uint64_t> served_bytes_;
  std::optional<StateFetch> state_fetch_;
  std::optional<Result<checkpoint::TensorLookup>> state_;
};

TEST_F(JoiningTest, AStateForWhichThereIsNoMemoryIsRefusedInWords) {
  const auto state = Cut(StateOf(1));
  PinEverywhere(state);
  std::uint64_t asked = 0;
  StateFetch fetch(
      WelcomeTo(state->digest()), Sender(),
      [this](Result<checkpoint::TensorLookup> result) { state_ = std::move(result); },
      [&](std::uint64_t bytes) -> Result<std::shared_ptr<std::byte>> {
        asked = bytes;
        return ResourceExhausted("the disk is full");
      });
  fetch.OnTick(now_);
  Serve(fetch);
  EXPECT_EQ(asked, state->bytes());
  ASSERT_TRUE(state_.has_value());
  EXPECT_EQ(state_->status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(state_->status().message().find("the disk is full"), std::string::npos);
}

TEST_F(JoiningTest, TheStateComesFromAllDonors) {
  const auto tensors = StateOf(1);
  const auto state = Cut(tensors);
  PinEverywhere(state);
  FetchState(state->digest());
  Serve(*state_fetch_);
  ExpectState(tensors);
  for (const auto& [id, donor] : donors_) EXPECT_GE(served_bytes_[id], kPieceBytes) << id.value;
}

TEST_F(JoiningTest, TheStateComesFromNearDonorsIfThereAreAny) {
  const auto tensors = StateOf(1);
  const auto state = Cut(tensors);
  PinEverywhere(state);
  protocol::Welcome welcome = WelcomeTo(state->digest());
  welcome.donors.at(0).region = "us";
  welcome.donors.at(1).region = welcome.donors.at(2).region = "eu";
  for (const std::string region : {"eu", "asia"}) {
    served_bytes_.clear();
    state_.reset();
    state_fetch_.emplace(
        welcome, Sender(),
        [this](Result<checkpoint::TensorLookup> result) { state_ = std::move(result); },
        MakeHeapMemory, region);
    state_fetch_->OnTick(now_);
    Serve(*state_fetch_);
    ExpectState(tensors);
    EXPECT_EQ(served_bytes_.contains(welcome.donors.at(0).id), region == "asia") << region;
  }
}

TEST_F(JoiningTest, ACorruptPieceComesFromAnotherDonor) {
  const auto tensors = StateOf(1);
  const auto state = Cut(tensors);
  PinEverywhere(state);
  FetchState(state->digest());
  std::vector<WorkerId> senders_of_piece_1;
  Serve(*state_fetch_, [&](const WorkerId& donor, Donor::Answer& answer) {
    if (answer.message.kind != FetchKind::kState || answer.message.piece != 1) return;
    senders_of_piece_1.push_back(donor);
    if (senders_of_piece_1.size() == 1) answer.payload = Flipped(answer.payload);
  });
  ExpectState(tensors);
  ASSERT_EQ(senders_of_piece_1.size(), 2u);
  EXPECT_NE(senders_of_piece_1[0], senders_of_piece_1[1]);
}

TEST_F(JoiningTest, APieceOfAnotherSizeIsCorrupt) {
  const auto tensors = StateOf(1);
  const auto state = Cut(tensors);
  PinEverywhere(state);
  FetchState(state->digest());
  bool first = true;
  Serve(*state_fetch_, [&](const WorkerId&, Donor::Answer& answer) {
    if (answer.message.kind != FetchKind::kState || !std::exchange(first, false)) return;
    answer.payload = Bytes::Copy(std::string(answer.payload.text()) + "and more");
  });
  ExpectState(tensors);
}

TEST_F(JoiningTest, ADonorThatDiesCostsItsPiecesOnly) {
  const auto tensors = StateOf(1);
  const auto state = Cut(tensors);
  PinEverywhere(state);
  FetchState(state->digest());
  Serve(*state_fetch_, [&](const WorkerId& donor, Donor::Answer& answer) {
    if (answer.message.kind == FetchKind::kStateIndex) lost_.insert(bob_);
  });
  EXPECT_FALSE(state_.has_value());
  state_fetch_->OnDonorLost(bob_, now_);
  Serve(*state_fetch_);
  ExpectState(tensors);
  EXPECT_EQ(served_bytes_[bob_], 0u);
}

TEST_F(JoiningTest, ADonorThatFallsSilentIsReplacedInTime) {
  const auto tensors = StateOf(1);
  const auto state = Cut(tensors);
  PinEverywhere(state);
  FetchState(state->digest());
  lost_.insert(ada_);  // unnoticed
  Serve(*state_fetch_);
  for (int i = 0; i < 60 && !state_.has_value(); ++i) {
    now_ += std::chrono::seconds(1);
    state_fetch_->OnTick(now_);
    Serve(*state_fetch_);
  }
  ExpectState(tensors);
}

TEST_F(JoiningTest, AnIndexThatTheTrainerHasNotNamedIsRefused) {
  const auto tensors = StateOf(1);
  const auto state = Cut(tensors);
  PinEverywhere(state);
  donors_.at(ada_).Pin(kGeneration, kVersion, Cut(StateOf(2)));  // is asked first
  FetchState(state->digest());
  Serve(*state_fetch_);
  ExpectState(tensors);
}

TEST_F(JoiningTest, PiecesOfTwoVersionsAreNeverMixed) {
  const auto tensors = StateOf(1);
  const auto state = Cut(tensors);
  PinEverywhere(state);
  const auto other = Cut(StateOf(2));
  // Claims to be of version 7, but is of another.
  donors_.at(bob_).Pin(kGeneration, kVersion, other);
  FetchState(state->digest());
  std::uint64_t foreign = 0;
  Serve(*state_fetch_, [&](const WorkerId& donor, Donor::Answer& answer) {
    foreign += donor == bob_ && answer.message.kind == FetchKind::kState;
  });
  EXPECT_GT(foreign, 0u);
  ExpectState(tensors);
}

TEST_F(JoiningTest, WhatIsOfAnotherFetchIsLeftAlone) {
  const auto state = Cut(StateOf(1));
  PinEverywhere(state);
  FetchState(state->digest());
  const Fetched right{
      .generation = kGeneration, .kind = FetchKind::kStateIndex, .version = kVersion};
  const auto mine = [&](auto change) {
    Fetched fetched = right;
    change(fetched);
    return state_fetch_->OnFetched(ada_, fetched, state->index(), now_);
  };
  EXPECT_FALSE(mine([](Fetched& f) { f.version = Version(8); }));
  EXPECT_FALSE(mine([](Fetched& f) { f.generation = Generation(1); }));
  EXPECT_FALSE(mine([](Fetched& f) { f.kind = FetchKind::kGradientIndex; }));
  EXPECT_TRUE(mine([](Fetched& f) { f.kind = FetchKind::kState, f.piece = ~std::uint64_t{0}; }));
  Serve(*state_fetch_);
  EXPECT_TRUE(state_.has_value());
}

TEST_F(JoiningTest, RepeatedAndUnaskedAnswersDoNoHarm) {
  const auto tensors = StateOf(1);
  const auto state = Cut(tensors);
  PinEverywhere(state);
  FetchState(state->digest());
  const WorkerId stranger("eve");
  Serve(*state_fetch_, [&](const WorkerId& donor, Donor::Answer& answer) {
    state_fetch_->OnFetched(stranger, answer.message, answer.payload, now_);
    state_fetch_->OnFetched(donor, answer.message, Flipped(answer.payload), now_);
    const Fetched index{
        .generation = kGeneration, .kind = FetchKind::kStateIndex, .version = kVersion};
    state_fetch_->OnFetched(stranger, index, state->index(), now_);
  });
  ExpectState(tensors);
}

TEST_F(JoiningTest, WhoHasNotPinnedTheStateIsNotAskedAgain) {
  const auto tensors = StateOf(1);
  const auto state = Cut(tensors);
  donors_.at(cal_).Pin(kGeneration, kVersion, state);
  FetchState(state->digest());
  Serve(*state_fetch_);
  ExpectState(tensors);
}

TEST_F(JoiningTest, SaysWhyThereIsNoState) {
  FetchState(Cut(StateOf(1))->digest());
  Serve(*state_fetch_);
  ASSERT_TRUE(state_.has_value());
  EXPECT_EQ(state_->status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(state_->status().message(), HasSubstr("the state of version 7"));
  EXPECT_THAT(state_->status().message(), HasSubstr("ada: version 7 is not pinned"));
}

TEST_F(JoiningTest, TheFetchMayBeDestroyedByItsResult) {
  const auto state = Cut(StateOf(1));
  PinEverywhere(state);
  bool done = false;
  std::unique_ptr<StateFetch> fetch;
  fetch = std::make_unique<StateFetch>(WelcomeTo(state->digest()), Sender(),
                                       [&](const Result<checkpoint::TensorLookup>&) {
                                         done = true;
                                         asked_.clear();
                                         fetch.reset();
                                       });
  fetch->OnTick(now_);
  Serve(*fetch);
  EXPECT_TRUE(done);
}

/// The reduced gradients of step 9: of group 1 (two pieces) and of the shared group 4 (one).
class GradientTest : public JoiningTest {
 protected:
  GradientTest() {
    record_.generation = kGeneration;
    record_.step = Step(9);
    for (const GradientFetch::Group& group : groups_) {
      buffers_.push_back(RandomBytes(group.bytes, group.index.value));
      const auto pieced = std::make_shared<const PiecedBytes>(std::vector<Bytes>{buffers_.back()});
      for (const auto& [id, donor] : donors_) gradients_[{id, Step(9), group.index}] = pieced;
      record_.groups.push_back({group.index, {}, pieced->digest()});
    }
    record_.groups.push_back({GroupIndex(2), {}, Digest{}});  // another stage's
  }

  void FetchGradients() {
    fetch_.emplace(record_, groups_, std::vector{ada_, bob_, cal_}, Sender(),
                   [this](Result<std::vector<Bytes>> result) { result_ = std::move(result); });
    fetch_->OnTick(now_);
  }
  void ExpectGradients() {
    ASSERT_TRUE(result_.has_value()) << "not done";
    ASSERT_TRUE(result_->ok()) << result_->status().ToString();
    ASSERT_EQ((*result_)->size(), buffers_.size());
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      EXPECT_TRUE((**result_)[i].text() == buffers_[i].text()) << "group " << i;
    }
  }

  const std::vector<GradientFetch::Group> groups_ = {{GroupIndex(1), kPieceBytes + 4000},
                                                     {GroupIndex(4), 1000}};
  std::vector<Bytes> buffers_;
  protocol::CommitRecord record_;
  std::optional<GradientFetch> fetch_;
  std::optional<Result<std::vector<Bytes>>> result_;
};

TEST_F(GradientTest, AllGroupsOfTheStageComeInOrder) {
  FetchGradients();
  Serve(*fetch_);
  ExpectGradients();
  EXPECT_GT(served_bytes_.size(), 1u) << "from several donors";
}

TEST_F(GradientTest, AnotherAttemptsGradientIsRefused) {
  for (const GradientFetch::Group& group : groups_) {
    gradients_[{ada_, Step(9), group.index}] =
        std::make_shared<const PiecedBytes>(std::vector<Bytes>{RandomBytes(group.bytes, 77)});
  }
  FetchGradients();
  Serve(*fetch_);
  ExpectGradients();
}

TEST_F(GradientTest, WhoHasReleasedTheStepIsReplaced) {
  for (const WorkerId& donor : {ada_, bob_}) gradients_.erase({donor, Step(9), GroupIndex(1)});
  FetchGradients();
  Serve(*fetch_);
  ExpectGradients();
  gradients_.clear();
  FetchGradients();
  Serve(*fetch_);
  EXPECT_EQ(result_->status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(result_->status().message(), HasSubstr("no reduced gradient of step 9"));
}

TEST_F(GradientTest, ASkippedStepNeedsNone) {
  record_.skip = true;
  FetchGradients();
  EXPECT_TRUE(asked_.empty());
  ASSERT_TRUE(result_.has_value());
  EXPECT_TRUE((**result_).empty());
}

TEST_F(GradientTest, ARecordOfAnotherModelIsAnError) {
  record_.groups.erase(record_.groups.begin());
  FetchGradients();
  ASSERT_TRUE(result_.has_value());
  EXPECT_EQ(result_->status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(result_->status().message(), HasSubstr("lacks group 1"));

  const auto longer = std::make_shared<const PiecedBytes>(std::vector{RandomBytes(1008, 1)});
  for (const auto& [id, donor] : donors_) gradients_[{id, Step(9), GroupIndex(1)}] = longer;
  record_.groups.push_back({GroupIndex(1), {}, longer->digest()});
  result_.reset();
  FetchGradients();
  Serve(*fetch_);
  ASSERT_TRUE(result_.has_value());
  EXPECT_EQ(result_->status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(result_->status().message(), HasSubstr("1008 bytes"));
}

}  // namespace
}  // namespace swarm::stage

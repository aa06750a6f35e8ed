#include "worker/stage/state_reader.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "worker/checkpoint/pieces.h"

namespace swarm::stage {
namespace {

/// A state in place, as a stage gives it to be read.
class StateReaderTest : public testing::Test {
 protected:
  StateReader::State State() {
    const auto reading = std::make_shared<int>();
    reading_ = reading;
    return {{"w", checkpoint::ElementType::kF32, {2}, Bytes::Wrap("12345678", 8, reading)}};
  }
  bool IsHeld() const { return !reading_.expired(); }

  MemoryAccount account_;
  StateReader reader_{&account_, [](const Status& why) { ADD_FAILURE() << why.ToString(); }};

 private:
  std::weak_ptr<int> reading_;
};

TEST_F(StateReaderTest, GivesTheDigestThatAJoinerComputesAndHasLetGoOfTheStateByThen) {
  const Digest expected = checkpoint::CutState(State())->digest();
  std::promise<std::pair<Digest, bool>> done;
  reader_.ComputeDigest(State(), [&](const Digest& digest) { done.set_value({digest, IsHeld()}); });
  const auto [digest, held] = done.get_future().get();
  EXPECT_EQ(digest, expected);
  EXPECT_FALSE(held) << "an update would wait for whatever follows";
}

TEST_F(StateReaderTest, ACopyHasMemoryOfItsOwnAndIsInTheAccountAsLongAsItLives) {
  std::promise<std::pair<std::shared_ptr<const StateReader::Copy>, bool>> done;
  reader_.MakeCopy(State(), [&](auto copy) { done.set_value({std::move(copy), IsHeld()}); });
  auto [copy, held] = done.get_future().get();
  EXPECT_FALSE(held);
  EXPECT_EQ(copy->tensors.at(0).data.text(), "12345678");
  EXPECT_EQ(account_.bytes(MemoryKind::kCopies), 8u);
  reader_.Drain().wait();  // the reader itself holds it no more
  copy.reset();
  EXPECT_EQ(account_.bytes(MemoryKind::kCopies), 0u);
}

TEST_F(StateReaderTest, AStateThatWaitsToBeReadCountsAsWorkAndOneThatIsReadAsDone) {
  std::promise<void> gate, done;
  reader_.ComputeDigest(State(), [&](const Digest&) { gate.get_future().wait(); });
  reader_.ComputeDigest(State(), [&](const Digest&) { done.set_value(); });
  EXPECT_GE(reader_.queued(), 1u);
  gate.set_value();
  done.get_future().wait();
  EXPECT_EQ(reader_.queued(), 0u);
  EXPECT_EQ(reader_.finished(), 2u);
}

TEST_F(StateReaderTest, WhatIsNotReadBeforeItStopsIsLetGo) {
  reader_.Stop();
  reader_.ComputeDigest(State(), [](const Digest&) { FAIL(); });
  EXPECT_FALSE(IsHeld());
  reader_.Drain().wait();
}

}  // namespace
}  // namespace swarm::stage

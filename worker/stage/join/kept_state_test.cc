#include "worker/stage/join/kept_state.h"

#include <gtest/gtest.h>

namespace swarm::stage {
namespace {

using checkpoint::ElementType;
using checkpoint::NamedTensor;

std::vector<NamedTensor> Tensors(const std::string& bytes) {
  return {{"a", ElementType::kF32, {1}, Bytes::Copy(bytes)},
          {"optimizer.step.a", ElementType::kI64, {}, Bytes::Copy(bytes + bytes)}};
}

std::shared_ptr<const KeptState> Make(const std::string& bytes) {
  return *KeptState::Make(protocol::StageIndex(1), protocol::Version(7), Tensors(bytes));
}

TEST(KeptStateTest, OffersTheDigestOfTheBytesAsTheyAre) {
  const protocol::HeldState held = Make("1234")->held();
  EXPECT_EQ(held.stage, protocol::StageIndex(1));
  EXPECT_EQ(held.version, protocol::Version(7));
  EXPECT_EQ(held.state, checkpoint::CutState(Tensors("1234"))->digest());
  EXPECT_NE(held.state, Make("1235")->held().state);
}

TEST(KeptStateTest, GivesItsTensorsByNameAsLongAsTheyAreLookedUp) {
  auto state = Make("1234");
  const std::weak_ptr<const KeptState> alive = state;
  checkpoint::TensorLookup lookup = KeptState::LookUpIn(std::move(state));
  EXPECT_FALSE(alive.expired());
  EXPECT_EQ(lookup("a")->data.text(), "1234");
  EXPECT_EQ(lookup("optimizer.step.a")->type, ElementType::kI64);
  EXPECT_EQ(lookup("b").status().code(), StatusCode::kNotFound);
  lookup = nullptr;
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace swarm::stage

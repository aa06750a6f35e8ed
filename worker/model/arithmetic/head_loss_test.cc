#include "worker/model/arithmetic/head_loss.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

namespace swarm::model {
namespace {

struct Problem {
  at::Tensor x, head, labels;
  explicit Problem(at::ScalarType type) {
    at::Generator random = at::detail::createCPUGenerator(1);
    x = at::randn({3, 11, 8}, random, at::kFloat).requires_grad_(true);
    head = at::randn({40, 8}, random, at::kFloat).to(type).requires_grad_(true);
    labels = at::randint(0, 40, {3, 11}, random, at::kLong);
  }
};

/// The loss, and its gradients by x and the head.
std::vector<at::Tensor> Differentiate(const Problem& of, const at::Tensor& loss) {
  std::vector<at::Tensor> results =
      torch::autograd::grad({loss}, {of.x, of.head}, {at::full({}, 0.25)});
  results.push_back(loss.detach());
  return results;
}

std::vector<at::Tensor> ByChunks(const Problem& of, std::int64_t tokens, double z_loss = 0) {
  return Differentiate(of, HeadLoss(of.x, of.head, of.labels, {tokens, z_loss}));
}

std::vector<at::Tensor> ByAutograd(const Problem& of, double z_loss = 0) {
  const at::Tensor logits =
      at::linear(of.x.to(of.head.scalar_type()), of.head).to(at::kFloat).flatten(0, 1);
  const at::Tensor loss = at::cross_entropy_loss(logits, of.labels.flatten());
  auto results = Differentiate(of, loss + z_loss * logits.logsumexp(1).square().mean());
  results.back() = loss.detach();
  return results;
}

void ExpectClose(const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& expected,
                 double tolerance) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(actual[i].sizes(), expected[i].sizes());
    ASSERT_EQ(actual[i].scalar_type(), expected[i].scalar_type());
    const at::Tensor a = actual[i].to(at::kDouble), b = expected[i].to(at::kDouble);
    EXPECT_LT((a - b).norm().item<double>(), tolerance * b.norm().item<double>()) << i;
  }
}

TEST(HeadLossTest, HasTheLossAndTheGradientsOfAllLogitsTogetherHoweverFewAreHeld) {
  const Problem problem(at::kFloat);
  const auto expected = ByAutograd(problem);
  for (const std::int64_t tokens : {1, 7, 32, 33, 1000}) {
    SCOPED_TRACE(tokens);
    ExpectClose(ByChunks(problem, tokens), expected, 1e-6);
  }
}

TEST(HeadLossTest, SumsTheHeadsGradientInFloat32WhereProductsAreBFloat16) {
  const Problem problem(at::kBFloat16);
  const auto expected = ByAutograd(problem);
  for (const std::int64_t tokens : {7, 1000})
    ExpectClose(ByChunks(problem, tokens), expected, 5e-3);
}

TEST(HeadLossTest, InBinary16GradientsAreThoseOfFloat32HoweverManyTokensShareTheLoss) {
  const Problem problem(at::kFloat);
  const auto expected = ByChunks(problem, 7);
  Problem half(at::kFloat);
  half.head = half.head.detach().to(at::kHalf).requires_grad_(true);
  half.head.set_grad_dtype(at::kFloat);
  // An operand is off by 2^-12 in the mean.
  for (const std::int64_t tokens : {7, 1000}) ExpectClose(ByChunks(half, tokens), expected, 5e-4);
  // A head that is wider is rounded.
  const at::Tensor loss =
      HeadLoss(problem.x, problem.head, problem.labels, {.tokens_at_once = 7, .type = at::kHalf});
  ExpectClose(Differentiate(problem, loss), ByChunks(half, 7), 1e-7);
}

TEST(HeadLossTest, AZLossIsInTheGradientsAndNotInTheLoss) {
  const Problem problem(at::kFloat);
  ExpectClose(ByChunks(problem, 7, 0.05), ByAutograd(problem, 0.05), 1e-6);
}

TEST(HeadLossTest, ACapOfLogitsIsInTheLossAndInTheGradients) {
  const Problem problem(at::kFloat);
  const at::Tensor logits = 3 * at::tanh(at::linear(problem.x, problem.head).flatten(0, 1) / 3);
  const auto expected =
      Differentiate(problem, at::cross_entropy_loss(logits, problem.labels.flatten()));
  const at::Tensor loss =
      HeadLoss(problem.x, problem.head, problem.labels, {.tokens_at_once = 7, .cap = 3});
  ExpectClose(Differentiate(problem, loss), expected, 1e-6);
}

TEST(HeadLossTest, AHeadThatIsNotTrainedHasNoGradient) {
  const Problem problem(at::kFloat);
  const at::Tensor frozen = problem.head.detach();
  const at::Tensor loss = HeadLoss(problem.x, frozen, problem.labels, {7});
  const auto of_x = torch::autograd::grad({loss}, {problem.x}, {at::full({}, 0.25)});
  ExpectClose({of_x[0], loss.detach()}, {ByChunks(problem, 7)[0], ByChunks(problem, 7)[2]}, 1e-7);
}

TEST(HeadLossTest, LabelsThatDoNotCountAddNothing) {
  Problem problem(at::kFloat);
  problem.labels.slice(1, 2, 9).fill_(-1);
  const at::Tensor logits = at::linear(problem.x, problem.head).flatten(0, 1);
  const at::Tensor sum = at::cross_entropy_loss(logits, problem.labels.flatten(), {},
                                                at::Reduction::Sum, /*ignore_index=*/-1);
  const auto expected = Differentiate(problem, sum / (3 * 11));
  ExpectClose(ByChunks(problem, 5), expected, 1e-6);
  problem.labels.fill_(-1);
  for (const at::Tensor& result : ByChunks(problem, 5)) {
    EXPECT_TRUE(at::equal(result, at::zeros_like(result)));
  }
}

TEST(HeadLossTest, WithoutGradientsIsTheSameLoss) {
  const Problem problem(at::kFloat);
  const at::Tensor loss = HeadLoss(problem.x, problem.head, problem.labels, {7});
  const at::NoGradGuard no_gradients;
  EXPECT_TRUE(at::equal(HeadLoss(problem.x, problem.head, problem.labels, {7}), loss));
}

TEST(HeadLossTest, HoldsFewerTokensOfALargerVocabularyButNotTooFew) {
  EXPECT_EQ(LossTokensAtOnce(256, false), 65536);
  EXPECT_EQ(LossTokensAtOnce(32768, false), 512);
  EXPECT_EQ(LossTokensAtOnce(32768, true), 4096);
  EXPECT_EQ(LossTokensAtOnce(262144, false), 256);
}

}  // namespace
}  // namespace swarm::model

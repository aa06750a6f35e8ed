#include "worker/model/determinism.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace swarm::model {
namespace {

TEST(DeterminismTest, IsASettingForGpusAlone) {
  SetDeterminism("cpu", true);
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  SetDeterminism("cuda:0", true);
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_FALSE(at::globalContext().deterministicFillUninitializedMemory());
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
  SetDeterminism("cuda:0", false);
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
}

TEST(DeterminismTest, AnOperationWithoutADeterministicFormIsRecognized) {
  SetDeterminism("cuda:0", true);
  std::string message;
  try {
    at::globalContext().alertNotDeterministic("the operation");
  } catch (const c10::Error& error) {
    message = error.what_without_backtrace();
  }
  SetDeterminism("cuda:0", false);
  EXPECT_TRUE(LacksDeterministicForm(message)) << message;
  EXPECT_FALSE(LacksDeterministicForm("CUDA error: an illegal memory access was encountered"));
}

}  // namespace
}  // namespace swarm::model

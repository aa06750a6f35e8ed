#include "operator/objects/resources.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace swarm::objects {
namespace {

int Threads(const char* text) { return ThreadsOf(nlohmann::json::parse(text)); }
std::string Devices(const char* text) {
  std::string list;
  for (const std::string& device : DevicesOf(nlohmann::json::parse(text))) {
    list += (list.empty() ? "" : ",") + device;
  }
  return list;
}

std::uint64_t Memory(const char* text) { return MemoryOf(nlohmann::json::parse(text)); }

TEST(ResourcesTest, MemoryIsTheLimitOrElseTheRequest) {
  EXPECT_EQ(Memory(R"({"limits": {"memory": "8Gi"}, "requests": {"memory": "4Gi"}})"),
            std::uint64_t{8} << 30);
  EXPECT_EQ(Memory(R"({"limits": {"cpu": 1}, "requests": {"memory": "1.5Gi"}})"),
            std::uint64_t{3} << 29);
  EXPECT_EQ(Memory(R"({"limits": {"memory": 4096}})"), 4096u);
  EXPECT_EQ(Memory(R"({"limits": {"memory": "2e9"}})"), 2'000'000'000u);
  EXPECT_EQ(Memory(R"({"limits": {"memory": "500M"}})"), 500'000'000u);
  EXPECT_EQ(Memory(R"({"limits": {"memory": "4096000m"}})"), 4096u);
}

TEST(ResourcesTest, WhatIsNoAmountOfMemoryIsNone) {
  for (const char* text : {"null", "{}", R"({"limits": 3})", R"({"limits": {"memory": "much"}})",
                           R"({"limits": {"memory": "8GiB"}})", R"({"limits": {"memory": -1}})",
                           R"({"limits": {"memory": "nan"}})"}) {
    EXPECT_EQ(Memory(text), 0u) << text;
  }
}

TEST(ResourcesTest, ThreadsFollowTheProcessorsRoundedUp) {
  EXPECT_EQ(Threads(R"({"limits": {"cpu": 4}})"), 4);
  EXPECT_EQ(Threads(R"({"limits": {"cpu": "2500m"}})"), 3);
  EXPECT_EQ(Threads(R"({"limits": {"cpu": "0.5"}})"), 1);
  EXPECT_EQ(Threads(R"({"limits": {"cpu": "3"}, "requests": {"cpu": "1"}})"), 3);
  EXPECT_EQ(Threads(R"({"limits": {"memory": "1Gi"}, "requests": {"cpu": "2"}})"), 2);
  EXPECT_EQ(Threads(R"({"limits": {"cpu": 1e9}})"), 1024);
}

TEST(ResourcesTest, WithoutAUsableNumberThereIsOneThread) {
  for (const char* text : {"null", "{}", "[]", R"({"limits": 3})", R"({"limits": {"cpu": "many"}})",
                           R"({"limits": {"cpu": ["1"]}})", R"({"limits": {"cpu": "-2"}})",
                           R"({"limits": {"cpu": "0"}})", R"({"limits": {"cpu": "nan"}})"}) {
    EXPECT_EQ(Threads(text), 1) << text;
  }
}

TEST(ResourcesTest, AnyVendorsAcceleratorIsSeen) {
  for (const char* text :
       {R"({"limits": {"nvidia.com/gpu": 1}})", R"({"limits": {"amd.com/gpu": "1"}})",
        R"({"limits": {"nvidia.com/mig-1g.5gb": 1}})", R"({"limits": {"gpu.intel.com/i915": 1}})",
        R"({"limits": {"aliyun.com/gpu-mem": 8}})",
        R"({"limits": {"nvidia.com/mig-1g.5gb": 2}})"}) {
    EXPECT_EQ(Devices(text), "cuda:0") << text;
  }
}

TEST(ResourcesTest, EachWholeGpuIsADevice) {
  EXPECT_EQ(Devices(R"({"limits": {"nvidia.com/gpu": 3, "cpu": 8}})"), "cuda:0,cuda:1,cuda:2");
  EXPECT_EQ(Devices(R"({"limits": {"amd.com/gpu": "2"}})"), "cuda:0,cuda:1");
  const auto many = nlohmann::json::parse(R"({"limits": {"nvidia.com/gpu": 1000}})");
  EXPECT_EQ(DevicesOf(many).size(), 64u);
}

TEST(ResourcesTest, WithoutOneTheDeviceIsTheProcessor) {
  for (const char* text :
       {"null", R"({"limits": {"cpu": 4}})", R"({"limits": {"rdma/hca": 1}})",
        R"({"limits": {"nvidia.com/gpu": 0}})", R"({"limits": []})",
        R"({"limits": {"nvidia.com/gpu": "many"}})", R"({"requests": {"cpu": 1}})"}) {
    EXPECT_EQ(Devices(text), "cpu") << text;
  }
}

}  // namespace
}  // namespace swarm::objects

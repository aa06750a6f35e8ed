#include "ctl/run/listen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swarm::ctl {
namespace {

using testing::HasSubstr;

std::string RefusalOf(const std::string& text) {
  const auto address = ParseListenAddress(text);
  EXPECT_EQ(address.status().code(), StatusCode::kInvalidArgument) << text;
  return address.status().message();
}

TEST(ListenAddressTest, TheTrainerHasThePortBehindThatOfEnrolment) {
  const auto address = ParseListenAddress("10.0.0.5:7400");
  ASSERT_TRUE(address.ok()) << address.status().ToString();
  EXPECT_EQ(address->enrolment(), "10.0.0.5:7400");
  EXPECT_EQ(address->trainer(), "10.0.0.5:7401");
  EXPECT_EQ(address->worker(), "10.0.0.5:0");
}

TEST(ListenAddressTest, PortZeroLeavesAllPortsOpen) {
  const auto address = ParseListenAddress("[fd00::5]:0");
  ASSERT_TRUE(address.ok()) << address.status().ToString();
  EXPECT_EQ(address->enrolment(), "[fd00::5]:0");
  EXPECT_EQ(address->trainer(), "[fd00::5]:0");
}

TEST(ListenAddressTest, WhatNobodyCanDialIsRefused) {
  for (const char* text : {"", "7400", ":7400", "fd00::5:7400"}) {
    EXPECT_THAT(RefusalOf(text), HasSubstr("is no HOST:PORT")) << text;
  }
  for (const char* text : {"0.0.0.0:7400", "[::]:7400"}) {
    EXPECT_THAT(RefusalOf(text), HasSubstr("under which other machines reach this one")) << text;
  }
  for (const char* text : {"host:", "host:x", "host:65535", "host:70000", "host:-1"}) {
    EXPECT_THAT(RefusalOf(text), HasSubstr("is no port")) << text;
  }
}

}  // namespace
}  // namespace swarm::ctl

// The rate of a device made of threads is some number; what fails is told.
#include "worker/device/copy_rate.h"

#include <gtest/gtest.h>

#include "worker/device/testing/fake_device.h"

namespace swarm::device {
namespace {

TEST(CopyRateTest, BothDirectionsAreMeasuredAndNothingIsLeftOnTheDevice) {
  FakeDevice device(3);
  const auto rates = MeasureCopies(device, 0.01);
  ASSERT_TRUE(rates.ok()) << rates.status().ToString();
  EXPECT_GT(rates->to_device, 0);
  EXPECT_GT(rates->from_device, 0);
  EXPECT_EQ(device.CountPieces(), 0u);
  EXPECT_TRUE(device.Violations().empty());
}

TEST(CopyRateTest, ADeviceThatHasFallenOffSaysSo) {
  FakeDevice device(3);
  device.Break(Unavailable("the bus"));
  const auto rates = MeasureCopies(device, 0.01);
  ASSERT_FALSE(rates.ok());
  EXPECT_NE(rates.status().ToString().find("the bus"), std::string::npos);
  EXPECT_EQ(device.CountPieces(), 0u);
}

}  // namespace
}  // namespace swarm::device

#include "worker/prove/keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/files.h"
#include "base/identity/authority.h"
#include "base/identity/testing/made_authority.h"
#include "base/identity/trust.h"
#include "base/testing/temporary_folder.h"

namespace swarm::prove {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

/// A pod, and a home that signs whatever it is asked for.
class KeeperTest : public testing::Test {
 protected:
  KeeperTest() {
    options_.place = {"home:1", "ab", "west", folder_.path() / "token"};
    options_.job_uid = "7";
    options_.worker = "tiny-w3";
    options_.ca = folder_.path() / "tls" / "ca.crt";
    options_.certificate = folder_.path() / "tls" / "tls.crt";
    options_.key = folder_.path() / "tls" / "tls.key";
    EXPECT_TRUE(WriteFile(options_.place.token_file, "ey.J\n").ok());
  }

  Result<enrol::ProveReply> Sign(const enrol::ProveRequest& request, Duration validity) {
    ASSIGN_OR_RETURN(std::string certificate,
                     authority_.Sign(request.request, "x", identity::WorkerUri("7", "tiny-w3"),
                                     std::chrono::hours(1)));
    return enrol::ProveReply{certificate, authority_.pair().certificate, validity};
  }
  std::string Text(const std::filesystem::path& path) {
    const auto read = ReadFile(path);
    return read.ok() ? *read : "";
  }

  TemporaryFolder folder_;
  const identity::JobAuthority authority_ = identity::MadeAuthority("7");
  KeeperOptions options_;
};

TEST_F(KeeperTest, APodHasItsKeyAndACertificateOfItBeforeItsProgramBegins) {
  enrol::ProveRequest asked;
  const auto keeper = Keeper::Start(options_,
                                    [&](const enrol::ProveRequest& request) {
                                      asked = request;
                                      return Sign(request, seconds(3600));
                                    },
                                    {});
  ASSERT_TRUE(keeper.ok()) << keeper.status().ToString();
  EXPECT_EQ(asked.token, "ey.J");
  EXPECT_EQ(asked.job_uid, "7");
  EXPECT_EQ(asked.cluster, "west");
  EXPECT_EQ(asked.worker, "tiny-w3");
  EXPECT_EQ(asked.request.find("PRIVATE KEY"), std::string::npos);
  EXPECT_TRUE(
      identity::CheckPair({Text(options_.certificate), Text(options_.key)}, "crt", "key").ok());
  EXPECT_EQ(Text(options_.ca), authority_.pair().certificate);
  const auto mode = std::filesystem::status(options_.key).permissions();
  EXPECT_EQ(mode, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(KeeperTest, TheNextCertificateIsOfANewKeyAndShowsTheTokenOfThatTime) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> tokens;
  std::set<std::string> requests;
  const auto keeper =
      Keeper::Start(options_,
                    [&](const enrol::ProveRequest& request) {
                      const std::lock_guard lock(mutex);
                      tokens.push_back(request.token);
                      requests.insert(request.request);
                      changed.notify_all();
                      // As the kubelet does.
                      EXPECT_TRUE(WriteFile(options_.place.token_file, "ey.K").ok());
                      return Sign(request, milliseconds(20));
                    },
                    {});
  ASSERT_TRUE(keeper.ok()) << keeper.status().ToString();
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, seconds(20), [&] { return tokens.size() >= 2; }));
  EXPECT_EQ(tokens[0], "ey.J");
  EXPECT_EQ(tokens[1], "ey.K");
  EXPECT_EQ(requests.size(), tokens.size());
}

TEST_F(KeeperTest, WhatHomeDoesNotKnowYetIsAskedAgain) {
  int asked = 0;
  const auto keeper =
      Keeper::Start(options_,
                    [&](const enrol::ProveRequest& request) -> Result<enrol::ProveReply> {
                      if (++asked == 1) return NotFound("home knows no worker tiny-w3");
                      return Sign(request, seconds(3600));
                    },
                    {});
  EXPECT_TRUE(keeper.ok()) << keeper.status().ToString();
  EXPECT_EQ(asked, 2);
}

TEST_F(KeeperTest, APodThatHomeRefusesEndsAndSaysWhy) {
  options_.patience = Duration::zero();
  const auto keeper =
      Keeper::Start(options_,
                    [](const enrol::ProveRequest&) -> Result<enrol::ProveReply> {
                      return PermissionDenied("the token is that of the pod tiny-w4");
                    },
                    {});
  EXPECT_EQ(keeper.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(keeper.status().message(), HasSubstr("could not prove to home at home:1"));
  EXPECT_THAT(keeper.status().message(), HasSubstr("that of the pod tiny-w4"));
  EXPECT_FALSE(std::filesystem::exists(options_.key));
}

TEST_F(KeeperTest, APodThatIsToldToEndWaitsForHomeNoLonger) {
  std::stop_source stop;
  const auto keeper = Keeper::Start(
      options_,
      [&](const enrol::ProveRequest&) -> Result<enrol::ProveReply> {
        stop.request_stop();
        return Unavailable("home does not answer");
      },
      stop.get_token());
  EXPECT_EQ(keeper.status().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace swarm::prove

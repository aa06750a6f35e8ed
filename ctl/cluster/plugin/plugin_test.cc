// Credential plugins that are real programs: shell scripts in a folder of the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/format/wall_time.h"
#include "base/testing/temporary_folder.h"
#include "ctl/cluster/plugin/credentials.h"
#include "ctl/cluster/plugin/program.h"
#include "operator/kube/testing/fake_timing.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A pipe of which all programs of a test inherit an end.
class InheritedPipe {
 public:
  InheritedPipe() { EXPECT_EQ(::pipe(ends_), 0); }
  ~InheritedPipe() { ::close(ends_[0]); }
  /// Waits until no program has that end any more. False after a minute.
  bool AllAreGone() {
    ::close(ends_[1]);
    pollfd gone{ends_[0], POLLIN, 0};
    return ::poll(&gone, 1, 60'000) == 1;
  }

 private:
  int ends_[2]{};
};

class PluginTest : public testing::Test {
 protected:
  /// Writes the plugin; $D is the folder of the test.
  void Script(const std::string& text) {
    folder_.Put("plugin", "#!/bin/sh\nD='" + folder_.path().string() + "'\n" + text);
    std::filesystem::permissions(folder_ / "plugin", std::filesystem::perms::owner_all);
  }
  /// Answers with the status that is in the file `status`, and counts its runs in `runs`.
  void ScriptThatAnswers() {
    Script(R"(echo run >> "$D/runs"
echo "{\"kind\": \"ExecCredential\", \"apiVersion\": \"client.authentication.k8s.io/v1\","
echo "\"status\": $(cat "$D/status")}")");
  }
  kube::PluginIdentity Identity(const PluginOptions& options = {}) {
    auto made = RunPlugins(options, timing_)(plugin_, cluster_, "CA");
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return *std::move(made);
  }
  std::size_t Runs() const {
    const std::string runs = folder_.Get("runs");
    return static_cast<std::size_t>(std::count(runs.begin(), runs.end(), '\n'));
  }
  std::string In(Duration time) {
    return api::FormatTime(api::WholeSeconds(
        timing_.WallNow() + std::chrono::duration_cast<kube::WallTime::duration>(time)));
  }

  TemporaryFolder folder_;
  kube::FakeTiming timing_;
  kube::KubeCluster cluster_{.server = "https://h"};
  kube::ExecPlugin plugin_{.api_version = "client.authentication.k8s.io/v1",
                           .command = folder_ / "plugin",
                           .interactive_mode = "Never"};
};

TEST_F(PluginTest, ThePluginGetsItsArgumentsItsEnvironmentOursAndTheCluster) {
  Script(R"(printf '%s|' "$@" > "$D/arguments"
printf '%s|%s' "$AWS_PROFILE" "$HOME" > "$D/environment"
printf '%s' "$KUBERNETES_EXEC_INFO" > "$D/info"
echo '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
       "status": {"token": "t"}}')");
  plugin_.arguments = {"get-token", "--cluster name", "$x"};
  plugin_.environment = {{"AWS_PROFILE", "work"}, {"HOME", "/elsewhere"}};
  plugin_.wants_cluster = true;
  const auto authorization = Identity().credentials->Authorization();
  ASSERT_TRUE(authorization.ok()) << authorization.status().ToString();
  EXPECT_EQ(*authorization, "Bearer t");
  EXPECT_EQ(folder_.Get("arguments"), "get-token|--cluster name|$x|");
  EXPECT_EQ(folder_.Get("environment"), "work|/elsewhere");
  const json info = json::parse(folder_.Get("info"));
  EXPECT_EQ(info["spec"]["interactive"], false);
  EXPECT_EQ(info["spec"]["cluster"]["server"], "https://h");
}

TEST_F(PluginTest, ThePluginRunsAtTheFirstUseAndAgainWhenItsCredentialHasEnded) {
  ScriptThatAnswers();
  folder_.Put("status", R"({"token": "one", "expirationTimestamp": ")" + In(hours(1)) + R"("})");
  const auto identity = Identity();
  EXPECT_EQ(Runs(), 0u);
  EXPECT_EQ(identity.credentials->Authorization().value(), "Bearer one");
  folder_.Put("status", R"({"token": "two", "expirationTimestamp": ")" + In(hours(9)) + R"("})");
  timing_.Advance(minutes(59));
  EXPECT_EQ(identity.credentials->Authorization().value(), "Bearer one");
  timing_.Advance(minutes(2));
  EXPECT_EQ(identity.credentials->Authorization().value(), "Bearer two");
  EXPECT_EQ(identity.credentials->Authorization().value(), "Bearer two");
  EXPECT_EQ(Runs(), 2u);
}

TEST_F(PluginTest, ThePluginRunsAgainAfterARefusal) {
  ScriptThatAnswers();
  folder_.Put("status", R"({"token": "one"})");
  const auto identity = Identity();
  EXPECT_EQ(identity.credentials->Authorization().value(), "Bearer one");
  folder_.Put("status", R"({"token": "two"})");
  timing_.Advance(hours(1000));
  EXPECT_EQ(identity.credentials->Authorization().value(), "Bearer one");
  identity.credentials->OnRefused();
  EXPECT_EQ(identity.credentials->Authorization().value(), "Bearer two");
}

TEST_F(PluginTest, ACertificateComesWithTheFirstUseAndNeedsNoToken) {
  ScriptThatAnswers();
  folder_.Put("status", R"({"clientCertificateData": "CERT", "clientKeyData": "KEY"})");
  const auto identity = Identity();
  EXPECT_EQ(identity.certificate().certificate, "");
  EXPECT_EQ(identity.credentials->Authorization().value(), "");
  EXPECT_EQ(identity.certificate().certificate, "CERT");
  EXPECT_EQ(identity.certificate().key, "KEY");
}

TEST_F(PluginTest, AMissingProgramIsNamedWithTheHintOfTheFile) {
  plugin_.command = "no-such-plugin-anywhere";
  plugin_.install_hint = "get it from the cloud's page";
  const Status missing = Identity().credentials->Authorization().status();
  EXPECT_EQ(missing.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(missing.message(), AllOf(HasSubstr("no-such-plugin-anywhere"), HasSubstr("PATH"),
                                       HasSubstr("get it from the cloud's page")));
}

TEST_F(PluginTest, APluginThatFailsIsNamedAndItsOwnWordsAreOnStandardError) {
  Script("echo 'run aws sso login' >&2; echo secret; exit 7");
  testing::internal::CaptureStderr();
  const Status failed = Identity().credentials->Authorization().status();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "run aws sso login\n");
  EXPECT_EQ(failed.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(failed.message(), AllOf(HasSubstr(folder_ / "plugin"), HasSubstr("exit code 7"),
                                      Not(HasSubstr("secret"))));
}

TEST_F(PluginTest, APluginThatFailsOnceIsRunAgain) {
  ScriptThatAnswers();
  folder_.Put("status", "{}");
  const auto identity = Identity();
  EXPECT_EQ(identity.credentials->Authorization().status().code(), StatusCode::kUnauthenticated);
  folder_.Put("status", R"({"token": "t"})");
  EXPECT_EQ(identity.credentials->Authorization().value(), "Bearer t");
}

TEST_F(PluginTest, APluginThatDoesNotEndInTimeIsGivenUp) {
  Script("exec sleep 1000");
  const Status late =
      Identity({.patience = Duration::zero()}).credentials->Authorization().status();
  EXPECT_EQ(late.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(late.message(), HasSubstr("in time"));
}

TEST_F(PluginTest, AStopKillsAPluginWithWhatItHasStarted) {
  InheritedPipe pipe;
  Script(R"(sleep 1000 & echo > "$D/began"; wait)");
  std::stop_source stop;
  const std::jthread stopper([&](std::stop_token over) {
    while (folder_.Get("began").empty() && !over.stop_requested()) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    stop.request_stop();
  });
  const auto identity = Identity({.stop = stop.get_token()});
  EXPECT_EQ(identity.credentials->Authorization().status().code(), StatusCode::kCancelled);
  EXPECT_TRUE(pipe.AllAreGone());
}

TEST_F(PluginTest, APluginEndsForUsAlsoIfWhatItHasStartedHoldsItsOutput) {
  InheritedPipe pipe;
  ScriptThatAnswers();
  folder_.Put("status", R"({"token": "t"})");
  Script(folder_.Get("plugin") + R"(
(n=0; while [ ! -e "$D/over" ] && [ $n -lt 2000 ]; do sleep 0.05; n=$((n+1)); done) &)");
  EXPECT_EQ(Identity({.patience = minutes(1)}).credentials->Authorization().value(), "Bearer t");
  folder_.Put("over", "");
  EXPECT_TRUE(pipe.AllAreGone());
}

TEST(ProgramTest, TheOutputIsWholeAndBounded) {
  const std::vector<std::string> much{"-c", "head -c 1000000 /dev/zero"};
  EXPECT_EQ(OutputOf({"sh", much}, minutes(5), {}).value(), std::string(1'000'000, '\0'));
  EXPECT_EQ(OutputOf({"sh", {"-c", "cat /dev/zero"}}, minutes(5), {}).status().code(),
            StatusCode::kResourceExhausted);
}

TEST(ProgramTest, AProgramThatReadsNoInputFindsNone) {
  EXPECT_EQ(OutputOf({"cat", {}}, minutes(5), {}).value(), "");
}

TEST(ProgramTest, AProgramThatASignalEndsHasFailed) {
  const Status ended = OutputOf({"sh", {"-c", "kill -9 $$"}}, minutes(5), {}).status();
  EXPECT_EQ(ended.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(ended.message(), HasSubstr("signal 9"));
}

}  // namespace
}  // namespace swarm::ctl

// For tests: a real server of the S3, STS and IAM protocols (moto), as a child process on a free
// port.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <string>

#include "base/status.h"
#include "worker/storage/s3/credentials.h"

namespace swarm::storage::s3 {

/// Has the bucket "bucket", a user whose keys are access_key() and secret_key(), and the role
/// role(). Checks the signature of every S3 request as AWS does. Ends when this object or this
/// process does.
class TestS3Server {
 public:
  TestS3Server() {
    int input[2];
    int output[2];
    SWARM_CHECK(::pipe2(input, O_CLOEXEC) == 0 && ::pipe2(output, O_CLOEXEC) == 0, "no pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    const char* arguments[] = {SWARM_PYTHON, "-c", kProgram, nullptr};
    const int error = ::posix_spawn(&child_, SWARM_PYTHON, &actions, nullptr,
                                    const_cast<char**>(arguments), environ);
    posix_spawn_file_actions_destroy(&actions);
    SWARM_CHECK(error == 0, "cannot start " SWARM_PYTHON "; run `make deps`");
    ::close(input[0]);
    ::close(output[1]);
    stop_ = input[1];
    answers_ = output[0];
    std::istringstream line(ReadLine(answers_));
    line >> url_ >> access_key_ >> secret_key_ >> role_;
    SWARM_CHECK(!role_.empty(), "the S3 server does not start");
  }
  ~TestS3Server() {
    ::close(stop_);
    ::close(answers_);
    ::waitpid(child_, nullptr, 0);
  }
  TestS3Server(const TestS3Server&) = delete;
  TestS3Server& operator=(const TestS3Server&) = delete;

  const std::string& url() const { return url_; }
  const std::string& access_key() const { return access_key_; }
  const std::string& secret_key() const { return secret_key_; }
  const std::string& role() const { return role_; }

  /// Stops listening at url() until Resume(). Stored objects stay.
  void Pause() { Tell("pause\n"); }
  void Resume() { Tell("resume\n"); }

  /// An environment with the user's keys.
  Environment UserEnvironment() const {
    return [key = access_key_, secret = secret_key_](const char* name) -> std::string {
      const std::string_view wanted(name);
      return wanted == "AWS_ACCESS_KEY_ID" ? key : wanted == "AWS_SECRET_ACCESS_KEY" ? secret : "";
    };
  }

 private:
  void Tell(const std::string& order) {
    SWARM_CHECK(::write(stop_, order.data(), order.size()) == static_cast<ssize_t>(order.size()) &&
                    ReadLine(answers_) == "done",
                "the S3 server does not obey");
  }
  static std::string ReadLine(int fd) {
    std::string line;
    char c = 0;
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    while (::poll(&ready, 1, 60'000) == 1 && ::read(fd, &c, 1) == 1 && c != '\n') line.push_back(c);
    return line;
  }

  // Signatures are checked for S3 alone: a web identity asks STS without one.
  static constexpr const char* kProgram = R"(
import json, logging, os, sys
os.environ["NO_PROXY"] = "*"
os.environ["MOTO_S3_DEFAULT_MAX_KEYS"] = "10"  # a page of a listing
logging.getLogger("werkzeug").setLevel(logging.ERROR)
import boto3
from moto import settings
from moto.core.authorization import ActionAuthenticatorMixin
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
url = "http://127.0.0.1:%d" % server.get_host_and_port()[1]
keys = {"endpoint_url": url, "region_name": "us-east-1",
        "aws_access_key_id": "root", "aws_secret_access_key": "root"}
boto3.client("s3", **keys).create_bucket(Bucket="bucket")
iam = boto3.client("iam", **keys)
policy = json.dumps({"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "s3:*", "Resource": "*"},
    {"Effect": "Deny", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::bucket/forbidden/*"}]})
iam.create_user(UserName="user")
iam.put_user_policy(UserName="user", PolicyName="p", PolicyDocument=policy)
key = iam.create_access_key(UserName="user")["AccessKey"]
role = iam.create_role(RoleName="trainer", AssumeRolePolicyDocument="{}")["Role"]
iam.put_role_policy(RoleName="trainer", PolicyName="p", PolicyDocument=policy)
ActionAuthenticatorMixin._authenticate_and_authorize_normal_action = lambda *_, **__: None
settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
print(url, key["AccessKeyId"], key["SecretAccessKey"], role["Arn"], flush=True)
for order in sys.stdin:
    if order == "pause\n":
        server.stop()
        server._server.server_close()
    else:
        server = ThreadedMotoServer("127.0.0.1", int(url.rsplit(":", 1)[1]), verbose=False)
        server.start()
        server.get_host_and_port()
    print("done", flush=True)
os._exit(0)
)";

  pid_t child_ = 0;
  int stop_ = -1;  // orders; the child ends when this end of its input is closed
  int answers_ = -1;
  std::string url_;
  std::string access_key_;
  std::string secret_key_;
  std::string role_;
};

}  // namespace swarm::storage::s3

// For tests: machines with networks of their own on this one. The kernel removes all of it with the
// test. Needs root, and `ip` and `nft`.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

namespace swarm::tests {

/// A machine: a network namespace, which lives as long as this object.
class Machine {
 public:
  Machine() {
    int ready[2];
    EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    holder_ = ::fork();
    if (holder_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const char done = ::unshare(CLONE_NEWNET) == 0 ? 'y' : 'n';
      (void)!::write(ready[1], &done, 1);
      for (;;) ::pause();
    }
    char done = 'n';
    EXPECT_EQ(::read(ready[0], &done, 1), 1);
    EXPECT_EQ(done, 'y') << "no network namespace: these tests need root";
    ::close(ready[0]);
    ::close(ready[1]);
    Run("ip link set lo up");
  }
  ~Machine() {
    ::kill(holder_, SIGKILL);
    ::waitpid(holder_, nullptr, 0);
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Of nsenter: what makes a program run on this machine.
  std::string enter() const { return "--net=/proc/" + std::to_string(holder_) + "/ns/net"; }
  /// Runs a shell command on this machine; it must succeed.
  void Run(const std::string& command) const {
    EXPECT_EQ(std::system(("nsenter " + enter() + " " + command).c_str()), 0) << command;
  }
  /// A cable between this machine and another one: a device on each.
  void Connect(const std::string& device, const std::string& address, const Machine& other,
               const std::string& other_device, const std::string& other_address) const {
    Run("ip link add " + device + " type veth peer name " + other_device + " netns " +
        std::to_string(other.holder_));
    Run("ip addr add " + address + "/24 dev " + device);
    Run("ip link set " + device + " up");
    other.Run("ip addr add " + other_address + "/24 dev " + other_device);
    other.Run("ip link set " + other_device + " up");
  }

 private:
  pid_t holder_ = -1;
};

}  // namespace swarm::tests

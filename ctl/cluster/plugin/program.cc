#include "ctl/cluster/plugin/program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>

namespace swarm::ctl {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kOutputMax = std::size_t{1} << 20;
// A stop and the end of a program that has closed its output are noticed this much later.
constexpr Duration kLook = milliseconds(20);

std::string Explain(int error) { return std::generic_category().message(error); }

/// The environment of the program, "NAME=VALUE".
std::vector<std::string> EnvironmentOf(const ProgramCall& call) {
  std::vector<std::string> variables;
  for (char** own = environ; *own != nullptr; ++own) {
    const std::string variable = *own;
    if (call.environment.count(variable.substr(0, variable.find('='))) == 0) {
      variables.push_back(variable);
    }
  }
  for (const auto& [name, value] : call.environment) variables.push_back(name + "=" + value);
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// A program that runs, and the pipe that it writes to.
class Running {
 public:
  Running() = default;
  /// Kills what still runs, and waits for its end.
  ~Running() {
    if (output_ >= 0) ::close(output_);
    if (pid_ <= 0 || ended_) return;
    ::kill(group_ ? -pid_ : pid_, SIGKILL);
    Reap(0);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  Status Start(const ProgramCall& call);
  /// Reads until the program has ended.
  Status ReadAll(Timepoint deadline, const std::stop_token& stop, std::string* text);
  /// How it ended; call it after ReadAll.
  int wait_status() const { return wait_status_; }

 private:
  void Reap(int flags) {
    int got = 0;
    do got = ::waitpid(pid_, &wait_status_, flags);
    while (got < 0 && errno == EINTR);
    ended_ = got != 0;
  }
  /// Takes what is in the pipe.
  void Take(std::string* text) {
    std::array<char, 4096> bytes;
    ssize_t got = 0;
    while ((got = ::read(output_, bytes.data(), bytes.size())) > 0) {
      text->append(bytes.data(), static_cast<std::size_t>(got));
      if (text->size() > kOutputMax) return;
    }
    closed_ = got == 0;
  }

  pid_t pid_ = -1;
  bool group_ = false;  // it leads one
  int output_ = -1;
  bool closed_ = false;
  bool ended_ = false;
  int wait_status_ = 0;
};

Status Running::Start(const ProgramCall& call) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ResourceExhausted("pipe: " + Explain(errno));
  output_ = ends[0];
  ::fcntl(output_, F_SETFL, O_NONBLOCK);
  std::vector<std::string> words{call.program};
  words.insert(words.end(), call.arguments.begin(), call.arguments.end());
  std::vector<std::string> environment = EnvironmentOf(call);

  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  if (!call.reads_input) {
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  // This process may have blocked the signals that end it.
  sigset_t signals;
  ::sigemptyset(&signals);
  ::posix_spawnattr_setsigmask(&attributes, &signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::sigaddset(&signals, signal);
  ::posix_spawnattr_setsigdefault(&attributes, &signals);
  // A program that asks at the terminal must be in the terminal's foreground group: ours.
  group_ = !call.reads_input;
  const int flags =
      POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | (group_ ? POSIX_SPAWN_SETPGROUP : 0);
  ::posix_spawnattr_setflags(&attributes, static_cast<short>(flags));
  const int error = ::posix_spawnp(&pid_, call.program.c_str(), &files, &attributes,
                                   Pointers(words).data(), Pointers(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  ::close(ends[1]);
  if (error == 0) return Status();
  pid_ = -1;
  const std::string message = "cannot run " + call.program + ": " + Explain(error);
  if (error == ENOENT) return NotFound(message);
  return error == EACCES ? PermissionDenied(message) : ResourceExhausted(message);
}

Status Running::ReadAll(Timepoint deadline, const std::stop_token& stop, std::string* text) {
  while (true) {
    // What it has written before its end is in the pipe. Others may hold the pipe open for longer.
    Reap(WNOHANG);
    if (!closed_) Take(text);
    if (text->size() > kOutputMax) return ResourceExhausted("it wrote more than 1 MiB");
    if (ended_) return Status();
    if (stop.stop_requested()) return Cancelled("it was stopped");
    const Duration left = deadline - Clock::now();
    if (left <= Duration::zero()) return DeadlineExceeded("it did not end in time");
    pollfd more{closed_ ? -1 : output_, POLLIN, 0};
    const auto look = std::chrono::ceil<milliseconds>(std::min(left, kLook));
    ::poll(&more, 1, static_cast<int>(look.count()));
  }
}

}  // namespace

Result<std::string> OutputOf(const ProgramCall& call, Duration patience, std::stop_token stop) {
  Running running;
  RETURN_IF_ERROR(running.Start(call));
  std::string text;
  RETURN_IF_ERROR(running.ReadAll(Clock::now() + patience, stop, &text));
  const int end = running.wait_status();
  if (WIFSIGNALED(end)) {
    return FailedPrecondition("it was ended by signal " + std::to_string(WTERMSIG(end)));
  }
  if (WEXITSTATUS(end) != 0) {
    return FailedPrecondition("it ended with exit code " + std::to_string(WEXITSTATUS(end)));
  }
  return text;
}

}  // namespace swarm::ctl

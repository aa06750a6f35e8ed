#include "worker/processes/processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>

namespace swarm {
namespace {

std::string ErrorText(int error) { return std::generic_category().message(error); }

// Closes a descriptor at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// Without a log (-1) standard output and error stay as they are. Runs in the child, between fork
// and exec, where only async-signal-safe calls are allowed.
[[noreturn]] void BecomeProgram(pid_t parent, int log, int null, int failure, const char* program,
                                char* const* arguments) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent died before prctl could tell us
  ::dup2(null, STDIN_FILENO);
  if (log >= 0) ::dup2(log, STDOUT_FILENO);
  if (log >= 0) ::dup2(log, STDERR_FILENO);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT}) ::signal(signal, SIG_DFL);
  ::execv(program, arguments);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(failure, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

Processes::~Processes() { KillAll(); }

std::filesystem::path Processes::LogOf(const std::string& name) const {
  return options_.log_directory / (name + ".log");
}

int Processes::OpenLog(const std::string& name) const {
  if (options_.log_directory.empty()) return -1;
  std::error_code ignored;  // if the folder is missing, open() fails
  std::filesystem::create_directories(options_.log_directory, ignored);
  return ::open(LogOf(name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

Status Processes::Start(const ProgramSpec& spec) {
  const auto known =
      std::find_if(processes_.begin(), processes_.end(),
                   [&](const Process& process) { return process.observed.name == spec.name; });
  if (known != processes_.end() && known->observed.phase == Phase::kRunning) {
    return AlreadyExists("process " + spec.name + " runs already");
  }
  const Descriptor log(OpenLog(spec.name));
  if (log.get() < 0 && !options_.log_directory.empty()) {
    return Unavailable("cannot write " + LogOf(spec.name).string() + ": " + ErrorText(errno));
  }
  const Descriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ResourceExhausted("pipe: " + ErrorText(errno));
  const Descriptor failure_out(ends[0]);
  Descriptor failure_in(ends[1]);

  std::vector<std::string> words{options_.program.string()};
  words.insert(words.end(), spec.arguments.begin(), spec.arguments.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return ResourceExhausted("fork: " + ErrorText(errno));
  if (pid == 0) {
    BecomeProgram(parent, log.get(), null.get(), failure_in.get(), words[0].c_str(),
                  arguments.data());
  }
  ::setpgid(pid, pid);  // the child does it too: either may be first
  failure_in.Close();
  // The read ends when exec closes the other end, or returns the error that prevented the exec.
  int error = 0;
  ssize_t got = 0;
  do got = ::read(failure_out.get(), &error, sizeof error);
  while (got < 0 && errno == EINTR);
  if (got == sizeof error) {
    ::waitpid(pid, nullptr, 0);
    const std::string message = "cannot run " + words[0] + ": " + ErrorText(error);
    return error == ENOENT ? NotFound(message) : PermissionDenied(message);
  }
  Process process;
  process.observed = {spec.name, spec.role, Phase::kRunning};
  process.pid = pid;
  process.pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (known != processes_.end()) {
    *known = process;
  } else {
    processes_.push_back(process);
  }
  return Status();
}

Processes::Process* Processes::FindRunning(const std::string& name) {
  for (Process& process : processes_) {
    if (process.observed.name == name && process.observed.phase == Phase::kRunning) return &process;
  }
  return nullptr;
}

void Processes::Terminate(const std::string& name, Duration grace) {
  Process* const process = FindRunning(name);
  if (process == nullptr) return;
  ::kill(-process->pid, SIGTERM);
  process->kill_at = Clock::now() + grace;
}

Status Processes::Signal(const std::string& name, int signal) {
  Process* const process = FindRunning(name);
  if (process == nullptr) return NotFound("process " + name + " does not run");
  // A slowed program is continued many times a second, which must not end a stop.
  if (signal == SIGSTOP) slowdowns_.Pause(process->pid);
  ::kill(-process->pid, signal);
  if (signal == SIGCONT) slowdowns_.Resume(process->pid);
  return Status();
}

Status Processes::Slow(const std::string& name, double factor) {
  Process* const process = FindRunning(name);
  if (process == nullptr) return NotFound("process " + name + " does not run");
  slowdowns_.Set(process->pid, factor);
  return Status();
}

void Processes::KillAll() {
  for (const Process& process : processes_) {
    if (process.observed.phase == Phase::kRunning) ::kill(-process.pid, SIGKILL);
  }
  for (Process& process : processes_) Reap(process, /*block=*/true);
}

std::vector<ObservedProgram> Processes::Observe() {
  std::vector<ObservedProgram> observed;
  const Timepoint now = Clock::now();
  for (Process& process : processes_) {
    if (process.kill_at && now >= *process.kill_at) {
      if (process.observed.phase == Phase::kRunning) ::kill(-process.pid, SIGKILL);
      process.kill_at.reset();
    }
    Reap(process, /*block=*/false);
    observed.push_back(process.observed);
  }
  return observed;
}

void Processes::Reap(Process& process, bool block) {
  if (process.observed.phase != Phase::kRunning) return;
  // The process has ended, but waitpid has not reaped it: until then its number is not reused.
  siginfo_t ended{};
  int result = 0;
  do
    result = ::waitid(P_PID, static_cast<id_t>(process.pid), &ended,
                      WEXITED | WNOWAIT | (block ? 0 : WNOHANG));
  while (result < 0 && errno == EINTR);
  if (result == 0 && ended.si_pid == 0) return;
  slowdowns_.Set(process.pid, 1);
  int status = 0;
  pid_t reaped = 0;
  do reaped = ::waitpid(process.pid, &status, 0);
  while (reaped < 0 && errno == EINTR);
  process.observed.phase = Phase::kExited;
  if (reaped > 0 && WIFSIGNALED(status)) {
    process.observed.exit_signal = WTERMSIG(status);
  } else {
    process.observed.exit_code = reaped > 0 ? WEXITSTATUS(status) : 127;
  }
  ::kill(-process.pid, SIGKILL);  // kills what it has left behind
  if (process.pidfd >= 0) ::close(process.pidfd);
  process.pidfd = -1;
}

void Processes::Wait(Timepoint deadline, int wake_fd) {
  std::vector<pollfd> waited;
  if (wake_fd >= 0) waited.push_back({wake_fd, POLLIN, 0});
  for (const Process& process : processes_) {
    if (process.observed.phase != Phase::kRunning) continue;
    if (process.kill_at) deadline = std::min(deadline, *process.kill_at);
    if (process.pidfd >= 0) {
      waited.push_back({process.pidfd, POLLIN, 0});
    } else {
      // A kernel without pidfd: look again soon.
      deadline = std::min(deadline, Clock::now() + std::chrono::milliseconds(20));
    }
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  ::poll(waited.data(), waited.size(), static_cast<int>(std::clamp<long>(left, 0, 1'000'000)));
}

}  // namespace swarm

#include "ctl/enrol/join_command.h"

#include <algorithm>
#include <csignal>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "base/files.h"
#include "base/identity/request.h"
#include "base/metrics/get.h"
#include "base/processors.h"
#include "base/short_time.h"
#include "base/signals.h"
#include "ctl/enrol/credentials_folder.h"
#include "ctl/enrol/home_line.h"
#include "ctl/enrol/local_address.h"
#include "ctl/enrol/machine_check.h"
#include "ctl/enrol/worker_end.h"
#include "worker/enrol/service/client.h"
#include "worker/enrol/token.h"
#include "worker/enrol/upkeep.h"
#include "worker/processes/processes.h"

namespace swarm::ctl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A certificate ages while a laptop sleeps, which the steady clock does not count.
using WallClock = std::chrono::system_clock;

constexpr Duration kTick = milliseconds(100);
constexpr Duration kLookPeriod = seconds(1);  // at what the worker does
constexpr Duration kLookLimit = milliseconds(500);
constexpr Duration kKillGrace = seconds(5);  // behind the time to leave

/// Whether home may answer later.
bool IsLost(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded;
}

std::string WithoutNewline(std::string text) {
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

/// Of two texts of one address: of an IPv4 address that came over IPv6, the IPv4 address; without
/// a zone.
std::string Plain(std::string address) {
  if (address.starts_with("::ffff:")) address.erase(0, 7);
  return address.substr(0, address.find('%'));
}

/// The first line, which may lack its end.
std::string ReadWord(std::FILE* in) {
  std::string line;
  for (int c = std::fgetc(in); c != EOF && c != '\n'; c = std::fgetc(in)) {
    line += static_cast<char>(c);
  }
  return line;
}

double Random() {
  static std::random_device device;
  return std::uniform_real_distribution<double>()(device);
}

/// Why a worker has ended, behind a colon, by its log; empty: the log does not say.
std::string WhyByLog(const std::filesystem::path& log, const std::string& worker) {
  const Result<std::string> text = ReadFile(log);
  if (!text.ok()) return "";
  for (const std::string& mark : {" info " + worker + " dismissed: ", " error " + worker + " "}) {
    const std::size_t found = text->rfind(mark);
    if (found == std::string::npos) continue;
    const std::size_t begin = found + mark.size();
    return ": " + text->substr(begin, text->find('\n', begin) - begin);
  }
  return "";
}

/// What the worker does now, by its own pages; empty: it does not answer.
std::string LookAt(const std::string& address) {
  const Timepoint deadline = Clock::now() + kLookLimit;
  const auto ready = metrics::GetPage(address, "/readyz", deadline);
  if (!ready.ok()) return "";
  if (ready->code != 200) return "is not at work: " + WithoutNewline(ready->text);
  const auto metrics = metrics::GetPage(address, "/metrics", deadline);
  if (!metrics.ok()) return "";
  const std::size_t line = metrics->text.find("\nswarmjob_worker_stage{");
  if (line == std::string::npos) return "is at work";
  const std::size_t end = metrics->text.find('\n', line + 1);
  const std::size_t value = metrics->text.rfind(' ', end);
  return "serves stage " + metrics->text.substr(value + 1, end - value - 1);
}

/// One `swarmctl join`, from its token to its end. Each step returns the error that ends it.
class Joining {
 public:
  Joining(const JoinOptions& options, enrol::JoinToken token, std::FILE* out)
      : options_(options), token_(std::move(token)), out_(out) {}

  ExitCode Execute(std::FILE* err) {
    const Status status = Start();
    if (!status.ok()) {
      std::fprintf(err, "%s\n", status.message().c_str());
      return status.code() == StatusCode::kCancelled ? ExitCode::kOk : ExitCodeOf(status);
    }
    while (!end_) {
      processes_->Wait(Clock::now() + kTick, signals_.fd());
      OnInterrupts();
      OnWorker();
      OnHome();
    }
    processes_->KillAll();
    return *end_;
  }

 private:
  Status Start() {
    ASSIGN_OR_RETURN(const identity::KeyAndRequest asked, identity::MakeRequest("worker"));
    enrol::Client home({.address = token_.address, .fingerprint = token_.fingerprint});
    ASSIGN_OR_RETURN(enrolled_, Enrol(home, asked.request));
    OnCertificate(enrolled_.validity);
    Say("enrolled at " + token_.address + " as " + enrolled_.worker + " of the job " +
        enrolled_.job_name + "; the certificate lasts " + ShortTime(ToSeconds(enrolled_.validity)) +
        " and is renewed before");
    const identity::KeyPair pair{enrolled_.certificate, asked.key};
    folder_ = options_.out.empty()
                  ? std::filesystem::path("out") / (enrolled_.job_name + "-" + enrolled_.worker)
                  : options_.out;
    credentials_.emplace(folder_ / "tls");
    RETURN_IF_ERROR(credentials_->Create(home.job_authority(), pair));
    RETURN_IF_ERROR(Check());
    ASSIGN_OR_RETURN(listen_, WhereToListen());
    home.SetIdentity({enrol::ForHome(enrolled_), asked.key});
    line_.emplace(std::move(home));
    processes_.emplace(Processes::Options{options_.worker_program, folder_ / "workers"});
    return StartWorker();
  }

  /// Tries again for a while where home does not answer.
  Result<enrol::EnrolReply> Enrol(enrol::Client& home, const std::string& request) {
    const Timepoint deadline = Clock::now() + options_.home_patience;
    for (std::uint64_t failures = 1;; ++failures) {
      auto reply = home.Enrol({token_.id, token_.secret, request});
      const Timepoint next = Clock::now() + enrol::RetryPause(failures, Random());
      if (reply.ok() || !IsLost(reply.status()) || next > deadline) return reply;
      if (failures == 1) Say(reply.status().message() + "; trying again");
      while (Clock::now() < next) {
        if (signals_.token().stop_requested()) return Cancelled("interrupted before it has joined");
        std::this_thread::sleep_for(kTick);
      }
    }
  }

  /// Whether this machine is one for the job.
  Status Check() {
    if (!options_.probe) return Status();
    ASSIGN_OR_RETURN(const std::vector<std::string> devices, Devices());
    return CheckMachine({.job = enrolled_.job,
                         .home = token_.address,
                         .folder = folder_,
                         .program = options_.compute_program,
                         .name = enrolled_.worker,
                         .region = options_.region,
                         .device = devices.front(),
                         .workers = devices.size(),
                         .threads = ThreadsOfOne(devices.size())},
                        signals_, [this](const std::string& text) { Say(text); });
  }

  /// A worker computes on each.
  Result<std::vector<std::string>> Devices() const {
    if (options_.devices.empty()) return std::vector{options_.device};
    return ParseDevices(options_.devices);
  }

  std::uint64_t ThreadsOfOne(std::uint64_t workers) const {
    if (options_.threads > 0) return options_.threads;
    return std::max<std::uint64_t>(1, UsableProcessors() / workers);
  }

  /// Where others reach the worker: at the address with which this machine calls home, if home sees
  /// the same one. Else a router is between them, which lets nobody in.
  Result<std::string> WhereToListen() {
    if (options_.dial_only) return std::string(kDialOnly);
    if (!options_.listen.empty()) return options_.listen;
    ASSIGN_OR_RETURN(std::string local, LocalAddressTo(token_.address));
    local = Plain(local);
    if (local != Plain(enrolled_.seen_as)) {
      Say("this machine is " + local + ", and home sees " + enrolled_.seen_as +
          ": a router is between, so the worker only dials");
      return std::string(kDialOnly);
    }
    return (local.find(':') == local.npos ? local : "[" + local + "]") + ":0";
  }

  Status StartWorker() {
    if (running_ != enrolled_.worker) {
      running_ = enrolled_.worker;
      doing_.clear();
      Say("starting " + running_ + "; its log: " + processes_->LogOf(running_).string());
    }
    std::error_code ignored;  // there is none before the first start
    std::filesystem::remove(MetricsFile(), ignored);
    WorkerFlags flags{.role = WorkerRole::kStage,
                      .listen = listen_,
                      .metrics_listen = "127.0.0.1:0",
                      .metrics_address_file = MetricsFile(),
                      .job_uid = enrolled_.job_uid,
                      .tls_ca = credentials_->authority(),
                      .tls_cert = credentials_->certificate(),
                      .tls_key = credentials_->key(),
                      .revoked_file = credentials_->revoked(),
                      .log_level = options_.log_level,
                      .id = enrolled_.worker,
                      .trainer = enrolled_.trainer,
                      .device = options_.device};
    ASSIGN_OR_RETURN(const std::vector<std::string> devices, Devices());
    if (!options_.devices.empty()) flags.devices = devices;
    flags.threads = static_cast<int>(ThreadsOfOne(devices.size()));
    flags.drain_seconds = static_cast<int>(ToSeconds(options_.drain));
    if (!options_.region.empty()) flags.region = options_.region;
    if (!enrolled_.trainer_gateway.empty()) {
      flags.trainer_gateway = enrolled_.trainer_gateway;
      flags.cluster = enrolled_.worker;  // alone, so it tries the gateways of the others first
    }
    return processes_->Start({enrolled_.worker, WorkerRole::kStage, ToArguments(flags)});
  }

  void OnInterrupts() {
    const int count = signals_.count();
    if (count == interrupts_) return;
    interrupts_ = count;
    if (count > 1) {
      Say("killing the worker");
      end_ = ExitCode::kKilled;
      return;
    }
    Say("leaving: the worker hands over what it holds, in " + ShortTime(ToSeconds(options_.drain)) +
        " at most; once more kills");
    leaving_ = true;
    processes_->Terminate(running_, options_.drain + kKillGrace);
    if (start_again_) end_ = ExitCode::kOk;  // there is no worker now
  }

  void OnWorker() {
    if (end_) return;
    const Timepoint now = Clock::now();
    if (start_again_) {
      if (now < *start_again_) return;
      start_again_.reset();
      if (const Status status = StartWorker(); !status.ok()) return End(status.message());
      return;
    }
    const ObservedProgram worker = Observe();
    if (worker.phase == Phase::kRunning) return Look(now);
    if (running_ != enrolled_.worker && !leaving_) {  // it made room for the next one
      if (const Status status = StartWorker(); !status.ok()) End(status.message());
      return;
    }
    const AfterWorker after = DecideAfterWorker(worker, leaving_, home_failures_ > 0);
    const std::string words = after.words + WhyByLog(processes_->LogOf(worker.name), worker.name);
    if (!after.again) {
      Say(words);
      end_ = after.code;
      return;
    }
    const Duration pause = enrol::RetryPause(++worker_failures_, Random());
    start_again_ = now + pause;
    doing_.clear();
    Say(words + "; starting it again in " + ShortTime(ToSeconds(pause)));
  }

  ObservedProgram Observe() {
    const std::vector<ObservedProgram> all = processes_->Observe();
    return *std::ranges::find(all, running_, &ObservedProgram::name);
  }

  /// Says what the worker does, where that has changed.
  void Look(Timepoint now) {
    if (now < next_look_) return;
    next_look_ = now + kLookPeriod;
    const auto address = ReadFile(MetricsFile());
    if (!address.ok()) return;
    std::string doing = LookAt(WithoutNewline(*address));
    if (doing.empty() || doing == doing_) return;
    doing_ = std::move(doing);
    if (doing_.starts_with("serves")) worker_failures_ = 0;
    Say(running_ + " " + doing_);
  }

  void OnHome() {
    if (end_ || line_->asking()) return;
    const Timepoint now = Clock::now();
    if (auto answer = line_->TakeAnswer()) {
      std::visit([&](const auto& each) { OnAnswer(now, each); }, *answer);
    }
    if (end_ || now < next_refresh_) return;
    const WallClock::time_point wall = WallClock::now();
    if (wall < certificate_ends_) return line_->Refresh(/*renew=*/wall >= renew_at_);
    if (!leaving_) EnrolAgain();
  }

  /// Home accepts no certificate that has ended.
  void EnrolAgain() {
    if (!std::exchange(told_end_, true)) {
      Say("the certificate of " + enrolled_.worker +
          " has ended; when home answers, this machine enrols again with its token");
    }
    line_->Enrol(token_);
  }

  void OnAnswer(Timepoint now, const HomeLine::Refreshed& answer) {
    if (!answer.reply.ok()) return OnNoAnswer(now, answer.reply.status());
    OnHomeHeard();
    next_refresh_ = now + enrol::kRefreshPeriod;
    Status status = credentials_->SetRevoked(answer.reply->revoked);
    if (status.ok() && !answer.key.empty()) {
      status = credentials_->Replace({answer.reply->certificate, answer.key});
      OnCertificate(answer.reply->validity);
    }
    if (!status.ok()) End(status.message());
  }

  void OnAnswer(Timepoint now, const HomeLine::Enrolled& answer) {
    if (!answer.reply.ok()) return OnNoAnswer(now, answer.reply.status());
    OnHomeHeard();
    told_end_ = false;
    enrolled_ = *answer.reply;
    OnCertificate(enrolled_.validity);
    Say("enrolled again, as " + enrolled_.worker);
    const Status status = credentials_->Replace({enrolled_.certificate, answer.key});
    if (!status.ok()) return End(status.message());
    // A certificate names one worker, so another process takes its place.
    processes_->Terminate(running_, options_.drain + kKillGrace);
  }

  void OnHomeHeard() {
    if (home_failures_ > 0) Say("home answers again");
    home_failures_ = 0;
  }

  void OnNoAnswer(Timepoint now, const Status& why) {
    const AfterRefusal after = DecideAfterRefusal(why, enrolled_.worker, /*enrolling=*/told_end_);
    if (!after.again) {
      Say(after.words);
      end_ = after.code;
      return;
    }
    if (home_failures_ == 0) home_lost_ = now;
    next_refresh_ = now + enrol::RetryPause(++home_failures_, Random());
    if (home_failures_ == 1) Say(after.words);
    if (now - home_lost_ > options_.patience) {
      End("home has not answered for " + ShortTime(ToSeconds(now - home_lost_)) +
          "; where the run goes on, join again with a token that is good");
    }
  }

  void OnCertificate(Duration validity) {
    const Duration age = enrol::RenewalAge(validity, Random());
    certificate_ends_ = WallClock::now() + validity;
    renew_at_ = WallClock::now() + age;
    next_refresh_ = Clock::now() + std::min(enrol::kRefreshPeriod, age);
  }

  void End(const std::string& why) {
    Say(why);
    end_ = ExitCode::kFailed;
  }

  std::filesystem::path MetricsFile() const { return folder_ / "metrics.address"; }

  void Say(const std::string& text) const {
    std::fprintf(out_, "%s\n", text.c_str());
    std::fflush(out_);
  }

  const JoinOptions& options_;
  const enrol::JoinToken token_;
  std::FILE* const out_;
  Signals signals_{SIGINT, SIGTERM, SIGHUP};
  enrol::EnrolReply enrolled_;
  std::filesystem::path folder_;
  std::optional<CredentialsFolder> credentials_;
  std::string listen_;
  WallClock::time_point certificate_ends_{}, renew_at_{};
  Timepoint next_refresh_{}, next_look_{};
  Timepoint home_lost_{};  // when the first of home_failures_ was seen
  std::uint64_t home_failures_ = 0, worker_failures_ = 0;  // in a row
  bool told_end_ = false;                                  // of the certificate
  std::string running_;  // the worker whose process was started last
  std::optional<Timepoint> start_again_;
  std::string doing_;
  int interrupts_ = 0;
  bool leaving_ = false;
  std::optional<ExitCode> end_;
  std::optional<Processes> processes_;
  std::optional<HomeLine> line_;
};

}  // namespace

ExitCode JoinRun(const JoinOptions& options, std::FILE* out, std::FILE* err) {
  auto token = enrol::ParseJoinToken(options.token == "-" ? ReadWord(stdin) : options.token);
  if (!token.ok()) {
    std::fprintf(err, "%s\n", token.status().message().c_str());
    return ExitCode::kBadUsage;
  }
  return Joining(options, *std::move(token), out).Execute(err);
}

}  // namespace swarm::ctl

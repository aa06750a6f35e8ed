// What the page costs the trainer of a large swarm, and its viewers: the share of a core that this
// process uses while nobody looks and while one viewer does, and what the viewer gets. The page
// gets a history of so many steps, a status of so many workers that changes all the time, four
// steps a second, and four heartbeats a second from each worker. What makes all that here, and the
// viewer, are counted as well.
//
// Usage: page_bench [WORKERS [STEPS [SECONDS [ADDRESS_FILE]]]]
//
// With ADDRESS_FILE, it waits until a browser looks, and lives on until the file is removed
// (bench/page.py). Else it looks itself, and asks for what the page's script asks for.
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/metrics/testing/scrape.h"
#include "base/testing/temporary_folder.h"
#include "worker/page/page_server.h"
#include "worker/page/state/lanes.h"

namespace swarm::page {
namespace {

using protocol::WorkerId;

constexpr std::uint64_t kStages = 8;
constexpr std::uint64_t kMicrobatches = 256;
constexpr int kTicksPerSecond = 4;

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

WorkerId NameOf(std::uint64_t worker) { return WorkerId("worker-" + std::to_string(worker)); }

/// A job of that size, as its trainer knows it. Its ledger begins with the first tick: one of all
/// steps would be gigabytes, and the page reads but a line.
class Job {
 public:
  Job(std::string folder, std::uint64_t workers, std::uint64_t steps)
      : folder_(std::move(folder)), workers_(workers) {
    std::ofstream lines(folder_ + "/steps.jsonl");
    for (; step_ < steps; ++step_) WriteStep(lines);
  }

  /// A quarter of a second passes.
  void Tick() {
    {
      std::ofstream lines(folder_ + "/steps.jsonl", std::ios::app);
      WriteStep(lines);
      std::ofstream ledger(folder_ + "/ledger.jsonl", std::ios::app);
      WriteAccount(ledger);
    }
    const std::lock_guard lock(mutex_);
    ++step_;
    busy_ += 0.2;
    const Timepoint now = Clock::now();
    for (std::uint64_t w = 0; w < workers_; ++w) {
      lanes_.OnBeat(
          NameOf(w),
          {.bytes_sent = step_ * 1'000'000, .busy_seconds = busy_, .sum_seconds = busy_ / 5}, now);
    }
  }

  JobView View() const {
    const std::lock_guard lock(mutex_);
    JobView view;
    view.status.state = protocol::JobState::kTraining;
    view.status.step = protocol::Step(step_);
    view.status.max_steps = 10 * step_;
    view.status.tokens_per_second = 1e6;
    view.tokens_of_microbatch = 1024;
    view.boundaries.assign(kStages - 1, {.forward = 1e6, .backward = 1e6});
    view.status.loss = 2 + 1 / static_cast<double>(step_);
    for (std::uint64_t s = 0; s < kStages; ++s) {
      protocol::StageStatus stage{.stage = protocol::StageIndex(s), .workers = {}};
      for (std::uint64_t w = s; w < workers_; w += kStages) {
        const double wave = std::sin(static_cast<double>(step_ + w));
        stage.workers.push_back({.id = NameOf(w),
                                 .in_flight = 2,
                                 .queued = step_ % 3,
                                 .utilization = 0.8 + 0.1 * wave,
                                 .bytes_per_second = 1e6,
                                 .microbatches_per_second = 5 + wave,
                                 .state = protocol::WorkerState::kReady});
        view.members[NameOf(w)] = {"eu", protocol::Version(step_), 0.02};
      }
      view.status.stages.push_back(std::move(stage));
    }
    return view;
  }
  LanesView Lanes(std::int64_t after) const {
    const std::lock_guard lock(mutex_);
    const Timepoint now = Clock::now();
    return {.slot = Lanes::SlotOf(now), .lanes = lanes_.Since(after, now), .lost = {}};
  }

 private:
  void WriteStep(std::ofstream& lines) const {
    const auto at = static_cast<double>(step_);
    lines << "{\"step\":" << step_
          << ",\"loss\":" << 2 + 2 * std::exp(-at / 20000) + 0.1 * std::sin(at / 7)
          << ",\"grad_norm\":" << 1 + 0.3 * std::sin(at) << ",\"lr\":0.0003,\"seconds\":0.25}\n";
  }
  void WriteAccount(std::ofstream& ledger) const {
    ledger << "{\"step\":" << step_ << ",\"generation\":0,\"groups\":[";
    for (std::uint64_t s = 0; s < kStages; ++s) {
      ledger << (s > 0 ? "," : "") << "{\"group\":" << s << ",\"k\":[1,7],\"participants\":[";
      for (std::uint64_t w = s; w < workers_; w += kStages) {
        ledger << (w > s ? "," : "") << "{\"worker\":\"worker-" << w << "\",\"stage\":" << s
               << ",\"microbatches\":[";
        const std::uint64_t stride = (workers_ - s + kStages - 1) / kStages;
        for (std::uint64_t m = w / kStages; m < kMicrobatches; m += stride) {
          ledger << (m >= stride ? "," : "") << m;
        }
        ledger << "]}";
      }
      ledger << "]}";
    }
    ledger << "]}\n";
  }

  const std::string folder_;
  const std::uint64_t workers_;
  mutable std::mutex mutex_;
  std::uint64_t step_ = 0;  // guarded; only Tick changes it
  double busy_ = 0;         // guarded
  page::Lanes lanes_;       // guarded
};

/// Lives on while `more` says so of the seconds that have passed; returns the processor time by the
/// time.
double Measure(Job& job, const std::function<bool(double seconds)>& more) {
  const double cpu = CpuSeconds();
  const Timepoint begin = Clock::now();
  Timepoint next = begin;
  while (more(ToSeconds(next - begin))) {
    next += std::chrono::milliseconds(1000 / kTicksPerSecond);
    std::this_thread::sleep_until(next);
    job.Tick();
  }
  return (CpuSeconds() - cpu) / ToSeconds(Clock::now() - begin);
}

/// Reads the page as its script does, and counts the bytes.
class Viewer {
 public:
  explicit Viewer(const std::string& address)
      : events_([this, fd = metrics::Ask(address, "/events")] {
          std::array<char, 65536> part;
          ssize_t n;
          while ((n = read(fd, part.data(), part.size())) > 0) {
            event_bytes += static_cast<std::size_t>(n);
          }
          close(fd);
        }),
        asking_([this, address](const std::stop_token& stop) {
          std::int64_t slot = -1;
          while (!stop.stop_requested()) {
            const std::string path = "/timeline?after=" + std::to_string(slot);
            asked_bytes += metrics::Get(address, path).size();
            asked_bytes += metrics::Get(address, "/account").size();
            slot = page::Lanes::SlotOf(Clock::now()) - 2;
            std::this_thread::sleep_for(std::chrono::seconds(2));
          }
        }) {}

  std::atomic<std::size_t> event_bytes{0}, asked_bytes{0};

 private:
  std::jthread events_;  // ends with the stream
  std::jthread asking_;
};

int Run(std::uint64_t workers, std::uint64_t steps, int seconds, const char* address_file) {
  const TemporaryFolder folder;
  Job job(folder.path().string(), workers, steps);
  std::atomic<bool> looked{false};
  const auto page = PageServer::Start(
      {.listen = "127.0.0.1:0",
       .job = "large",
       .folder = folder.path().string(),
       .microbatches = kMicrobatches,
       .stages = kStages,
       .look =
           [&](Duration) {
             looked = true;
             return std::optional(job.View());
           },
       .look_at_lanes = [&](Duration,
                            std::int64_t after) { return std::optional(job.Lanes(after)); }});
  if (!page.ok()) {
    std::fprintf(stderr, "%s\n", page.status().ToString().c_str());
    return 1;
  }
  std::printf("%llu workers, %llu steps before, 4 updates a second\n",
              static_cast<unsigned long long>(workers), static_cast<unsigned long long>(steps));
  const auto for_so_long = [seconds](double passed) { return passed < seconds; };
  std::printf("nobody looks: %.1f %% of a core\n", 100 * Measure(job, for_so_long));
  std::fflush(stdout);
  const double cpu = CpuSeconds();
  std::optional<Viewer> viewer;
  if (address_file != nullptr) {
    std::ofstream(address_file) << (*page)->address() << "\n";
    for (; !looked; job.Tick()) std::this_thread::sleep_for(std::chrono::milliseconds(250));
  } else {
    viewer.emplace((*page)->address());
    while (viewer->event_bytes == 0) std::this_thread::yield();
  }
  (void)metrics::Get((*page)->address(), "/state");  // behind what the first viewer waits for
  std::printf("the first viewer: the history is read in %.2f s of a core\n", CpuSeconds() - cpu);
  const std::size_t events = viewer ? viewer->event_bytes.load() : 0;
  const std::size_t asked = viewer ? viewer->asked_bytes.load() : 0;
  const auto until_removed = [address_file](double) {
    return std::filesystem::exists(address_file);
  };
  const double share = viewer ? Measure(job, for_so_long) : Measure(job, until_removed);
  std::printf("one viewer: %.1f %% of a core\n", 100 * share);
  if (viewer) {
    const auto rate = [&](std::size_t bytes) {
      return 1e-3 * static_cast<double>(bytes) / seconds;
    };
    std::printf(
        "it gets %.0f kB at first, and then %.1f kB/s: events %.1f, timeline and account %.1f\n",
        1e-3 * static_cast<double>(events),
        rate(viewer->event_bytes - events + viewer->asked_bytes - asked),
        rate(viewer->event_bytes - events), rate(viewer->asked_bytes - asked));
  }
  (*page)->Close();
  return 0;
}

}  // namespace
}  // namespace swarm::page

int main(int argc, char** argv) {
  const auto number = [&](int at, long otherwise) {
    return argc > at ? std::strtol(argv[at], nullptr, 10) : otherwise;
  };
  return swarm::page::Run(static_cast<std::uint64_t>(number(1, 200)),
                          static_cast<std::uint64_t>(number(2, 100'000)),
                          static_cast<int>(number(3, 20)), argc > 4 ? argv[4] : nullptr);
}

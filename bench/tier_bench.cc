// Measures what moves the bytes of a scratch file (worker/tier/tier.h): a ring of io_uring against
// threads, in turn in one run, since the rate of a disk changes. Each moves 128 MiB in requests of
// the named size, all submitted at once. The files are where TMPDIR says. Rates are medians of the
// turns, and so is `ratio`, the ring's rate by that of threads in the same turn. Processor seconds
// are those of the process in user space and the kernel.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <functional>
#include <iterator>
#include <latch>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/gibibytes.h"
#include "base/time.h"
#include "worker/tier/tier.h"

namespace swarm::tier {
namespace {

constexpr std::size_t kBytes = std::size_t{128} << 20;

enum class Direction { kRead, kWrite };

double ProcessorSeconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// A file, and what it cost so far to move its bytes.
class Measured {
 public:
  explicit Measured(FileMover wanted)
      : wanted_(wanted), tier_(OpenFileTier(std::filesystem::temp_directory_path(), wanted)) {}

  /// Makes room, and writes it once, so that the disk has the bytes.
  Status Open(std::span<std::byte> memory) {
    RETURN_IF_ERROR(tier_.status());
    if (wanted_ == FileMover::kRing &&
        (*tier_)->name().find("through io_uring") == std::string::npos) {
      return FailedPrecondition((*tier_)->name());
    }
    RETURN_IF_ERROR((*tier_)->Grow(kBytes));
    return (*tier_)->Write(0, memory);
  }

  Status Move(Direction direction, std::span<std::byte> memory, std::size_t request) {
    const double processor = ProcessorSeconds();
    const Timepoint begun = Clock::now();
    std::latch under_way(static_cast<std::ptrdiff_t>(kBytes / request));
    std::mutex mutex;
    Status first;
    const auto done = [&](Status status) {
      {
        const std::lock_guard lock(mutex);
        if (first.ok()) first = std::move(status);
      }
      under_way.count_down();
    };
    for (std::size_t at = 0; at < kBytes; at += request) {
      const std::span<std::byte> part = memory.subspan(at, request);
      if (direction == Direction::kRead) {
        (*tier_)->SubmitRead(at, part, done);
      } else {
        (*tier_)->SubmitWrite(at, part, done);
      }
    }
    under_way.wait();
    rates_.push_back(kBytes / ToSeconds(Clock::now() - begun));
    processor_ += ProcessorSeconds() - processor;
    return first;
  }

  /// Bytes a second, of each time.
  const std::vector<double>& rates() const { return rates_; }
  double processor_seconds_per_gibibyte() const {
    return processor_ * kGibibyte / (static_cast<double>(rates_.size()) * kBytes);
  }

 private:
  const FileMover wanted_;
  const Result<std::unique_ptr<Tier>> tier_;
  std::vector<double> rates_;
  double processor_ = 0;
};

double Median(std::vector<double> numbers) {
  const auto middle = numbers.begin() + std::ssize(numbers) / 2;
  std::ranges::nth_element(numbers, middle);
  return *middle;
}

void Move(benchmark::State& state, Direction direction) {
  std::vector<std::byte> memory(kBytes, std::byte{1});
  Measured threads(FileMover::kThreads), ring(FileMover::kRing);
  for (Measured* each : {&threads, &ring}) {
    if (const Status status = each->Open(memory); !status.ok()) {
      return state.SkipWithError(status.message().c_str());
    }
  }
  const auto request = static_cast<std::size_t>(state.range(0)) << 20;
  Measured *first = &threads, *second = &ring;
  for (auto _ : state) {
    for (Measured* each : {first, second}) {
      if (const Status status = each->Move(direction, memory, request); !status.ok()) {
        return state.SkipWithError(status.message().c_str());
      }
    }
    std::swap(first, second);
  }
  std::vector<double> ratios;
  std::ranges::transform(ring.rates(), threads.rates(), std::back_inserter(ratios), std::divides());
  state.counters["ratio"] = Median(ratios);
  state.counters["ring_MB/s"] = Median(ring.rates()) / 1e6;
  state.counters["threads_MB/s"] = Median(threads.rates()) / 1e6;
  state.counters["ring_processor_s/GiB"] = ring.processor_seconds_per_gibibyte();
  state.counters["threads_processor_s/GiB"] = threads.processor_seconds_per_gibibyte();
}
BENCHMARK_CAPTURE(Move, Read, Direction::kRead)->ArgName("MiB")->Arg(1)->Arg(16)->UseRealTime();
BENCHMARK_CAPTURE(Move, Write, Direction::kWrite)->ArgName("MiB")->Arg(1)->Arg(16)->UseRealTime();

}  // namespace
}  // namespace swarm::tier

BENCHMARK_MAIN();

#include "ctl/model/probe_command.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>
#include <thread>
#include <utility>

#include "base/files.h"
#include "base/gibibytes.h"
#include "base/machine_memory.h"
#include "base/processors.h"
#include "base/time.h"
#include "ctl/format.h"
#include "ctl/local_model.h"
#include "ctl/manifest_file.h"
#include "ctl/model/link_rate.h"
#include "planner/model_costs.h"
#include "worker/stage/load.h"
#include "worker/tier/tier.h"

namespace swarm::ctl {
namespace {

/// Of the host's memory, what is copied: more than caches hold.
constexpr double kCopiedGibibytes = 0.5;
/// Layers that are measured: the planner counts layers as alike.
constexpr std::int64_t kLayers = 2;
constexpr std::uint64_t kChunk = std::uint64_t{16} << 20;  // of the disk
constexpr double kTera = 1e12, kMega = 1e6;

/// The job with a model of a few layers, as one stage in memory.
api::SwarmJob Shortened(api::SwarmJob job) {
  api::DecoderConfig& config = job.spec.model.config;
  config.num_hidden_layers = std::min(config.num_hidden_layers, kLayers);
  if (!config.layers.empty()) {
    config.layers.resize(static_cast<std::size_t>(config.num_hidden_layers));
  }
  api::Pipeline& pipeline = job.spec.pipeline;
  pipeline.stages = 1;
  pipeline.boundary = {};
  pipeline.residency = api::Residency::kResident;
  pipeline.memory = {};
  job.spec.training.stepMode = api::StepMode::kSync;
  job.spec.training.local = {};
  return job;
}

/// Operations a second of forwards and backwards, one after the other.
Result<double> MeasureRate(const api::SwarmJob& job, int threads, const std::string& device,
                           double seconds) {
  model::StageOptions options = stage::OptionsOf(job, 0, 1, threads, device);
  options.updates = false;
  ASSIGN_OR_RETURN(const auto stage, model::Stage::Create(options));
  stage->InitRandom(job.spec.training.seed);
  const api::Training& training = job.spec.training;
  const auto rows = static_cast<std::uint32_t>(training.microbatchSize);
  const auto columns = static_cast<std::uint32_t>(training.sequenceLength + 1);
  std::vector<std::int32_t> ids(std::size_t{rows} * columns);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] =
        static_cast<std::int32_t>(i * 7919 % static_cast<std::size_t>(options.config.vocab_size));
  }
  const auto layers = static_cast<std::uint64_t>(options.config.num_hidden_layers);
  const double operations = planner::ModelCosts(job.spec).Flops({0, layers}) *
                            static_cast<double>(training.microbatchSize * training.sequenceLength);
  std::vector<double> times;
  const Timepoint end = Clock::now() + FromSeconds(seconds);
  for (std::uint64_t m = 0; times.size() < 3 || Clock::now() < end; ++m) {
    const protocol::TaskKey key{.microbatch = protocol::Microbatch(m)};
    const Timepoint begun = Clock::now();
    RETURN_IF_ERROR(
        stage->Forward(key, stage->version(), {rows, columns, ids}, {}, /*keep_graph=*/true)
            .status());
    RETURN_IF_ERROR(stage->Backward(key, {}).status());
    RETURN_IF_ERROR(stage->Fold(key));
    times.push_back(ToSeconds(Clock::now() - begun));
  }
  times.erase(times.begin());  // memory was not there yet
  std::ranges::nth_element(times, times.begin() + std::ssize(times) / 2);
  return operations / times[times.size() / 2];
}

/// Parameters a second of the host's update: that of a swapped stage's segments, or beside a
/// device.
Result<double> MeasureUpdate(api::SwarmJob job, int threads, double seconds) {
  job.spec.training.precision = api::Precision::kFP32;  // it is one of masters
  model::StageOptions options = stage::OptionsOf(job, 0, 1, threads, "cpu");
  ASSIGN_OR_RETURN(const auto stage, model::Stage::Create(options));
  stage->InitRandom(job.spec.training.seed);
  std::vector<Bytes> sums;
  double parameters = 0;
  for (std::size_t g = 0; g < stage->groups().size(); ++g) {
    sums.push_back(stage->Accumulator(protocol::Step(0), g).elements);
    parameters += static_cast<double>(stage->groups()[g].count);
  }
  const double learning_rate = 1e-9;  // any
  double updated = 0;
  Timepoint begun = Clock::now();
  for (Timepoint end = begun; updated == 0 || Clock::now() < end;) {
    RETURN_IF_ERROR(stage->Apply(sums, /*clip=*/1, learning_rate, /*skip=*/false));
    if (end == begun) {  // memory was not there yet
      begun = Clock::now();
      end = begun + FromSeconds(seconds);
      continue;
    }
    updated += parameters;
  }
  return updated / ToSeconds(Clock::now() - begun);
}

/// What moving bytes takes.
struct TierRates {
  double bytes_per_second = 0;
  double core_seconds_per_byte = 0;
};

/// Of all threads of this process, with what the system does for them.
double CoreSeconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// Of a thread that reads and one that writes, each half of so many bytes.
Result<TierRates> MeasureTier(tier::Tier* tier, double seconds, double gibibytes) {
  const auto half = static_cast<std::uint64_t>(gibibytes * kGibibyte / 2);
  const std::uint64_t chunks = std::max<std::uint64_t>(half / kChunk, 1);
  RETURN_IF_ERROR(tier->Grow(2 * chunks * kChunk));
  std::vector<std::byte> written(kChunk, std::byte{1}), read(kChunk);
  for (std::uint64_t i = 0; i < chunks; ++i) {  // what is read has been written
    RETURN_IF_ERROR(tier->Write(i * kChunk, written));
  }
  std::atomic<std::uint64_t> bytes = 0;
  const double used = CoreSeconds();
  const Timepoint begun = Clock::now(), end = begun + FromSeconds(seconds);
  const auto repeat = [&](const std::function<Status(std::uint64_t chunk)>& touch) {
    for (std::uint64_t i = 0; i == 0 || Clock::now() < end; ++i) {
      RETURN_IF_ERROR(touch(i % chunks));
      bytes += kChunk;
    }
    return Status();
  };
  std::array<Status, 2> ended;
  {
    const std::jthread writer([&] {
      ended[0] =
          repeat([&](std::uint64_t i) { return tier->Write((chunks + i) * kChunk, written); });
    });
    ended[1] = repeat([&](std::uint64_t i) { return tier->Read(i * kChunk, read); });
  }
  for (const Status& status : ended) RETURN_IF_ERROR(status);
  const auto moved = static_cast<double>(bytes);
  return TierRates{moved / ToSeconds(Clock::now() - begun), (CoreSeconds() - used) / moved};
}

std::string HostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "machine";
  return name.data();
}

}  // namespace

ExitCode ProbeMachine(const ProbeOptions& options, std::ostream& out, std::ostream& err) {
  auto job = LoadManifest(options.manifest, options.overrides);
  const auto errors = job.ok() ? ReadKnownModel(&*job) : job.errors();
  if (!errors.empty()) {
    err << options.manifest << ":\n" << api::ToString(errors) << "\n";
    return ExitCode::kBadUsage;
  }
  std::vector<std::pair<std::string, std::string>> peers;  // region, address
  for (const std::string& link : options.links) {
    const std::size_t equals = link.find('=');
    if (equals == 0 || equals == link.npos) {
      err << "--link '" << link << "' is no REGION=HOST or REGION=HOST:PORT\n";
      return ExitCode::kBadUsage;
    }
    peers.emplace_back(link.substr(0, equals), link.substr(equals + 1));
  }
  const auto fail = [&](const Status& status) {
    err << status.ToString() << "\n";
    return ExitCodeOf(status);
  };
  const int threads = options.threads > 0 ? options.threads : static_cast<int>(UsableProcessors());
  const auto rate = MeasureRate(Shortened(*job), threads, options.device, options.seconds);
  if (!rate.ok()) return fail(rate.status());
  std::string fields = Format("teraflops: %.4g, memoryGiB: %.4g", *rate / kTera,
                              static_cast<double>(UsableMemory()) / kGibibyte);
  if (options.device != "cpu") {
    const auto room = stage::FreeDeviceMemory(options.device);
    if (!room.ok()) return fail(room.status());
    const auto copies = stage::MeasureDeviceCopies(options.device, options.seconds);
    if (!copies.ok()) return fail(copies.status());
    fields += Format(", deviceMemoryGiB: %.4g, toDeviceMBps: %.4g, fromDeviceMBps: %.4g",
                     static_cast<double>(*room) / kGibibyte, copies->to_device / kMega,
                     copies->from_device / kMega);
  }
  const auto update = MeasureUpdate(Shortened(*job), threads, options.seconds);
  if (!update.ok()) return fail(update.status());
  const auto memory_tier = tier::MakeMemoryTier();
  const auto memory = MeasureTier(memory_tier.get(), options.seconds, kCopiedGibibytes);
  if (!memory.ok()) return fail(memory.status());
  fields += Format(", memoryMBps: %.4g, updateMillions: %.4g", memory->bytes_per_second / kMega,
                   *update / kMega);
  if (!options.scratch.empty()) {
    const auto scratch = tier::OpenFileTier(options.scratch);
    if (!scratch.ok()) return fail(scratch.status());
    const auto disk = MeasureTier(scratch->get(), options.seconds, options.scratch_gib);
    if (!disk.ok()) return fail(disk.status());
    fields += Format(", diskMBps: %.4g, diskSecondsPerGiB: %.3g", disk->bytes_per_second / kMega,
                     disk->core_seconds_per_byte * kGibibyte);
  }
  const std::string name = options.name.empty() ? HostName() : options.name;
  const std::string region = options.region.empty() ? name : options.region;
  const auto quoted = [](const std::string& text) { return nlohmann::json(text).dump(); };
  std::string links;
  for (const auto& [there, address] : peers) {
    const auto link = MeasureLink(address, std::max(1, static_cast<int>(options.seconds)));
    if (!link.ok()) return fail(link.status());
    links += "  - {between: [" + quoted(region) + ", " + quoted(there) + "]" +
             Format(", roundTripMs: %.3g, mbps: %.4g}\n", link->round_trip_seconds * 1e3,
                    std::min(link->upload, link->download) * 8 / kMega);
  }
  const bool has_region = !options.region.empty() || !links.empty();
  std::string fleet = "groups:\n  - {name: " + quoted(name) + ", count: 1, " +
                      (has_region ? "region: " + quoted(region) + ", " : "") + fields + "}\n";
  if (!links.empty()) fleet += "links:\n" + links;
  if (options.out.empty()) {
    out << fleet;
    return ExitCode::kOk;
  }
  const Status written = WriteFile(options.out, fleet);
  return written.ok() ? ExitCode::kOk : fail(written);
}

}  // namespace swarm::ctl

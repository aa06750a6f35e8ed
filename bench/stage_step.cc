// Computes steps of one stage of a manifest's job, alone in its process: so many microbatches
// forward, then backward, their sums, one update; the sums of two steps are kept, as a worker does.
// Prints, as a line of JSON, the memory that it took at most beside the program itself, what the
// plan predicts, and the tokens a second of its forwards and backwards. What crosses the boundaries
// comes from files and goes to files, so that stage after stage can compute a microbatch of a model
// that does not fit this machine. bench/stage_memory.py runs it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <deque>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "api/model/memory.h"
#include "base/files.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/time.h"
#include "ctl/manifest_file.h"
#include "worker/model/layout/layout.h"
#include "worker/stage/load.h"

namespace swarm {
namespace {

struct Flags {
  std::string manifest;
  std::vector<std::string> overrides;
  std::uint64_t stage = 0, microbatches = 1, rounds = 1;
  int threads = 1;
  bool forward_only = false;
  std::string input, output, gradient, sent;
};

/// A field of /proc/self/status, in bytes.
double MemoryOf(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(field + ":")) continue;
    return std::stod(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}

/// From a file; without one, zeros.
Result<Bytes> ReadBoundary(const std::string& path, std::size_t size) {
  if (path.empty()) {
    return Bytes::Make(size, [size](std::byte* to) { std::fill_n(to, size, std::byte{0}); });
  }
  ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
  return Bytes::Copy(content);
}

Status WriteBoundary(const std::string& path, const Bytes& content) {
  return path.empty() ? Status() : WriteFile(path, content.text());
}

struct Times {
  double forward = 0, backward = 0, apply = 0;
};

/// Of the last two steps.
using KeptSums = std::deque<std::vector<Bytes>>;

Status Step(const Flags& flags, model::Stage& stage, const model::TokenBatch& tokens,
            const Bytes& input, const Bytes& gradient, std::uint64_t number, KeptSums* kept,
            Times* times) {
  using protocol::Microbatch;
  const auto key = [&](std::uint64_t m) {
    return protocol::TaskKey{protocol::Generation(0), protocol::Step(number), Microbatch(m),
                             protocol::StageIndex(flags.stage), {}};
  };
  const protocol::Version version(number);
  const Timepoint begin = Clock::now();
  for (std::uint64_t m = 0; m < flags.microbatches; ++m) {
    ASSIGN_OR_RETURN(const model::ForwardResult result,
                     stage.Forward(key(m), version, tokens, input, !flags.forward_only));
    if (number + m == 0) RETURN_IF_ERROR(WriteBoundary(flags.output, result.boundary));
  }
  const Timepoint turned = Clock::now();
  times->forward += ToSeconds(turned - begin);
  if (flags.forward_only) return Status();
  for (std::uint64_t m = 0; m < flags.microbatches; ++m) {
    ASSIGN_OR_RETURN(const Bytes sent, stage.Backward(key(m), gradient));
    if (number + m == 0) RETURN_IF_ERROR(WriteBoundary(flags.sent, sent));
    RETURN_IF_ERROR(stage.Fold(key(m)));
  }
  const Timepoint folded = Clock::now();
  times->backward += ToSeconds(folded - turned);
  std::vector<Bytes> sums;
  for (std::size_t group = 0; group < stage.groups().size(); ++group) {
    sums.push_back(stage.Accumulator(protocol::Step(number), group).elements);
  }
  RETURN_IF_ERROR(stage.Apply(sums, 1, 1e-4, /*skip=*/false));
  stage.ReleaseStep(protocol::Step(number));
  kept->push_back(std::move(sums));
  if (kept->size() > 2) kept->pop_front();
  times->apply += ToSeconds(Clock::now() - folded);
  return Status();
}

Status Run(const Flags& flags) {
  const api::Checked<api::SwarmJob> job = ctl::LoadManifest(flags.manifest, flags.overrides);
  if (!job.ok()) return InvalidArgument(api::ToString(job.errors()));
  const api::Spec& spec = job->spec;
  const api::DecoderConfig& config = spec.model.config;
  ASSIGN_OR_RETURN(const model::Layout layout,
                   model::ComputeParameterLayout(config, flags.stage, spec.pipeline.stages,
                                                 spec.pipeline.boundary, spec.model.lora));
  const double before = MemoryOf("VmRSS");
  ASSIGN_OR_RETURN(const auto stage,
                   model::Stage::Create(stage::OptionsOf(*job, flags.stage, spec.pipeline.stages,
                                                         flags.threads, "cpu")));
  stage->InitRandom(spec.training.seed);
  const std::uint64_t columns = spec.training.sequenceLength + 1;
  Rng rng(1);
  std::vector<std::int32_t> ids(spec.training.microbatchSize * columns);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(rng.Below(config.vocab_size));
  const model::TokenBatch tokens{static_cast<std::uint32_t>(spec.training.microbatchSize),
                                 static_cast<std::uint32_t>(columns), ids};
  const std::uint64_t boundary = api::BoundaryBytes(*job);
  ASSIGN_OR_RETURN(const Bytes input,
                   ReadBoundary(flags.input, layout.slice.embedding ? 0 : boundary));
  ASSIGN_OR_RETURN(const Bytes gradient,
                   ReadBoundary(flags.gradient, layout.slice.head ? 0 : boundary));
  KeptSums kept;
  Times times;
  for (std::uint64_t round = 0; round < flags.rounds; ++round) {
    RETURN_IF_ERROR(Step(flags, *stage, tokens, input, gradient, round, &kept, &times));
  }
  std::uint64_t trained = 0;
  for (const model::ParameterGroup& group : layout.groups) trained += group.count;
  const std::uint64_t length = spec.training.microbatchSize * spec.training.sequenceLength;
  const auto layers = static_cast<std::uint64_t>(layout.slice.count);
  const std::uint64_t graph = api::GraphBytes(config, spec.pipeline.recompute, layers, length,
                                              layout.slice.head);
  const double passed = static_cast<double>(flags.rounds * flags.microbatches * length);
  std::printf(
      "{\"parameters\": %llu, \"layers\": %llu, \"peak\": %.0f, \"program\": %.0f, \"state\": %llu,"
      " \"graph\": %llu, \"backward\": %llu, \"tokens_per_s\": %.1f, \"apply_s\": %.2f}\n",
      static_cast<unsigned long long>(trained), static_cast<unsigned long long>(layers),
      MemoryOf("VmHWM") - before, before,
      static_cast<unsigned long long>(
          api::ServingBytes(spec, trained, layout.frozen_count, /*alone=*/true)),
      static_cast<unsigned long long>(graph),
      static_cast<unsigned long long>(
          api::BackwardBytes(config, spec.pipeline.recompute, layers, length)),
      passed / (times.forward + times.backward),
      times.apply / static_cast<double>(flags.rounds));
  return Status();
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("A step of one stage, and what it takes");
  app.add_option("-f,--filename", flags.manifest, "The job")->required();
  app.add_option("--set", flags.overrides, "Override a field")->expected(1)->take_all();
  app.add_option("--stage", flags.stage, "From 0");
  app.add_option("--microbatches", flags.microbatches, "Forward before the first backward");
  app.add_option("--rounds", flags.rounds, "Steps");
  app.add_option("--threads", flags.threads, "Of the compute");
  app.add_flag("--forward-only", flags.forward_only, "No backward, no update");
  app.add_option("--input", flags.input, "File with what the stage before sent");
  app.add_option("--output", flags.output, "File for what goes to the stage behind");
  app.add_option("--gradient", flags.gradient, "File with what the stage behind sent");
  app.add_option("--sent", flags.sent, "File for what goes to the stage before");
  CLI11_PARSE(app, argc, argv);
  const Status status = Run(flags);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace swarm

int main(int argc, char** argv) { return swarm::Main(argc, argv); }

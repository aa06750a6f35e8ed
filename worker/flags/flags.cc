#include "worker/flags/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <sstream>
#include <type_traits>
#include <utility>

#include "base/completion/describe.h"
#include "base/enum_names.h"
#include "base/version.h"
#include "worker/protocol/balance/policy_names.h"

namespace swarm {

template <>
struct EnumNames<WorkerRole> {
  static constexpr auto kNames =
      NameTable<WorkerRole>({{WorkerRole::kTrainer, "trainer"}, {WorkerRole::kStage, "stage"}});
};

namespace {

/// Values that an option takes, both ends included.
struct Range {
  std::uint64_t min = 0;
  std::uint64_t max = std::numeric_limits<std::uint64_t>::max();
};
constexpr Range kDay{0, 86400};

/// The list of all options. `visit` is called as visit(name, field, help) or, for a number,
/// visit(name, field, range, help). Group() applies to the options after it, Environment() to the
/// one before it.
template <typename Flags, typename Visitor>
void VisitOptions(Flags& flags, Visitor& visit) {
  visit("--role", flags.role, "What this program is");
  visit("--listen", flags.listen,
        "host:port to listen at; port 0 takes a free one; none: this worker only dials");
  visit("--advertise", flags.advertise, "host:port at which the peers reach this program");
  visit("--metrics-listen", flags.metrics_listen,
        "address:port at which to serve /metrics, /healthz and /readyz (default: none)");
  visit("--metrics-address-file", flags.metrics_address_file,
        "File to write once metrics are served: their address:port");
  visit("--chaos-file", flags.chaos_file,
        "File of faults to inject, for experiments: cuts and delays of connections, moments to"
        " wait at");
  visit("--job-uid", flags.job_uid, "UID of the job; peers of another job are refused");
  visit("--tls-ca", flags.tls_ca, "PEM file: the authority that signs the peers' certificates");
  visit("--tls-cert", flags.tls_cert, "PEM file: the certificate of this program");
  visit("--tls-key", flags.tls_key, "PEM file: its private key");
  visit("--plaintext", flags.plaintext, "Use no TLS, for experiments on one machine");
  visit("--revoked-file", flags.revoked_file,
        "File with ids of workers, one a line, whose certificates count no more; it is read again"
        " every second");
  visit("--log-level", flags.log_level, "trace, debug, info, warn or error");

  visit.Group("trainer");
  visit("--job", flags.job, "File: the SwarmJob as JSON");
  visit("--out", flags.out, "Folder for steps.jsonl, events.jsonl and checkpoints");
  visit("--address-file", flags.address_file,
        "File to write once the trainer listens: its host:port");
  visit("--layout", flags.layout, "Replicas of each stage, as in 2,1,3");
  visit("--term", flags.term, Range{1}, "Counts the trainers of this job");
  visit("--balance", flags.balance,
        "When workers move between stages: never, one every 300 s, or at each event");
  visit("--resume", flags.resume,
        "Continue from the newest checkpoint; start from step 0 if there is none");
  visit("--keep-workers", flags.keep_workers,
        "When told to stop, leave the workers to the next trainer");
  visit("--stop-seconds", flags.stop_seconds, kDay,
        "Seconds from SIGTERM to the end: time to finish the step and write a checkpoint");
  visit("--storage-patience", flags.storage_patience, kDay,
        "Seconds to wait at the start for a bucket that does not answer");
  visit("--trace-progress", flags.trace_progress,
        "Write progress.jsonl, a line for each piece of work, for measurements");
  visit(
      "--page", flags.page,
      "address:port at which to serve the page to watch the job; port 0 takes a free one (default:"
      " none)");
  // For one version the operator tells it so: programs of the version before do not know the flag.
  visit.Environment("SWARM_PAGE");
  visit("--page-address-file", flags.page_address_file,
        "File to write once the page is served: its address:port");

  visit.Group("stage");
  visit("--id", flags.id, "Name of this worker, unique in the job");
  visit("--trainer", flags.trainer, "host:port of the trainer");
  // These three by the environment, too: programs of the version before do not know them.
  visit("--trainer-gateway", flags.trainer_gateway,
        "HOST:PORT/NAME of the gateway before the trainer, if that is in another cluster: the name"
        " by which the gateway knows the trainer (default: none)");
  visit.Environment("SWARM_TRAINER_GATEWAY");
  visit("--cluster", flags.cluster, "Workers of the same cluster reach each other directly");
  visit.Environment("SWARM_CLUSTER");
  visit("--gateway", flags.gateway,
        "HOST:PORT/NAME of the gateway by which workers of other clusters reach this one, and its"
        " name there (default: none)");
  visit.Environment("SWARM_GATEWAY");
  visit("--threads", flags.threads, Range{1, 1024}, "Compute threads");
  visit("--trainer-patience", flags.trainer_patience, Range{1, 1'000'000},
        "Seconds to wait for the next trainer while there is none");
  visit("--device", flags.device, "cpu or cuda:N");
  visit("--devices", flags.devices,
        "Start a worker for each of these devices, as in cuda:0,cuda:1, watch them, and drain all"
        " when told to end; they are called ID-0, ID-1, ... Not together with --device");
  visit("--pod", flags.pod, "Name that this worker shares with others that will end with it");
  visit("--pod-memory", flags.pod_memory, Range{0, 1u << 20},
        "Inherited descriptor of memory that the workers of the pod share, which --devices gives"
        " them; 0: none");
  visit("--pod-worker", flags.pod_worker, Range{0, 1024},
        "With --pod-memory: the number of this worker, whose id ends in it");
  // From the environment, because a pod may not know its region: the variable is then empty.
  visit("--region", flags.region,
        "Where this worker runs; metrics count what is sent between regions");
  visit.Environment("SWARM_REGION");
  visit("--drain-seconds", flags.drain_seconds, kDay,
        "Seconds from SIGTERM to the end: time to hand over what this worker holds");
  visit("--memory", flags.memory, Range{0, std::uint64_t{1} << 50},
        "Bytes of this machine's memory that this worker may use, where it is not alone; 0: all");
  visit("--memory-budget", flags.memory_budget, Range{0, std::uint64_t{1} << 50},
        "Bytes that this worker may hold beside the state that it serves; 0: what the job says, or"
        " else what --memory has room for");
  visit("--profile", flags.profile,
        "File to write at the end: what this worker did and when, for `swarmctl profile`");
}

std::string ToText(const std::string& value) { return value; }
template <typename Number>
  requires std::is_integral_v<Number>
std::string ToText(Number value) {
  return std::to_string(value);
}
template <NamedEnum Enum>
std::string ToText(Enum value) {
  return std::string(NameOf(value));
}
std::string ToText(const std::vector<std::uint64_t>& values) {
  std::string text;
  for (const std::uint64_t value : values) text += (text.empty() ? "" : ",") + ToText(value);
  return text;
}

std::string ToText(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ",") + value;
  return text;
}

/// The options whose value is not the default, in the order of the list.
class Writer {
 public:
  std::vector<std::string> Write(const WorkerFlags& flags) {
    VisitOptions(default_, *this);
    writing_ = true;
    VisitOptions(flags, *this);
    return std::move(arguments_);
  }

  void Group(const char*) {}
  void Environment(const char*) {}
  void operator()(const char* name, const bool& value, const char*) {
    if (!writing_ || !value) return;
    arguments_.emplace_back(name);
  }
  template <typename T>
  void operator()(const char* name, const T& value, const char*) {
    const std::string text = ToText(value);
    if (!writing_) {
      defaults_.push_back(text);
    } else if (text != defaults_[next_++]) {
      arguments_.push_back(std::string(name) + "=" + text);
    }
  }
  template <typename T>
  void operator()(const char* name, const T& value, Range, const char* help) {
    (*this)(name, value, help);
  }

 private:
  const WorkerFlags default_;
  bool writing_ = false;
  std::vector<std::string> defaults_;  // of the options with a value
  std::size_t next_ = 0;
  std::vector<std::string> arguments_;
};

std::optional<std::uint64_t> ParseNumber(const std::string& text, Range range) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end) return std::nullopt;
  if (number < range.min || number > range.max) return std::nullopt;
  return number;
}

/// The options as CLI11 reads and describes them.
class Reader {
 public:
  explicit Reader(CLI::App* app) : app_(app), group_(app) {}

  void Group(const char* name) { group_ = app_->add_option_group(name); }
  void Environment(const char* variable) { last_->envname(variable); }

  void operator()(const char* name, bool& value, const char* help) {
    group_->add_flag(name, value, help);
  }
  void operator()(const char* name, std::string& value, const char* help) {
    last_ = group_->add_option(name, value, help);
    if (!value.empty()) last_->capture_default_str();
  }
  template <typename Number>
  void operator()(const char* name, Number& value, Range range, const char* help) {
    Add(name, help,
        [name, range, &value](const std::string& text) {
          const auto number = ParseNumber(text, range);
          if (!number) {
            throw CLI::ValidationError(name, "'" + text + "' is not a number of the range [" +
                                                 ToText(range.min) + ", " + ToText(range.max) +
                                                 "]");
          }
          value = static_cast<Number>(*number);
        })
        ->type_name("N")
        ->default_str(ToText(value));
  }
  void operator()(const char* name, std::vector<std::uint64_t>& values, const char* help) {
    Add(name, help, [name, &values](const std::string& text) {
      values.clear();
      std::istringstream parts(text + ",");
      for (std::string part; std::getline(parts, part, ',');) {
        const auto number = ParseNumber(part, Range{1, 999'999});
        if (!number) {
          throw CLI::ValidationError(
              name, "'" + text + "' is not a list of numbers of replicas, as in 2,1,3");
        }
        values.push_back(*number);
      }
    });
  }
  void operator()(const char* name, std::vector<std::string>& devices, const char* help) {
    Add(name, help, [name, &devices](const std::string& text) {
      auto parsed = ParseDevices(text);
      if (!parsed.ok()) throw CLI::ValidationError(name, parsed.status().message());
      devices = *std::move(parsed);
    });
  }
  template <NamedEnum Enum>
  void operator()(const char* name, Enum& value, const char* help) {
    std::string choices;
    for (const auto& [each, text] : EnumNames<Enum>::kNames) {
      choices += (choices.empty() ? "" : "|") + std::string(text);
    }
    Add(name, help, [name, choices, &value](const std::string& text) {
      const auto found = FindEnum<Enum>(text);
      if (!found) throw CLI::ValidationError(name, "'" + text + "' is none of " + choices);
      value = *found;
    })->type_name(choices);
  }

 private:
  CLI::Option* Add(const char* name, const char* help,
                   std::function<void(const std::string&)> take) {
    return last_ = group_->add_option_function<std::string>(name, std::move(take), help);
  }

  CLI::App* const app_;
  CLI::App* group_;
  CLI::Option* last_ = nullptr;
};

Status CheckLauncher(const WorkerFlags& flags) {
  if (flags.role != WorkerRole::kStage) return InvalidArgument("--devices is for --role=stage");
  if (flags.device != WorkerFlags().device) {
    return InvalidArgument("give --device or --devices, not both");
  }
  if (flags.metrics_listen.ends_with(":0") && flags.metrics_address_file.empty()) {
    return InvalidArgument(
        "--devices with port 0 in --metrics-listen needs --metrics-address-file");
  }
  return Status();
}

/// Checks that the options without which the role cannot run are set, and that they fit together.
Status CheckRequired(const WorkerFlags& flags) {
  if (!flags.devices.empty()) RETURN_IF_ERROR(CheckLauncher(flags));
  RETURN_IF_ERROR(CheckDevice(flags.device).WithContext("--device"));
  if (flags.role == WorkerRole::kTrainer &&
      (flags.job.empty() || flags.out.empty() || flags.layout.empty())) {
    return InvalidArgument("--role=trainer needs --job, --out and --layout");
  }
  if (flags.role == WorkerRole::kTrainer && flags.listen == kDialOnly) {
    return InvalidArgument("--listen=none is for workers: they dial the trainer");
  }
  if (flags.role == WorkerRole::kStage && (flags.id.empty() || flags.trainer.empty())) {
    return InvalidArgument("--role=stage needs --id and --trainer");
  }
  for (const std::string& gateway : {flags.gateway, flags.trainer_gateway}) {
    if (gateway.empty()) continue;
    RETURN_IF_ERROR(ParseGateway(gateway).status());
  }
  if (!flags.plaintext &&
      (flags.tls_ca.empty() || flags.tls_cert.empty() || flags.tls_key.empty())) {
    return InvalidArgument("give --tls-ca, --tls-cert and --tls-key, or --plaintext");
  }
  return Status();
}

}  // namespace

Status CheckDevice(const std::string& name) {
  const std::string number = name.starts_with("cuda:") ? name.substr(5) : "";
  const bool is_gpu = !number.empty() && number.size() <= 3 &&
                      number.find_first_not_of("0123456789") == number.npos;
  if (name == "cpu" || is_gpu) return Status();
  return InvalidArgument("'" + name +
                         "' is no device: write cpu, or cuda:N with the number of a"
                         " GPU");
}

Result<protocol::Address> ParseGateway(const std::string& text) {
  const std::size_t slash = text.find('/');
  const std::string dial = text.substr(0, slash);
  const bool has_port = dial.rfind(':') != dial.npos && dial.rfind(':') + 1 < dial.size();
  if (slash == text.npos || slash + 1 == text.size() || !has_port || dial.front() == ':') {
    return InvalidArgument("'" + text +
                           "' is no gateway: write HOST:PORT/NAME, NAME being that by which the"
                           " gateway knows who is behind it");
  }
  return protocol::Address{"global", dial, text.substr(slash + 1)};
}

Result<std::vector<std::string>> ParseDevices(const std::string& list) {
  std::vector<std::string> devices;
  std::istringstream parts(list + ",");
  for (std::string part; std::getline(parts, part, ',');) {
    RETURN_IF_ERROR(CheckDevice(part));
    devices.push_back(part);
  }
  return devices;
}

std::vector<std::string> ToArguments(const WorkerFlags& flags) {
  std::vector<std::string> arguments = Writer().Write(flags);
  // The role is always written: the reader has no default for it.
  if (flags.role == WorkerFlags().role) {
    arguments.insert(arguments.begin(), "--role=" + ToText(flags.role));
  }
  return arguments;
}

Result<WorkerCommand> ParseWorkerFlags(std::vector<std::string> arguments) {
  WorkerCommand command;
  CLI::App app("The trainer, or one worker, of a SwarmJob", "swarm-worker");
  app.set_version_flag("--version", Version());
  Reader reader(&app);
  VisitOptions(command.flags, reader);
  app.get_option("--role")->required();
  AddCompletionFlag(app);
  try {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    command.print = app.help();
    return command;
  } catch (const CLI::CallForVersion& version) {
    command.print = version.what() + std::string("\n");
    return command;
  } catch (const CLI::ParseError& error) {
    return InvalidArgument(error.what());
  }
  RETURN_IF_ERROR(CheckRequired(command.flags));
  return command;
}

}  // namespace swarm

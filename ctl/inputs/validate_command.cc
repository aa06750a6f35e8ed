#include "ctl/inputs/validate_command.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "api/format/enum_names.h"
#include "api/model/decoder_config.h"
#include "api/model/layout.h"
#include "api/model/memory.h"
#include "api/parse.h"
#include "api/validate.h"
#include "base/gibibytes.h"
#include "ctl/local_model.h"
#include "ctl/local_path.h"
#include "ctl/manifest_file.h"
#include "worker/checkpoint/huggingface.h"
#include "worker/data/data_files.h"
#include "worker/data/documents/encode_file.h"
#include "worker/data/tokenizer.h"
#include "worker/model/layout/layout.h"
#include "worker/trainer/job_data.h"

namespace swarm::ctl {
namespace {

nlohmann::json ToJson(const std::vector<api::FieldError>& errors) {
  nlohmann::json list = nlohmann::json::array();
  for (const api::FieldError& error : errors) {
    list.push_back({{"path", error.path}, {"problem", error.problem}, {"remedy", error.remedy}});
  }
  return {{"errors", list}};
}

// The path, or the folder of a pattern of paths.
std::filesystem::path WithoutPattern(const std::filesystem::path& path) {
  const std::string text = path.string();
  const std::size_t wildcard = text.find_first_of("*?[");
  std::error_code error;
  if (wildcard == text.npos || std::filesystem::exists(path, error)) return path;
  const auto folder = std::filesystem::path(text.substr(0, wildcard)).parent_path();
  return folder.empty() ? "." : folder;
}

using NamedUris = std::vector<std::pair<const char*, std::string>>;

NamedUris DataUris(const api::Spec& spec) {
  NamedUris fields = {{"spec.data.validationUri", spec.data.validationUri}};
  for (const api::DataSource& source : spec.data.AllSources()) {
    fields.emplace_back(spec.data.sources ? "spec.data.sources" : "spec.data.uri", source.uri);
  }
  std::erase_if(fields, [](const auto& field) { return field.second.empty(); });
  return fields;
}

// The files of this machine that the job reads and that do not exist.
std::vector<api::FieldError> FindAbsentFiles(const api::Spec& spec) {
  NamedUris fields = DataUris(spec);
  fields.emplace_back("spec.model.uri", spec.model.uri);
  fields.emplace_back("spec.model.tokenizer.uri", spec.model.tokenizer.uri);
  std::vector<api::FieldError> absent;
  for (const auto& [field, uri] : fields) {
    const auto path = LocalPath(uri);
    std::error_code error;
    if (!path || std::filesystem::exists(WithoutPattern(*path), error)) continue;
    absent.push_back(
        {field, "is " + uri + ", which does not exist here",
         "name an existing file or folder; a relative path begins in the current one"});
  }
  return absent;
}

// Collects what is wrong with what the manifest names.
class Look {
 public:
  explicit Look(api::SwarmJob* job) : job_(*job), spec_(job->spec) {}

  std::vector<api::FieldError> Take() {
    if (Model()) {
      Data();
      Tokenizer();
    }
    return std::move(errors_);
  }

 private:
  bool Expect(const Status& status, const char* field, const char* remedy) {
    if (!status.ok()) errors_.push_back({field, status.message(), remedy});
    return status.ok();
  }

  // Its config, its tokenizer's uri, and whether it has weights.
  bool Model() {
    if (!Expect(trainer::ResolveModel(&job_), "spec.model.uri", "name a Hugging Face folder")) {
      return false;
    }
    if (spec_.model.init != api::ModelInit::kPretrained) return true;
    return Expect(checkpoint::HuggingFaceFolder::Open(spec_.model.uri, spec_.storage).status(),
                  "spec.model.uri", "give a folder with safetensors, or model.init: Random");
  }

  // Which files there are, whether they are of kinds that a job reads, and whether the first
  // document of each can be read; those in a bucket are not opened.
  void Data() {
    for (const auto& [field, uri] : DataUris(spec_)) {
      const auto found = data::FindDataFiles(uri, spec_.storage);
      if (!Expect(found.status(), field, "see docs/swarmjob.md, Data and tokenizer")) continue;
      for (const data::DataFile& file : found->files) {
        const bool documents = data::HasDocuments(file.format.kind);
        if (documents && documents_.empty()) documents_ = file.name;
        has_text_ |= documents || file.format.kind == data::FileKind::kText;
        if (!documents || !LocalPath(uri)) continue;
        const Status status = FirstDocument(*found->storage, file);
        if (!Expect(status, field, "look into the file")) break;
      }
    }
  }

  Status FirstDocument(storage::Storage& storage, const data::DataFile& file) const {
    ASSIGN_OR_RETURN(const Bytes content, storage.Map(file.name));
    return data::CheckFirstDocument(storage.Describe(file.name), file.format, content,
                                    {.format = spec_.data.format,
                                     .text_field = spec_.data.textField,
                                     .on_bad_document = spec_.data.onBadDocument});
  }

  // Whether it can be opened, has no more ids than the model, and ends documents.
  void Tokenizer() {
    const api::Tokenizer& named = spec_.model.tokenizer;
    if (named.kind == api::TokenizerKind::kAuto || named.kind == api::TokenizerKind::kByte) {
      const bool bytes = named.kind == api::TokenizerKind::kByte || spec_.model.uri.empty() ||
                         spec_.model.config.vocab_size == 256;
      if (bytes || !has_text_) return;
      errors_.push_back({"spec.model.tokenizer.uri",
                         "is missing: the data are text, and " + spec_.model.uri +
                             " has no tokenizer.json and no tokenizer.model",
                         "name a tokenizer"});
      return;
    }
    const auto opened = data::OpenTokenizer(named, spec_.storage);
    if (!Expect(opened.status(), "spec.model.tokenizer.uri", "name a tokenizer")) return;
    const data::Tokenizer& tokenizer = **opened;
    if (tokenizer.vocab_size() > spec_.model.config.vocab_size) {
      errors_.push_back(
          {"spec.model.tokenizer.uri",
           "is " + named.uri + ", which has " + std::to_string(tokenizer.vocab_size()) +
               " ids; the model's vocab_size is " + std::to_string(spec_.model.config.vocab_size),
           "name the model's tokenizer"});
    }
    const bool ends = spec_.data.format == api::DataFormat::kChat || tokenizer.special().eos;
    if (!documents_.empty() && !ends) {
      errors_.push_back(
          {"spec.model.tokenizer.uri",
           "is " + named.uri + ", which names no EOS to end the documents of " + documents_,
           "name it in a tokenizer_config.json beside tokenizer.json"});
    }
  }

  api::SwarmJob& job_;
  const api::Spec& spec_;
  std::string documents_;  // the first file that has documents
  bool has_text_ = false;
  std::vector<api::FieldError> errors_;
};

std::string WithCommas(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

// The model, the memory of its largest stage, and the tokens; a line each.
std::string SizesText(const api::SwarmJob& job) {
  const api::Spec& spec = job.spec;
  const api::DecoderConfig& config = spec.model.config;
  std::string text = "model: " + std::string(NameOf(config.family)) + ", " +
                     std::to_string(config.num_hidden_layers) + " layers, " +
                     WithCommas(api::ParameterCount(config)) + " parameters";
  const std::uint64_t microbatch_tokens =
      spec.training.microbatchSize * spec.training.sequenceLength;
  const auto replicas = api::ComputeReplicas(job, "");
  std::uint64_t trained = 0, largest = 0, graph = 0, copy = 0, disk = 0;
  for (std::uint64_t stage = 0; stage < spec.pipeline.stages; ++stage) {
    const auto layout = model::ComputeParameterLayout(config, stage, spec.pipeline.stages,
                                                      spec.pipeline.boundary, spec.model.lora);
    if (!layout.ok()) return text + "\n";
    std::uint64_t of_stage = 0;
    for (const auto& group : layout->groups) of_stage += group.count;
    trained += of_stage;
    const bool alone = replicas.ok() && (*replicas)[stage] == 1;
    const auto layers = static_cast<std::uint64_t>(layout->slice.count);
    const std::uint64_t needed =
        api::ServingBytes(spec, of_stage, layout->frozen_count, alone) +
        api::BackwardBytes(config, spec.pipeline.recompute, layers, microbatch_tokens);
    largest = std::max(largest, needed);
    graph = std::max(graph, api::GraphBytes(config, spec.pipeline.recompute, layers,
                                            microbatch_tokens, layout->slice.head));
    copy = std::max(copy, api::CopyBytes(spec, of_stage, layout->frozen_count));
    disk = std::max(disk, api::SwapDiskBytes(spec, of_stage) + 4 * layout->frozen_count);
  }
  if (spec.model.lora.rank > 0) text += ", of adapters " + WithCommas(trained);
  if (spec.pipeline.residency == api::Residency::kSwap) {
    const std::uint64_t host = spec.pipeline.memory.host;
    text += "\nmemory: segments of the largest stage take " +
            (host > 0 ? GibibytesText(host) : "half of the machine's memory") +
            " beside the program\n" + "disk: " + GibibytesText(disk) + " a worker, and " +
            GibibytesText(api::SwapInputBytes(spec)) +
            " for inputs of segments where memory has no room, and " + GibibytesText(copy) +
            " while its state is copied for a checkpoint or a joiner\n";
  } else {
    text += "\nmemory: the largest stage needs about " + GibibytesText(largest) + ", " +
            GibibytesText(graph) + " for each microbatch in flight, and " + GibibytesText(copy) +
            " while its state is copied for a checkpoint or a joiner\n";
  }
  const std::uint64_t tokens = spec.training.globalBatchSize * spec.training.sequenceLength;
  return text + "tokens: " + WithCommas(tokens) + " a step, " +
         WithCommas(tokens * spec.training.maxSteps) + " in all\n";
}

}  // namespace

ExitCode RunValidate(const ValidateOptions& options, std::ostream& out, std::ostream& err) {
  api::Checked<api::SwarmJob> job = LoadManifest(options.manifest, options.overrides);
  std::optional<api::SwarmJob> resolved;  // with the config that model.uri names
  if (job.ok()) {
    resolved = *job;
    // In a cluster, paths are those of volumes in its pods.
    const bool look = !options.cluster && !options.offline;
    std::vector<api::FieldError> errors;
    if (options.cluster) errors = api::ValidateForCluster(*job);
    if (look) errors = FindAbsentFiles(job->spec);
    if (look && errors.empty()) errors = ReadLocalModel(&*resolved);
    if (look && errors.empty()) errors = Look(&*resolved).Take();
    if (!errors.empty()) job = std::move(errors);
  }
  if (!job.ok()) {
    if (options.json) {
      using Handler = nlohmann::json::error_handler_t;
      out << ToJson(job.errors()).dump(2, ' ', false, Handler::replace) << "\n";
    } else {
      err << api::ToString(job.errors()) << "\n";
    }
    return ExitCode::kBadUsage;
  }
  if (options.json) {
    out << api::ToJsonText(*job);
    return ExitCode::kOk;
  }
  const auto layout = api::ComputeReplicas(*job, "");
  out << job->name << " is valid: " << job->spec.training.maxSteps << " steps of "
      << job->microbatches() << " microbatches, " << job->spec.pipeline.stages << " stages";
  if (layout.ok()) out << ", replicas " << api::LayoutText(*layout);
  out << "\n";
  if (resolved->spec.model.config.hidden_size != 0) out << SizesText(*resolved);
  return ExitCode::kOk;
}

}  // namespace swarm::ctl

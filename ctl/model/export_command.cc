#include "ctl/model/export_command.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "api/model/decoder_config.h"
#include "ctl/model/trained_model.h"
#include "worker/model/fold.h"
#include "worker/storage/storage.h"

namespace swarm::ctl {
namespace {

struct Exported {
  std::string model;  // what was exported
  std::size_t tensors = 0;
  std::uint64_t parameters = 0;
};

Status CheckEmpty(storage::Storage& folder, const std::string& uri) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, folder.List(""));
  if (names.empty()) return Status();
  return AlreadyExists("--out: " + uri + " is not empty (" + names.front() +
                       " is there); give a new folder");
}

nlohmann::json IdOrNull(std::optional<std::int32_t> id) {
  return id ? nlohmann::json(*id) : nlohmann::json();
}

std::string ConfigOf(const TrainedModel& found, const data::SpecialTokens& special) {
  nlohmann::json config = api::DecoderConfigToJson(found.config);
  // A family's defaults are ids of its own vocabulary. In another they would end a text at random,
  // and transformers loads no model whose padding is outside its vocabulary.
  config["bos_token_id"] = IdOrNull(special.bos);
  config["eos_token_id"] = IdOrNull(special.eos);
  if (special.eos && !special.other_ends.empty()) {
    std::vector<std::int32_t> ends = {*special.eos};
    ends.insert(ends.end(), special.other_ends.begin(), special.other_ends.end());
    config["eos_token_id"] = ends;
  }
  config["pad_token_id"] = nullptr;
  return config.dump();
}

// Copies the files of the tokenizer. Returns the ids that it puts around a document.
Result<data::SpecialTokens> CopyTokenizer(const api::Tokenizer& tokenizer,
                                          const api::Storage& options, storage::Storage& folder) {
  if (tokenizer.kind == api::TokenizerKind::kAuto) return data::SpecialTokens();
  ASSIGN_OR_RETURN(const auto files, data::ReadTokenizerFiles(tokenizer, options));
  auto opened = data::MakeTokenizer(files);
  if (!opened.ok()) return opened.status().WithContext(tokenizer.uri);
  RETURN_IF_ERROR(data::WriteTokenizerFiles(data::ForTransformers(files), folder, ""));
  return (*opened)->special();
}

Result<Exported> Export(const ExportOptions& options) {
  ASSIGN_OR_RETURN(const TrainedModel found, FindModel(options.model));
  ASSIGN_OR_RETURN(const auto folder, storage::Storage::Open(options.out, found.storage()));
  RETURN_IF_ERROR(CheckEmpty(*folder, options.out));
  const auto folded =
      model::FoldWeights(found.config, found.boundary, found.seed, found.weights, found.lora);
  if (!folded.ok()) return folded.status().WithContext(found.uri);
  const std::vector<checkpoint::NamedTensor>& tensors = *folded;
  ASSIGN_OR_RETURN(
      const data::SpecialTokens special,
      CopyTokenizer(ChooseTokenizer(found, options.tokenizer), found.storage(), *folder));
  RETURN_IF_ERROR(checkpoint::WriteHuggingFaceFolder(options.out, ConfigOf(found, special), tensors,
                                                     options.weights, found.storage()));
  Exported exported{.model = found.uri, .tensors = tensors.size()};
  for (const auto& tensor : tensors) exported.parameters += tensor.data.size() / sizeof(float);
  return exported;
}

}  // namespace

ExitCode ExportModel(const ExportOptions& options, std::FILE* out, std::FILE* err) {
  const Result<Exported> exported = Export(options);
  if (!exported.ok()) {
    std::fprintf(err, "%s\n", exported.status().message().c_str());
    return ExitCodeOf(exported.status());
  }
  if (options.json) {
    const nlohmann::json object = {{"model", exported->model},
                                   {"out", options.out},
                                   {"tensors", exported->tensors},
                                   {"parameters", exported->parameters}};
    using Handler = nlohmann::json::error_handler_t;
    std::fprintf(out, "%s\n", object.dump(-1, ' ', false, Handler::replace).c_str());
  } else {
    std::fprintf(out, "Wrote %s: %zu tensors, %llu parameters of %s\n", options.out.c_str(),
                 exported->tensors, static_cast<unsigned long long>(exported->parameters),
                 exported->model.c_str());
  }
  return ExitCode::kOk;
}

}  // namespace swarm::ctl

#include "ctl/model/export_command.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "api/model/decoder_config.h"
#include "ctl/model/trained_model.h"
#include "worker/checkpoint/huggingface.h"
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

std::string ConfigOf(const TrainedModel& found, bool bytes) {
  nlohmann::json config = api::DecoderConfigToJson(found.config);
  config["torch_dtype"] = "float32";
  // A family's defaults are ids of its own vocabulary. As bytes they would end a text at random,
  // and transformers loads no model whose padding is outside its vocabulary.
  if (bytes) config["bos_token_id"] = config["eos_token_id"] = nullptr;
  config["pad_token_id"] = nullptr;
  return config.dump();
}

Status CopyTokenizer(const api::Tokenizer& tokenizer, const api::Storage& options,
                     storage::Storage& folder) {
  const storage::SplitUri split = storage::SplitLastName(tokenizer.uri);
  ASSIGN_OR_RETURN(const auto from, storage::Storage::Open(split.folder, options));
  ASSIGN_OR_RETURN(const Bytes model, from->Read(split.name));
  return folder.Write("tokenizer.model", model);
}

Result<Exported> Export(const ExportOptions& options) {
  ASSIGN_OR_RETURN(const TrainedModel found, FindModel(options.model));
  ASSIGN_OR_RETURN(const auto folder, storage::Storage::Open(options.out, found.storage()));
  RETURN_IF_ERROR(CheckEmpty(*folder, options.out));
  const auto folded = model::FoldWeights(found.config, found.boundary, found.seed, found.weights);
  if (!folded.ok()) return folded.status().WithContext(found.uri);
  const std::vector<checkpoint::NamedTensor>& tensors = *folded;
  const auto tokenizer = ChooseTokenizer(found, options.tokenizer);
  const bool sentence_piece = tokenizer && !tokenizer->uri.empty();
  if (sentence_piece) RETURN_IF_ERROR(CopyTokenizer(*tokenizer, found.storage(), *folder));
  RETURN_IF_ERROR(checkpoint::WriteHuggingFaceFolder(options.out, ConfigOf(found, !sentence_piece),
                                                     tensors, found.storage()));
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

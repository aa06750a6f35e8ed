#include "ctl/model/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <string>

#include "ctl/manifest_flags.h"
#include "worker/flags/flags.h"

namespace swarm::ctl {
namespace {

void AddModel(CLI::App* command, std::string* model) {
  command
      ->add_option(
          "--from,--checkpoint", *model,
          "Path or uri (s3://, file://) of the model: the --out folder of a run, a folder of"
          " checkpoints (the newest is used), one checkpoint, or a Hugging Face folder")
      ->required();
}

void AddTokenizer(CLI::App* command, std::string* tokenizer) {
  command->add_option(
      "--tokenizer", *tokenizer,
      "Uri of a tokenizer.json, of a folder with one or of a SentencePiece model, or byte (default:"
      " the tokenizer of the checkpoint or of the model's folder; byte for a vocabulary of 256)");
}

void AddThreads(CLI::App* command, int* threads) {
  command
      ->add_option("--threads", *threads,
                   "Compute threads (default: one for each core; fewer for a small model)")
      ->check(CLI::Range(1, 1024));
}

void AddDevice(CLI::App* command, std::string* device) {
  command->add_option("--device", *device, "cpu or cuda:N")
      ->check([](const std::string& name) { return CheckDevice(name).message(); })
      ->capture_default_str();
}

}  // namespace

CLI::App* AddTrain(CLI::App& app, TrainOptions* options) {
  CLI::App* command =
      app.add_subcommand("train", "Train a job in this process, without workers and network");
  AddManifest(command, &options->manifest, &options->overrides);
  command->add_option("--out", options->out, "Folder of the run (default: out/NAME)");
  AddThreads(command, &options->threads);
  AddDevice(command, &options->device);
  command->add_flag("--resume", options->resume, "Continue from the newest checkpoint");
  command->add_flag("--json", options->json,
                    "Print a JSON object for each step, and a summary at the end");
  return command;
}

CLI::App* AddEvaluate(CLI::App& app, EvaluateOptions* options) {
  CLI::App* command = app.add_subcommand(
      "evaluate", "Print how well a model predicts a text, or answers questions");
  AddModel(command, &options->model);
  AddTokenizer(command, &options->tokenizer);
  CLI::Option_group* what = command->add_option_group("what");
  what->add_option(
      "--data", options->data,
      "Text (.txt), JSON lines (.jsonl), Parquet (.parquet) or token ids (.bin): a file, a folder"
      " of them or a pattern");
  using api::DataFormat;
  command
      ->add_option("--format", options->format,
                   "What JSON lines are: Text, PromptCompletion or Chat (default: as in training)")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, DataFormat>{{"Text", DataFormat::kText},
                                            {"PromptCompletion", DataFormat::kPromptCompletion},
                                            {"Chat", DataFormat::kChat}}));
  what->add_option("--choices", options->choices,
                   "JSON lines of questions: {\"context\": TEXT, \"choices\": [TEXT, ...],"
                   " \"answer\": INDEX}");
  what->require_option(1);
  command
      ->add_option("--sequence-length", options->sequence_length,
                   "Tokens of a sequence (default: as in training)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--sequences", options->sequences,
                   "Number of sequences or questions, from the beginning (default: all)")
      ->check(CLI::PositiveNumber);
  AddThreads(command, &options->threads);
  AddDevice(command, &options->device);
  command->add_flag("--json", options->json, "Print a JSON object");
  return command;
}

CLI::App* AddGenerate(CLI::App& app, GenerateOptions* options) {
  CLI::App* command = app.add_subcommand("generate", "Continue a text with a trained model");
  AddModel(command, &options->model);
  AddTokenizer(command, &options->tokenizer);
  command
      ->add_option("--prompt", options->prompt,
                   "Text to continue; ids, as \"5 17\", for a model that was trained on ids")
      ->required();
  command->add_option("--tokens", options->tokens, "Tokens to generate")->capture_default_str();
  command
      ->add_option("--temperature", options->sampling.temperature,
                   "Divisor of the logits; 0: always the most likely token")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--top-k", options->sampling.top_k,
                   "Draw from this many of the most likely tokens; 0: from all")
      ->capture_default_str();
  command
      ->add_option("--top-p", options->sampling.top_p,
                   "Draw from the most likely tokens whose probabilities together are this")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_flag("--chat", options->chat,
                    "Put the prompt into the tokenizer's chat template; print the answer alone");
  command->add_option("--system", options->system, "With --chat: the message before the prompt");
  command->add_option("--seed", options->seed, "The same seed gives the same text")
      ->capture_default_str();
  AddThreads(command, &options->threads);
  AddDevice(command, &options->device);
  return command;
}

CLI::App* AddExport(CLI::App& app, ExportOptions* options) {
  CLI::App* command = app.add_subcommand("export", "Write a model as a Hugging Face folder");
  AddModel(command, &options->model);
  AddTokenizer(command, &options->tokenizer);
  command
      ->add_option("--out", options->out,
                   "Path or uri of the folder to write; must be empty or new")
      ->required();
  using checkpoint::ElementType;
  command->add_option("--dtype", options->weights.type, "Numbers of the weights: float32 or bf16")
      ->transform(CLI::CheckedTransformer(std::map<std::string, ElementType>{
          {"float32", ElementType::kF32}, {"bf16", ElementType::kBF16}}))
      ->default_str("float32");
  command
      ->add_option("--shard-size", options->weights.shard_bytes,
                   "Most of the weights in one file, as 5GB or 500MB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->default_str("5GB");
  command->add_flag("--json", options->json, "Print a JSON object");
  return command;
}

CLI::App* AddReport(CLI::App& app, ReportOptions* options) {
  CLI::App* command = app.add_subcommand(
      "report",
      "Tell what a run was in one file: its curves, faults and job, and whether its ledger counts"
      " every microbatch once (exit code 1 if not)");
  command
      ->add_option("out", options->folders,
                   "The --out folder of a run; several are compared with the first")
      ->required();
  command->add_option(
      "--output", options->output,
      "File to write; - is standard output (default: report.html in the first folder)");
  command->add_option("--format", options->format, "html, md or json")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, ReportFormat>{{"html", ReportFormat::kHtml},
                                              {"md", ReportFormat::kMarkdown},
                                              {"json", ReportFormat::kJson}}))
      ->default_str("html");
  command->add_flag(
      "--no-sample", [options](std::int64_t) { options->sample = nullptr; },
      "Do not load the newest checkpoint to write a sample of text with it");
  return command;
}

CLI::App* AddProbe(CLI::App& app, ProbeOptions* options) {
  CLI::App* command = app.add_subcommand(
      "probe", "Measure this machine: print it as the fleet of a plan (docs/planner.md)");
  AddManifest(command, &options->manifest, &options->overrides);
  command->add_option("--out", options->out, "File to write (default: it is printed)");
  command->add_option("--name", options->name, "Of the group (default: the machine's)");
  command->add_option("--scratch", options->scratch,
                      "Folder on the disk for swapped stages, to measure it");
  command
      ->add_option("--scratch-gib", options->scratch_gib,
                   "GiB that are written and read there; more than a cache below the disk has")
      ->check(CLI::Range(0.125, 16384.0))
      ->capture_default_str();
  command->add_option("--region", options->region,
                      "Of this machine (default, with --link: the group's name)");
  command
      ->add_option("--link", options->links,
                   "REGION=HOST[:PORT] of a machine that runs 'iperf3 -s': measure the link to it")
      ->expected(1);
  AddThreads(command, &options->threads);
  AddDevice(command, &options->device);
  command->add_option("--seconds", options->seconds, "Of each measurement")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  return command;
}

}  // namespace swarm::ctl

#include "base/completion/describe.h"

#include <CLI/CLI.hpp>
#include <regex>
#include <string>
#include <vector>

namespace swarm {
namespace {

/// The values that --help names as {a,b} or a|b; none if it names none.
std::vector<std::string> ChoicesOf(const CLI::Option& option) {
  static const std::regex kSet(R"(.*:\{([\w,]+)\})"), kEither(R"((\w+(\|\w+)+))");
  const std::string type = option.get_type_name();
  std::smatch match;
  if (std::regex_match(type, match, kSet)) return CLI::detail::split(match[1], ',');
  if (std::regex_match(type, match, kEither)) return CLI::detail::split(match[1], '|');
  return {};
}

/// Adds the flags of the app, and of its groups of options, which CLI11 keeps as nameless commands.
void DescribeFlags(const CLI::App& app, std::vector<CompletedFlag>* flags) {
  for (const CLI::Option* option : app.get_options()) {
    const auto add = [&](const std::string& name) {
      flags->push_back({name, option->get_description(), option->get_items_expected_max() > 0,
                        ChoicesOf(*option)});
    };
    for (const std::string& name : option->get_snames()) add("-" + name);
    for (const std::string& name : option->get_lnames()) add("--" + name);
  }
  for (const CLI::App* group : app.get_subcommands(nullptr)) {
    if (group->get_name().empty()) DescribeFlags(*group, flags);
  }
}

}  // namespace

CompletedCommand Describe(const CLI::App& app) {
  CompletedCommand described{app.get_name(), app.get_description(), {}, {}};
  DescribeFlags(app, &described.flags);
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (!command->get_name().empty()) described.commands.push_back(Describe(*command));
  }
  return described;
}

void AddCompletionFlag(CLI::App& app) {
  std::vector<std::string> shells;
  for (const auto& [shell, name] : EnumNames<Shell>::kNames) shells.emplace_back(name);
  app.add_option_function<std::string>(
         "--completion",
         [&app](const std::string& name) {
           throw CLI::CallForVersion(CompletionScript(*FindEnum<Shell>(name), Describe(app)), 0);
         },
         "Print a script with which a shell completes the flags, for: source <(" + app.get_name() +
             " --completion bash)")
      ->check(CLI::IsMember(shells));
}

}  // namespace swarm

#include "base/completion/completion.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace swarm {
namespace {

/// Calls `visit` for the command and all below it, with its path: the commands that lead to it,
/// each after a space. That of the program is empty.
void Visit(const CompletedCommand& command, const std::string& path,
           const std::function<void(const CompletedCommand&, const std::string&)>& visit) {
  visit(command, path);
  for (const CompletedCommand& each : command.commands) Visit(each, path + " " + each.name, visit);
}

std::string Joined(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : " ") + word;
  return joined;
}

template <typename Item>
std::string Names(const std::vector<Item>& items) {
  std::vector<std::string> names;
  for (const Item& item : items) names.push_back(item.name);
  return Joined(names);
}

/// In single quotes for fish, where a backslash means something between them.
std::string Quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') quoted += '\\';
    quoted += letter;
  }
  return quoted + "'";
}

/// The name of a function of the program's in a shell, of letters that all shells take.
std::string FunctionOf(const CompletedCommand& program) {
  std::string name = program.name;
  std::ranges::replace(name, '-', '_');
  return "_" + name;
}

// zsh has variables of its own called path and words, so the function has none.
std::string ForBash(const CompletedCommand& program) {
  std::string paths;
  std::string values;
  std::string offers;
  Visit(program, "", [&](const CompletedCommand& command, const std::string& path) {
    if (!path.empty()) paths += "      '" + path + "') at='" + path + "' ;;\n";
    for (const CompletedFlag& flag : command.flags) {
      if (!flag.takes_value) continue;
      values += "    '" + path + " " + flag.name + "') offer='" + Joined(flag.choices) + "' ;;\n";
    }
    offers += "      '" + path + "') flags='" + Names(command.flags) + "' offer='" +
              Names(command.commands) + "' ;;\n";
  });
  const std::string function = FunctionOf(program);
  return function + R"(() {
  local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" at='' flags='' offer='' word
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:$((COMP_CWORD-1))}"; do
    case "$at $word" in
)" + paths +
         R"(    esac
  done
  case "$at $before" in
)" + values +
         R"(    *)
      case "$at" in
)" + offers +
         R"(      esac
      case "$current" in -*) offer=$flags ;; esac
      ;;
  esac
  # Without an answer, the shell completes files.
  [ -z "$offer" ] || COMPREPLY=($(compgen -W "$offer" -- "$current"))
}
complete -o default -F )" +
         function + " " + program.name + "\n";
}

/// zsh has bash's way of completing as a part of its own.
std::string ForZsh(const CompletedCommand& program) {
  return "autoload -U +X compinit bashcompinit\n"
         "(( $+functions[compdef] )) || compinit\n"
         "bashcompinit\n" +
         ForBash(program);
}

std::string FlagForFish(const std::string& begin, const CompletedFlag& flag) {
  const bool is_long = flag.name.starts_with("--");
  std::string line = begin + (is_long ? " -l " : " -s ") + flag.name.substr(is_long ? 2 : 1);
  if (!flag.choices.empty()) line += " -x -a " + Quoted(Joined(flag.choices));
  if (flag.takes_value && flag.choices.empty()) line += " -r";
  return line + " -d " + Quoted(flag.help) + "\n";
}

std::string ForFish(const CompletedCommand& program) {
  std::string paths;
  std::string lines;
  const std::string function = "_" + FunctionOf(program) + "_at";
  Visit(program, "", [&](const CompletedCommand& command, const std::string& path) {
    if (!path.empty()) paths += " '" + path + "'";
    const std::string begin =
        "complete -c " + program.name + " -n \"" + function + " '" + path + "'\"";
    for (const CompletedFlag& flag : command.flags) lines += FlagForFish(begin, flag);
    for (const CompletedCommand& each : command.commands) {
      lines += begin + " -f -a " + each.name + " -d " + Quoted(each.help) + "\n";
    }
  });
  // Of a program without commands every word is at its beginning.
  const std::string walk = R"(
  for word in (commandline -opc)
    switch "$at $word"
      case)" + paths + R"(
        set at "$at $word"
    end
  end)";
  return "function " + function + "\n  set -l at ''" + (paths.empty() ? "" : walk) + R"(
  test "$at" = "$argv[1]"
end
)" + lines;
}

}  // namespace

std::string CompletionScript(Shell shell, const CompletedCommand& program) {
  switch (shell) {
    case Shell::kBash:
      return ForBash(program);
    case Shell::kZsh:
      return ForZsh(program);
    case Shell::kFish:
      return ForFish(program);
  }
  return {};
}

}  // namespace swarm

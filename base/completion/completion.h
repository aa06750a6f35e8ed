// Scripts with which a shell completes the commands and flags of a program.
#pragma once

#include <string>
#include <vector>

#include "base/enum_names.h"

namespace swarm {

struct CompletedFlag {
  std::string name;                  ///< "--out" or "-f"
  std::string help;                  ///< what --help says
  bool takes_value = false;          ///< the next word is its value
  std::vector<std::string> choices;  ///< all values that it takes; empty: any, completed as a file
};

/// A command with what may follow it. Where no command may follow, words are completed as files.
struct CompletedCommand {
  std::string name;  ///< "token"; of the program its own name
  std::string help;
  std::vector<CompletedFlag> flags;
  std::vector<CompletedCommand> commands;
};

enum class Shell { kBash, kZsh, kFish };

/// The script for the program, as the shell sources it. It calls no program, and needs no package
/// of completions.
std::string CompletionScript(Shell shell, const CompletedCommand& program);

template <>
struct EnumNames<Shell> {
  static constexpr auto kNames =
      NameTable<Shell>({{Shell::kBash, "bash"}, {Shell::kZsh, "zsh"}, {Shell::kFish, "fish"}});
};

}  // namespace swarm

// What completion knows of a program: what --help is made from.
#pragma once

#include "base/completion/completion.h"

namespace CLI {
class App;
}

namespace swarm {

/// The program's commands and flags, under the name that `app` has.
CompletedCommand Describe(const CLI::App& app);

/// Gives a program without commands the flag --completion=SHELL. Parsing it throws
/// CLI::CallForVersion, whose text is the script: like --version it comes before what is missing.
void AddCompletionFlag(CLI::App& app);

}  // namespace swarm

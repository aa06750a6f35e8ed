#include "worker/chaos/corruption.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace swarm::chaos {

std::string FormatCorrupt(const std::vector<std::string>& workers) {
  std::string text;
  for (const std::string& worker : workers) text += "corrupt " + worker + "\n";
  return text;
}

Result<std::vector<std::string>> ParseCorrupt(std::string_view text) {
  std::vector<std::string> workers;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string verb, worker, rest;
    if (!(words >> verb) || verb != "corrupt") continue;
    if (!(words >> worker) || words >> rest) {
      return InvalidArgument("'" + line + "': expected 'corrupt WORKER'");
    }
    workers.push_back(worker);
  }
  return workers;
}

bool IsCorrupt(const std::string& rules_file, const std::string& worker) {
  std::ifstream in(rules_file);
  std::ostringstream text;
  text << in.rdbuf();
  const auto workers = ParseCorrupt(text.str());
  return workers.ok() && std::ranges::find(*workers, worker) != workers->end();
}

}  // namespace swarm::chaos

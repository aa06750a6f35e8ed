#include "worker/trainer/log/step_archive.h"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

namespace swarm::trainer {
namespace {

/// Lines of one piece. A piece is rewritten every few seconds, and a trainer that goes on reads it.
constexpr std::uint64_t kLinesMax = 500;

struct Place {
  std::uint64_t generation = 0, term = 0, first = 0;
};

std::string NameOf(const Place& place) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "steps/g%06llu-t%06llu-%08llu.jsonl",
                static_cast<unsigned long long>(place.generation),
                static_cast<unsigned long long>(place.term),
                static_cast<unsigned long long>(place.first));
  return text.data();
}

std::optional<Place> PlaceOf(const std::string& name) {
  unsigned long long generation = 0, term = 0, first = 0;
  if (std::sscanf(name.c_str(), "steps/g%llu-t%llu-%llu.jsonl", &generation, &term, &first) != 3) {
    return std::nullopt;
  }
  const Place place{generation, term, first};
  return NameOf(place) == name ? std::optional(place) : std::nullopt;
}

std::optional<std::uint64_t> StepOf(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_unsigned()) {
    return std::nullopt;
  }
  return json["step"].get<std::uint64_t>();
}

}  // namespace

void StepArchive::Add(protocol::Generation generation, std::uint64_t step,
                      const std::string& line) {
  if (name_.empty() || generation != generation_ || count_ >= kLinesMax) {
    if (grown_) changed_[name_] = lines_;
    generation_ = generation;
    name_ = NameOf({generation.value, term_.value, step});
    lines_.clear();
    count_ = 0;
  }
  lines_ += line + "\n";
  ++count_;
  grown_ = true;
}

std::vector<StepPiece> StepArchive::TakeChanged() {
  if (std::exchange(grown_, false)) changed_[name_] = lines_;
  std::vector<StepPiece> pieces;
  for (auto& [name, lines] : std::exchange(changed_, {})) {
    taken_[name] = lines.size();
    pieces.push_back({name, std::move(lines)});
  }
  return pieces;
}

void StepArchive::Retry(std::vector<StepPiece> pieces) {
  for (StepPiece& piece : pieces) {
    // A later version of the piece has these lines too, and may have been written.
    if (piece.lines.size() < taken_[piece.name]) continue;
    if (piece.name == name_) {
      grown_ = true;
    } else {
      changed_.try_emplace(piece.name, std::move(piece.lines));
    }
  }
}

Result<std::map<std::uint64_t, std::string>> ReadSteps(storage::Storage& storage) {
  // Sorted by name: by generation, then term, then step.
  ASSIGN_OR_RETURN(const auto names, storage.List("steps/"));
  std::map<std::uint64_t, std::string> steps;
  std::uint64_t generation = 0;
  for (const std::string& name : names) {
    const auto place = PlaceOf(name);
    if (!place) continue;
    if (place->generation > generation) steps.erase(steps.lower_bound(place->first), steps.end());
    generation = place->generation;
    ASSIGN_OR_RETURN(const Bytes content, storage.Read(name));
    std::istringstream in{std::string(content.text())};
    for (std::string line; std::getline(in, line);) {
      if (const auto step = StepOf(line)) steps[*step] = line;
    }
  }
  return steps;
}

}  // namespace swarm::trainer

// What viewers are told of a value that they know: what has changed. Pure.
#pragma once

#include <memory>
#include <string>

namespace swarm::page {

/// A value as the viewers know it; null at first.
class ToldValue {
 public:
  ToldValue();
  ~ToldValue();

  /// Makes it `text`, which is JSON, and returns what makes that of the value before, as JSON.
  /// [X]: the value becomes X. An object: of the members or elements that it names, those change as
  /// it says, and those with 0 go. So {} is no change. An array of another length is told whole.
  std::string ChangeTo(std::string text);
  const std::string& text() const { return text_; }

 private:
  struct Parsed;
  std::string text_;
  std::unique_ptr<Parsed> parsed_;  // the same, so that it is read once
};

}  // namespace swarm::page

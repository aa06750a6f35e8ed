// Shows lines on a terminal and keeps them up to date there.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace swarm::ctl {

/// Draws on `stream` only if it is a terminal. Hides the cursor while it shows a picture, and shows
/// the cursor again at the end. Used from one thread.
class Terminal {
 public:
  explicit Terminal(std::FILE* stream);
  ~Terminal() { Finish(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool interactive() const { return interactive_; }
  /// Whether colours are wanted: a terminal, and no NO_COLOR (https://no-color.org).
  bool color() const { return color_; }
  /// Columns and lines of the window, read at each call: a user may resize it.
  std::size_t width() const;
  std::size_t height() const;

  /// Replaces the picture. Requires interactive().
  void Show(const std::vector<std::string>& lines);
  /// Ends the picture: later output goes below it.
  void Finish();
  /// Writes a permanent line above the picture.
  void Print(const std::string& line);

 private:
  std::string Erase() const;
  void Write(const std::string& text);

  std::FILE* const stream_;
  const bool interactive_;
  const bool color_;
  std::vector<std::string> shown_;
};

}  // namespace swarm::ctl

#include "ctl/view/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace swarm::ctl {
namespace {

constexpr const char* kHideCursor = "\x1b[?25l";
constexpr const char* kShowCursor = "\x1b[?25h";

bool IsTerminal(std::FILE* stream) {
  const char* kind = std::getenv("TERM");
  return ::isatty(::fileno(stream)) == 1 && kind && std::string_view(kind) != "dumb";
}

bool ColorWanted() {
  const char* refused = std::getenv("NO_COLOR");
  return !refused || *refused == '\0';
}

winsize SizeOf(std::FILE* stream) {
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) != 0) return {};
  return size;
}

}  // namespace

Terminal::Terminal(std::FILE* stream)
    : stream_(stream), interactive_(IsTerminal(stream)), color_(interactive_ && ColorWanted()) {}

void Terminal::Finish() {
  if (!shown_.empty()) Write(kShowCursor);
  shown_.clear();
}

std::size_t Terminal::width() const {
  const winsize size = SizeOf(stream_);
  return size.ws_col > 0 ? size.ws_col : 80;
}

std::size_t Terminal::height() const {
  const winsize size = SizeOf(stream_);
  return size.ws_row > 0 ? size.ws_row : 24;
}

void Terminal::Show(const std::vector<std::string>& lines) {
  std::string text = Erase() + kHideCursor;
  for (const std::string& line : lines) text += line + "\n";
  Write(text);
  shown_ = lines;
}

void Terminal::Print(const std::string& line) {
  std::string text = Erase() + line + "\n";
  for (const std::string& old : shown_) text += old + "\n";
  Write(text);
}

// Moves to the first line of the picture and clears from there.
std::string Terminal::Erase() const {
  return shown_.empty() ? "" : "\x1b[" + std::to_string(shown_.size()) + "A\r\x1b[J";
}

void Terminal::Write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stream_);
  std::fflush(stream_);
}

}  // namespace swarm::ctl

// A text that grows token by token, printed as it comes. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace swarm::ctl {

/// A token may end in the middle of a character: with a tokenizer of bytes, or one that falls back
/// to bytes and shows what is not whole yet as U+FFFD. So the end of the text waits until it is
/// whole.
class TextStream {
 public:
  /// `text` is all of the text so far, whose beginning does not change any more once it was
  /// returned. Returns what can be printed now, always well-formed UTF-8: what is no UTF-8 is
  /// replaced by U+FFFD. With `last`, nothing waits.
  std::string Advance(std::string_view text, bool last);

 private:
  std::size_t printed_ = 0;  // bytes of the text
};

}  // namespace swarm::ctl

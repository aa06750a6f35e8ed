// Prints a text that grows token by token. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace swarm::ctl {

/// A token may end in the middle of a character, if the tokenizer works on bytes or falls back to
/// them; the tokenizer then shows the incomplete character as U+FFFD. So the end of the text waits
/// until its last character is complete.
class TextStream {
 public:
  /// `printed`: the bytes of the text that are known already, and are not returned.
  explicit TextStream(std::size_t printed = 0) : printed_(printed) {}

  /// `text` is all of the text so far; the part that was returned before does not change. Returns
  /// what can be printed now, as well-formed UTF-8: U+FFFD replaces bytes that are not UTF-8. With
  /// `last`, nothing waits.
  std::string Advance(std::string_view text, bool last);

 private:
  std::size_t printed_;  // bytes of the text
};

}  // namespace swarm::ctl

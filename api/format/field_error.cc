#include "api/format/field_error.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace swarm::api {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// The number of insertions, deletions and substitutions, by rows of the usual table.
std::size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string ToString(const FieldError& error) {
  std::string line = error.path.empty() ? error.problem : error.path + ": " + error.problem;
  return error.remedy.empty() ? line : line + "; " + error.remedy;
}

std::string ToString(const std::vector<FieldError>& errors) {
  std::string lines;
  for (const FieldError& error : errors) {
    if (!lines.empty()) lines += '\n';
    lines += ToString(error);
  }
  return lines;
}

Status ToStatus(const std::vector<FieldError>& errors) {
  return errors.empty() ? Status() : InvalidArgument(ToString(errors));
}

std::string_view Nearest(std::string_view word, const std::vector<std::string_view>& known) {
  // Keys are short, so a long word is not one of them, and the algorithm is quadratic.
  constexpr std::size_t kLongestWord = 64;
  if (word.size() > kLongestWord) return {};
  std::string_view nearest;
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    const std::size_t distance = EditDistance(Lower(word), Lower(candidate));
    if (distance < best) best = distance, nearest = candidate;
  }
  return nearest;
}

}  // namespace swarm::api

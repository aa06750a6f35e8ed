// The grammar of ctl/chaos/chaos.h.
#include <algorithm>
#include <charconv>
#include <map>

#include "ctl/chaos/chaos.h"

namespace swarm::ctl {
namespace {

constexpr Duration kDefaultGrace = std::chrono::seconds(30);
constexpr Duration kLongest = std::chrono::hours(24 * 365);
constexpr Duration kShortestPeriod = std::chrono::milliseconds(1);

const std::map<std::string_view, FaultKind> kVerbs = {
    {"kill", FaultKind::kKill}, {"stop", FaultKind::kStop},   {"continue", FaultKind::kContinue},
    {"slow", FaultKind::kSlow}, {"cut", FaultKind::kCut},     {"delay", FaultKind::kDelay},
    {"join", FaultKind::kJoin}, {"drain", FaultKind::kDrain}, {"corrupt", FaultKind::kCorrupt},
};

std::vector<std::string> SplitWords(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  std::vector<std::string> words;
  for (std::size_t begin = 0; (begin = text.find_first_not_of(kSpace, begin)) != text.npos;) {
    const std::size_t end = std::min(text.find_first_of(kSpace, begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

template <typename Number>
bool ReadNumber(std::string_view text, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

bool ReadTime(std::string_view text, Duration* time) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view unit = text.substr(digits);
  const double scale = unit == "ms" ? 1e-3 : unit == "s" ? 1 : unit == "m" ? 60 : 0;
  double value = 0;
  if (scale == 0 || !ReadNumber(text.substr(0, digits), &value)) return false;
  if (value * scale > ToSeconds(kLongest)) return false;
  *time = FromSeconds(value * scale);
  return true;
}

/// Reads one fault, word by word.
class FaultParser {
 public:
  explicit FaultParser(std::string_view text) : words_(SplitWords(text)) {}

  Result<ChaosLine> Parse() {
    RETURN_IF_ERROR(ParseVerb());
    while (next_ < words_.size()) RETURN_IF_ERROR(ParseClause());
    RETURN_IF_ERROR(Complete());
    return line_;
  }

 private:
  Status Expected(const std::string& what) const {
    const std::string after = next_ == 0 ? "" : " after '" + words_[next_ - 1] + "'";
    const std::string got = next_ < words_.size() ? ", not '" + words_[next_] + "'" : "";
    return InvalidArgument("expected " + what + after + got);
  }
  bool Take(std::string_view word) {
    if (next_ >= words_.size() || words_[next_] != word) return false;
    ++next_;
    return true;
  }
  Result<std::string> TakeName(const std::string& what) {
    if (next_ >= words_.size()) return Expected(what);
    return words_[next_++];
  }
  Status TakeTime(Duration* time) {
    if (next_ < words_.size() && ReadTime(words_[next_], time)) return ++next_, Status();
    return Expected("a time such as 500ms, 2.5s or 3m");
  }
  Status TakeCount(std::uint64_t* count) {
    if (next_ < words_.size() && ReadNumber(words_[next_], count)) return ++next_, Status();
    return Expected("a whole number");
  }
  Status TakeMoment(ChaosMoment* moment) {
    if (Take("step")) {
      moment->step = 0;
      return TakeCount(&*moment->step);
    }
    Take("time");
    if (next_ < words_.size() && ReadTime(words_[next_], &moment->time)) return ++next_, Status();
    return Expected("'step N' or a time such as 500ms, 2.5s or 3m");
  }

  /// PHASE of step N [in worker-M], behind `at`.
  Status ParseHold(chaos::WorkPhase phase) {
    chaos::Hold hold{.phase = phase};
    ++next_;
    if (!Take("of") || !Take("step")) return Expected("'of step N'");
    RETURN_IF_ERROR(TakeCount(&hold.step));
    if (Take("in")) {
      ASSIGN_OR_RETURN(hold.worker, TakeName("a worker's name (worker-N)"));
    }
    line_.at.emplace().step = hold.step;
    fault_.hold = std::move(hold);
    return Status();
  }

  Status ParseVerb() {
    const auto verb = next_ < words_.size() ? kVerbs.find(words_[0]) : kVerbs.end();
    if (verb == kVerbs.end()) {
      return Expected("kill, stop, continue, slow, cut, delay, corrupt, join or drain");
    }
    ++next_;
    fault_.kind = verb->second;
    if (fault_.kind == FaultKind::kDrain) fault_.amount = kDefaultGrace;
    if (fault_.kind != FaultKind::kJoin) return ParseTarget();
    if (next_ < words_.size() && ReadNumber(words_[next_], &fault_.count)) ++next_;
    return fault_.count > 0 && fault_.count <= 1000
               ? Status()
               : InvalidArgument("join: expected 1 to 1000 workers");
  }

  Status ParseTarget() {
    ASSIGN_OR_RETURN(fault_.target, TakeName("a worker's name, 'trainer' or 'any'"));
    if (fault_.target == "any") {
      if (fault_.kind == FaultKind::kContinue) {
        return InvalidArgument("continue: expected a name, not 'any': say 'stop any for T'");
      }
      fault_.target.clear();
      line_.any = true;
      if (!Take("of")) return Status();
      if (!Take("stage")) return Expected("'stage'");
      line_.any_of_stage = 0;
      return TakeCount(&*line_.any_of_stage);
    }
    if (fault_.target == "all" && fault_.kind != FaultKind::kCut) {
      return InvalidArgument("only a cut may meet all: 'cut all to NAME'");
    }
    if (fault_.target == "trainer" && fault_.kind == FaultKind::kCorrupt) {
      return InvalidArgument("corrupt: the trainer computes no gradients; name a worker");
    }
    if (fault_.target == "trainer" && fault_.kind == FaultKind::kDrain) {
      return InvalidArgument("drain: the trainer cannot be drained; kill it, or end the run");
    }
    const bool name = fault_.target == "trainer" || fault_.target == "all" ||
                      fault_.target.starts_with("worker-");
    if (name) return Status();
    --next_;
    return Expected("a worker's name (worker-N), 'trainer' or 'any'");
  }

  Status ParseClause() {
    const FaultKind kind = fault_.kind;
    if (Take("at")) {
      const auto phase = next_ < words_.size() ? chaos::FindWorkPhase(words_[next_]) : std::nullopt;
      return phase ? ParseHold(*phase) : TakeMoment(&line_.at.emplace());
    }
    if (Take("after")) {
      has_after_ = true;
      return TakeMoment(&line_.after);
    }
    if (Take("until")) return TakeMoment(&line_.until.emplace());
    if (Take("seed")) return TakeCount(&line_.seed);
    if (Take("about")) {
      line_.random = true;
      return Take("every") ? TakeTime(&line_.every.emplace()) : Expected("'every'");
    }
    if (Take("every")) return TakeTime(&line_.every.emplace());
    const bool may_last = kind == FaultKind::kStop || kind == FaultKind::kSlow ||
                          kind == FaultKind::kCut || kind == FaultKind::kDelay ||
                          kind == FaultKind::kCorrupt;
    if (may_last && Take("for")) return TakeTime(&line_.lasts.emplace());
    if (kind == FaultKind::kSlow && Take("by")) return TakeFactor();
    if (kind == FaultKind::kDelay && Take("by")) return TakeTime(&fault_.amount);
    if (kind == FaultKind::kDrain && Take("grace")) return TakeTime(&fault_.amount);
    if (kind == FaultKind::kCut && Take("from")) return TakeOther(/*one_way=*/false);
    if (kind == FaultKind::kCut && Take("to")) return TakeOther(/*one_way=*/true);
    return Expected("a clause of '" + words_[0] + "' (swarmctl run --help lists them)");
  }

  Status TakeFactor() {
    if (next_ >= words_.size() || !ReadNumber(words_[next_], &fault_.factor) ||
        !(fault_.factor > 1 && fault_.factor <= 100)) {
      return Expected("a factor above 1, at most 100,");
    }
    ++next_;
    return Status();
  }

  Status TakeOther(bool one_way) {
    fault_.one_way = one_way;
    ASSIGN_OR_RETURN(fault_.other, TakeName("a worker's name, 'trainer' or 'all'"));
    if (fault_.other == "all" || fault_.other == "trainer" || fault_.other.starts_with("worker-")) {
      return Status();
    }
    --next_;
    return Expected("a worker's name (worker-N), 'trainer' or 'all'");
  }

  Status Complete() {
    if (line_.at.has_value() == line_.every.has_value()) {
      return InvalidArgument("expected one of 'at step N', 'at T', 'every T' and 'about every T'");
    }
    if (line_.every && *line_.every < kShortestPeriod) {
      return InvalidArgument("every: expected at least 1ms");
    }
    if (line_.at && (has_after_ || line_.until)) {
      return InvalidArgument("'after' and 'until' go with 'every'");
    }
    if (fault_.hold) {
      if (fault_.hold->worker.empty()) fault_.hold->worker = fault_.target;
      if (!fault_.hold->worker.starts_with("worker-")) {
        return InvalidArgument("at " + std::string(chaos::NameOf(fault_.hold->phase)) +
                               ": expected 'in worker-N', the worker in that phase");
      }
    }
    if (fault_.kind == FaultKind::kSlow && fault_.factor == 1) {
      return InvalidArgument("slow: expected 'by FACTOR'");
    }
    if (fault_.kind == FaultKind::kDelay && fault_.amount == Duration::zero()) {
      return InvalidArgument("delay: expected 'by T'");
    }
    if (fault_.kind == FaultKind::kCut) {
      if (fault_.other.empty()) fault_.other = "all";
      if (fault_.target == "all" && (!fault_.one_way || fault_.other == "all")) {
        return InvalidArgument("cut all: expected 'to NAME'");
      }
      if (fault_.target == fault_.other) {
        return InvalidArgument("cut: '" + fault_.target + "' has no connection to itself");
      }
    }
    line_.fault = fault_;
    return Status();
  }

  const std::vector<std::string> words_;
  std::size_t next_ = 0;
  ChaosLine line_;
  Fault fault_;
  bool has_after_ = false;
};

std::string_view Trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

/// Cuts the front of `text` off, up to the separator.
std::string_view TakeUntil(std::string_view* text, char separator) {
  const std::size_t end = std::min(text->find(separator), text->size());
  const std::string_view front = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return front;
}

}  // namespace

const std::string_view kChaosGrammar =
    R"(Chaos scripts: one fault on each line, or several separated by ';'; '#' begins a comment.
  kill TARGET                    SIGKILL
  stop TARGET [for T]            SIGSTOP, and SIGCONT after T
  continue NAME                  SIGCONT
  slow TARGET by FACTOR [for T]  computes FACTOR times slower
  cut TARGET [for T]             no message from or to TARGET
  cut TARGET from NAME [for T]   none between the two
  cut TARGET to NAME|all [for T] none in this direction; 'cut all to NAME' is the opposite one
  delay TARGET by T [for T]      every message from or to TARGET is T later
  corrupt TARGET [for T]         flips a bit of every gradient that it receives or returns
  join [N]                       one more worker, or N
  drain TARGET [grace T]         SIGTERM, and SIGKILL after the grace period (30s)
TARGET: worker-3, trainer, any, or 'any of stage 2' (any: a worker, drawn from the seed).
When: 'at step N', 'at T' (after the start of the workers), 'every T', or 'about every T' (Poisson);
  the latter two also with 'after step N|T', 'until step N|T'. 'seed N' seeds all draws (0).
  'at PHASE of step N [in worker-M]': as that worker, or else the target, begins its part of that
  phase (forward, backward, reduce, commit), where it waits until the fault is done.
T: 500ms, 2.5s or 3m.
Example: --chaos 'kill worker-1 at step 7; stop any at 12s for 3s; kill trainer at step 20')";

Result<std::vector<ChaosLine>> ParseChaos(std::string_view script) {
  std::vector<ChaosLine> lines;
  for (std::size_t number = 1; !script.empty(); ++number) {
    std::string_view row = TakeUntil(&script, '\n');
    row = row.substr(0, row.find('#'));
    while (!row.empty()) {
      const std::string_view text = Trim(TakeUntil(&row, ';'));
      if (text.empty()) continue;
      auto line = FaultParser(text).Parse();
      if (!line.ok()) {
        return line.status().WithContext("chaos, line " + std::to_string(number) + ": '" +
                                         std::string(text) + "'");
      }
      lines.push_back(*std::move(line));
    }
  }
  return lines;
}

}  // namespace swarm::ctl

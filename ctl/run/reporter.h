// The output of `swarmctl run` and `swarmctl train`: a picture on a terminal, lines in a log, JSON
// for programs.
#pragma once

#include <cstdio>
#include <optional>
#include <string>

#include "api/prices.h"
#include "ctl/exit_codes.h"
#include "ctl/view/live_view.h"
#include "ctl/view/terminal.h"
#include "worker/protocol/messages/observers.h"

namespace swarm::ctl {

/// The result of a run.
struct RunSummary {
  std::string result;  ///< Succeeded, Interrupted, Failed
  std::string reason;  ///< of a failure
  std::string out;     ///< the folder of the run
  std::string prompt;  ///< to sample from the model with (prompt_hint.h)
  double seconds = 0;
  std::uint64_t workers_lost = 0;
  ExitCode exit_code = ExitCode::kOk;
};

/// Used from one thread.
class Reporter {
 public:
  /// Messages go to `err`, except while `out` shows a picture. `worker_price`: dollars an hour of
  /// one worker; none: no dollars are shown.
  Reporter(std::FILE* out, std::FILE* err, bool json,
           std::optional<api::DollarRange> worker_price = {})
      : terminal_(out), out_(out), err_(err), json_(json), worker_price_(worker_price) {}

  void OnStatus(const protocol::JobStatus& status);
  /// A step from before a resumed run; it is not printed again.
  void OnHistory(const protocol::JobStatus& status);
  /// Prints a message for the user, for example about a worker that has ended.
  void OnEvent(const std::string& text);
  void OnSummary(const RunSummary& summary);

 private:
  void ShowPicture(const protocol::JobStatus& status);

  Terminal terminal_;
  std::FILE* const out_;
  std::FILE* const err_;
  const bool json_;
  const std::optional<api::DollarRange> worker_price_;
  LossHistory history_;
  LinePace pace_;
  std::optional<protocol::JobStatus> last_;
};

}  // namespace swarm::ctl

// Turns the status of a running job into lines of text for people. Pure; terminal.h puts the lines
// on a screen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/prices.h"
#include "base/time.h"
#include "worker/protocol/messages/observers.h"

namespace swarm::ctl {

/// The losses of a job so far, in bounded memory: above kValuesMax values, neighbours are averaged.
class LossHistory {
 public:
  /// `step` counts committed steps; a step seen before (after a rollback) is not added again.
  void Add(std::uint64_t step, double loss);
  std::span<const double> values() const { return values_; }

 private:
  static constexpr std::size_t kValuesMax = 4096;

  std::vector<double> values_;
  std::uint64_t last_step_ = 0;
  std::uint64_t steps_per_value_ = 1;
  double sum_ = 0;  // of the value that is not complete yet
  std::uint64_t count_ = 0;
};

struct ViewOptions {
  std::size_t width = 80;  ///< columns; a line never has more
  bool color = false;
  std::size_t height_max = 50;  ///< lines, at least 4; further workers are only counted
  std::optional<api::DollarRange> worker_price = {};  ///< dollars an hour of one; none: not known
};

/// The picture for a terminal: a bar with the time left, loss with a sparkline, throughput, and a
/// row for each worker by stage. Lines without newlines, UTF-8.
std::vector<std::string> RenderView(const protocol::JobStatus& status, const LossHistory& history,
                                    const ViewOptions& options);

/// One line for a log: "step 12/200  loss 2.3456  5.2k tok/s  1m05s left"; where the price of a
/// worker is known, also what those that are there cost: "$1.20/hour".
std::string RenderLine(const protocol::JobStatus& status,
                       const std::optional<api::DollarRange>& worker_price = {});

/// Chooses the statuses that get a line in a log: the first one, the last step, each change of the
/// job's state, each tenth step, and, where steps are slow, the first step after half a minute
/// without a line. A step counts even if it passes between two statuses.
class LinePace {
 public:
  bool IsDue(const protocol::JobStatus& status, Timepoint now);

 private:
  static constexpr std::uint64_t kSteps = 10;
  static constexpr Duration kPeriod = std::chrono::seconds(30);

  std::optional<protocol::JobStatus> last_;  // that got a line
  Timepoint told_;
};

/// `width` blocks whose heights are the values, averaged over equal parts; scaled from the least to
/// the greatest. Values that are not finite are blank.
std::string Sparkline(std::span<const double> values, std::size_t width);

/// "3.1k", "42", "1.50M": three digits.
std::string ShortNumber(double number);

}  // namespace swarm::ctl

// For tests: the rules of the trace event format that programs rely on who open a trace.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace swarm::ctl {

/// Processes and lanes have names before their events. Events are sorted by time. Those of a lane
/// have a length, and are beside each other or inside each other. What is asynchronous begins once
/// and ends once.
inline void ExpectRulesOfTraces(const nlohmann::json& trace) {
  constexpr double kRounding = 1e-3;  // of times in microseconds, which are of nanoseconds
  std::set<int> processes;
  std::set<std::pair<int, int>> lanes;
  std::map<std::pair<int, int>, std::vector<double>> open;  // ends of what encloses, by lane
  std::map<std::string, int> running;                       // what is asynchronous
  std::set<std::string> begun;
  double last = 0;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph"), name = event.at("name");
    const int process = event.at("pid"), lane = event.at("tid");
    if (phase == "M") {
      EXPECT_EQ(last, 0) << "names come first";
      if (name == "process_name") processes.insert(process);
      if (name == "thread_name") lanes.insert({process, lane});
      continue;
    }
    EXPECT_TRUE(processes.contains(process)) << event.dump();
    const double begin = event.at("ts");
    EXPECT_GE(begin, last) << event.dump();
    last = begin;
    if (phase == "X") {
      EXPECT_TRUE(lanes.contains({process, lane})) << event.dump();
      const double length = event.at("dur");
      EXPECT_GE(length, 0) << event.dump();
      std::vector<double>& ends = open[{process, lane}];
      while (!ends.empty() && ends.back() <= begin + kRounding) ends.pop_back();
      if (!ends.empty()) {
        EXPECT_LE(begin + length, ends.back() + kRounding) << "overlaps: " << event.dump();
      }
      ends.push_back(begin + length);
    } else if (phase == "b") {
      const std::string id = event.at("id");
      EXPECT_TRUE(begun.insert(id).second) << event.dump();
      ++running[id + event.at("cat").get<std::string>()];
    } else {
      EXPECT_EQ(phase, "e") << event.dump();
      --running[event.at("id").get<std::string>() + event.at("cat").get<std::string>()];
    }
  }
  for (const auto& [id, count] : running) EXPECT_EQ(count, 0) << id;
}

}  // namespace swarm::ctl

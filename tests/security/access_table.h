// For tests: the tables of docs/security.md.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace swarm::security {

inline std::string SourceOf(const std::string& path) {
  std::ifstream file(std::string(SWARM_SOURCE_DIR) + "/" + path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The rows of the table below this heading of the page, without its head, a text for each cell.
inline std::vector<std::vector<std::string>> TableBelow(const std::string& heading) {
  std::istringstream page(SourceOf("docs/security.md"));
  std::vector<std::vector<std::string>> rows;
  bool here = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) here = line == "## " + heading;
    if (!here || !line.starts_with("| ")) continue;
    std::vector<std::string> cells;
    std::istringstream parts(line.substr(2));
    for (std::string cell; std::getline(parts, cell, '|');) {
      cell.erase(0, cell.find_first_not_of(' '));
      cell.erase(cell.find_last_not_of(' ') + 1);
      cells.push_back(cell);
    }
    rows.push_back(std::move(cells));
  }
  EXPECT_GT(rows.size(), 2u) << heading;
  if (!rows.empty()) rows.erase(rows.begin());
  return rows;
}

/// The words between backticks.
inline std::set<std::string> NamesIn(const std::string& cell) {
  std::set<std::string> names;
  const std::regex quoted("`([^`]+)`");
  for (std::sregex_iterator at(cell.begin(), cell.end(), quoted), end; at != end; ++at) {
    names.insert((*at)[1]);
  }
  return names;
}

inline std::set<std::string> AllRoles() {
  std::set<std::string> roles;
  for (const auto& row : TableBelow("Roles")) roles.merge(NamesIn(row.at(0)));
  return roles;
}

/// A row of the tables of calls and of messages.
struct Access {
  std::string server;
  std::string what;               ///< as the page has it, without backticks
  std::set<std::string> allowed;  ///< roles
};

/// Those of one server. Checks that the roles exist and that the file which decides does.
inline std::vector<Access> AccessTo(const std::string& server, const std::string& heading) {
  const std::set<std::string> roles = AllRoles();
  std::vector<Access> rows;
  for (const auto& row : TableBelow(heading)) {
    if (row.at(0) != server) continue;
    Access access{row[0], row.at(1), NamesIn(row.at(2))};
    std::erase(access.what, '`');
    EXPECT_FALSE(access.allowed.empty()) << access.what;
    EXPECT_TRUE(std::ranges::includes(roles, access.allowed)) << row[2];
    for (const std::string& file : NamesIn(row.at(3))) EXPECT_NE(SourceOf(file), "") << file;
    rows.push_back(std::move(access));
  }
  EXPECT_FALSE(rows.empty()) << "no row for " << server;
  return rows;
}

}  // namespace swarm::security

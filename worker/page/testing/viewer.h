// Lets a test act as a browser that reads /events of a page.
#pragma once

#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/metrics/testing/scrape.h"
#include "worker/page/testing/apply.h"

namespace swarm::page {

class Viewer {
 public:
  explicit Viewer(const std::string& address) : fd_(metrics::Ask(address, "/events")) {}
  ~Viewer() { close(fd_); }
  Viewer(const Viewer&) = delete;
  Viewer& operator=(const Viewer&) = delete;

  /// Reads on; false: the stream has ended, or nothing has come for 10 s.
  bool Read() {
    std::array<char, 65536> part;
    const ssize_t n = read(fd_, part.data(), part.size());
    if (n > 0) text_.append(part.data(), static_cast<std::size_t>(n));
    return n > 0;
  }
  /// The next event; its data are null at the end of the stream.
  std::pair<std::string, nlohmann::json> Next() {
    for (;;) {
      const std::size_t end = text_.find("\n\n", begin_);
      if (end != text_.npos) {
        const std::string event = text_.substr(begin_, end - begin_);
        begin_ = end + 2;
        const std::size_t name = event.find("event: "), data = event.find("\ndata: ");
        if (name == event.npos || data == event.npos) continue;  // a sign of life
        nlohmann::json told = nlohmann::json::parse(event.substr(data + 7));
        if (told.contains("status")) status_ = told["status"];
        if (told.contains("change")) Apply(told["change"], &status_);
        return {event.substr(name + 7, data - name - 7), std::move(told)};
      }
      if (!Read()) return {};
    }
  }
  const std::string& text() const { return text_; }
  /// The job's status, as the events so far tell it.
  const nlohmann::json& status() const { return status_; }

 private:
  const int fd_;
  std::string text_;
  std::size_t begin_ = 0;
  nlohmann::json status_;
};

}  // namespace swarm::page

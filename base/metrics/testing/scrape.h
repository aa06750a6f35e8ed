// Lets a test act as Prometheus or a kubelet: a request, and the verdict of promtool.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include "base/host_port.h"

namespace swarm::metrics {

/// A connection, over which a request for http://ADDRESS/PATH has gone, for an address of either
/// family and a path with its slash. `host`: what the server is called; empty: by its address.
/// Reading from it waits for 10 s at most.
inline int Ask(const std::string& address, const std::string& path,
               const std::string& method = "GET", const std::string& host = "") {
  const auto parsed = ReadHostPort(address);
  const auto peer = parsed ? ToSocketAddress(*parsed) : std::nullopt;
  EXPECT_TRUE(peer) << address;
  if (!peer) return -1;
  const int fd = socket(peer->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval limit{10, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (connect(fd, peer->get(), peer->size) == 0) {
    const std::string request = method + " " + path +
                                " HTTP/1.1\r\nHost: " + (host.empty() ? address : host) +
                                "\r\nConnection: close\r\n\r\n";
    (void)!write(fd, request.data(), request.size());
  }
  return fd;
}

/// The whole answer to a request; empty if there is none.
inline std::string Get(const std::string& address, const std::string& path,
                       const std::string& method = "GET", const std::string& host = "") {
  const int fd = Ask(address, path, method, host);
  std::string answer;
  std::array<char, 4096> part;
  for (ssize_t n = 0; (n = read(fd, part.data(), part.size())) > 0;) {
    answer.append(part.data(), static_cast<std::size_t>(n));
  }
  close(fd);
  return answer;
}

/// The body of http://ADDRESS/metrics; empty if there is none.
inline std::string Scrape(const std::string& address) {
  const std::string answer = Get(address, "/metrics");
  const std::size_t body = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.1 200 ") || body == std::string::npos) return "";
  return answer.substr(body + 4);
}

/// The complaints of `promtool check metrics` about `text`; empty if there are none.
inline std::string WhatPromtoolSays(const std::string& text) {
  std::string path = ::testing::TempDir() + "/scrape-XXXXXX";
  const int fd = mkstemp(path.data());
  if (fd < 0 || write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return path + ": cannot be written";
  }
  close(fd);
  std::string said;
  std::FILE* tool = popen(("promtool check metrics < " + path + " 2>&1").c_str(), "r");
  for (int c = 0; (c = std::fgetc(tool)) != EOF;) said.push_back(static_cast<char>(c));
  if (const int status = pclose(tool); status != 0) said += "exit " + std::to_string(status);
  unlink(path.c_str());
  return said;
}

}  // namespace swarm::metrics

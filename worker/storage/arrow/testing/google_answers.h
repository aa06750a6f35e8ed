// For tests: what Google Cloud Storage answers to who reads a bucket.
#pragma once

#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "worker/storage/s3/testing/test_http_server.h"

namespace swarm::storage {

/// Between two words of a text; empty without them.
inline std::string Between(const std::string& text, const std::string& before,
                           const std::string& after) {
  const std::size_t begin = text.find(before);
  if (begin == text.npos) return "";
  const std::size_t from = begin + before.size();
  return text.substr(from, text.find(after, from) - from);
}

/// The content, or its bytes FIRST-LAST.
inline std::string AnswerWith(const std::string& content, const std::string& range,
                              const std::string& headers) {
  using s3::TestHttpServer;
  if (range.empty()) return TestHttpServer::Response(200, content, headers);
  const std::size_t begin = std::stoul(range), end = std::stoul(range.substr(range.find('-') + 1));
  return TestHttpServer::Response(206, content.substr(begin, end + 1 - begin),
                                  headers + "Content-Range: bytes " + range + "/" +
                                      std::to_string(content.size()) + "\r\n");
}

/// Of the bucket "bucket" with the files web/NAME. Nobody may read the bucket "secret".
inline std::string AnswerAsGoogle(const std::string& request,
                                  const std::map<std::string, std::string>& files) {
  using s3::TestHttpServer;
  const std::string target = Between(request, "/storage/v1/b/", " ");
  const auto object = [](const std::string& name, const std::string& content) {
    return nlohmann::json{{"kind", "storage#object"},
                          {"bucket", "bucket"},
                          {"name", name},
                          {"size", std::to_string(content.size())},
                          {"generation", "1"}};
  };
  if (target.starts_with("secret/")) {
    return TestHttpServer::Response(403, R"({"error": {"code": 403, "message": "no rights"}})");
  }
  if (target.starts_with("bucket/o?")) {
    nlohmann::json items = nlohmann::json::array();
    if (target.find("prefix=web%2F&") != target.npos) {
      for (const auto& [name, content] : files) items.push_back(object(name, content));
    }
    return TestHttpServer::Response(200, nlohmann::json{{"items", items}}.dump());
  }
  const auto file = files.find("web/" + Between(target + "?", "bucket/o/web%2F", "?"));
  if (file == files.end()) {
    return TestHttpServer::Response(404, R"({"error": {"code": 404, "message": "none"}})");
  }
  if (target.find("alt=media") == target.npos) {
    return TestHttpServer::Response(200, object(file->first, file->second).dump());
  }
  std::string lower = request;
  for (char& c : lower) c = static_cast<char>(std::tolower(c));
  return AnswerWith(file->second, Between(lower, "range: bytes=", "\r"), "");
}

}  // namespace swarm::storage

#include "base/web/page_files.h"

#include <algorithm>
#include <utility>

namespace swarm::web {
namespace {

std::string TypeOf(std::string_view path) {
  if (path.ends_with(".html")) return "text/html; charset=utf-8";
  if (path.ends_with(".css")) return "text/css; charset=utf-8";
  if (path.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (path.ends_with(".svg")) return "image/svg+xml";
  return "text/plain; charset=utf-8";
}

}  // namespace

const char* const kPageHeaders =
    "Cache-Control: no-store\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src "
    "'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n";

Answer FileAt(std::span<const PageFile> files, std::string_view path) {
  const auto file = std::find_if(files.begin(), files.end(),
                                 [path](const PageFile& each) { return each.path == path; });
  if (file == files.end()) return {.code = 404, .text = "not found\n", .headers = kPageHeaders};
  return {.type = TypeOf(path), .text = std::string(file->content), .headers = kPageHeaders};
}

Answer JsonOf(std::string text) {
  return {.type = "application/json", .text = std::move(text), .headers = kPageHeaders};
}

Answer NotOfThisMachine() {
  return {.code = 403, .text = "ask for it by its address\n", .headers = kPageHeaders};
}

}  // namespace swarm::web

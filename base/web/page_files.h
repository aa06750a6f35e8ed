// What the servers of pages have in common: the files that the build puts into a program, and the
// headers of their answers.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/web/web_server.h"

namespace swarm::web {

struct PageFile {
  std::string_view path;  ///< as a browser asks for it: "/page.css"
  std::string_view content;
};

/// With these the browser asks no other address for anything, and runs nothing that is not a file
/// of the page.
extern const char* const kPageHeaders;

/// The file at this path; 404 if there is none.
Answer FileAt(std::span<const PageFile> files, std::string_view path);

Answer JsonOf(std::string text);

/// 403 for a request whose host is no address of this machine (loopback.h).
Answer NotOfThisMachine();

}  // namespace swarm::web

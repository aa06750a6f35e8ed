// The files of web/, which the build puts into the program.
#pragma once

#include <span>
#include <string_view>

namespace swarm::page {

struct WebFile {
  std::string_view path;  ///< as a browser asks for it: "/page.css"
  std::string_view content;
};

std::span<const WebFile> WebFiles();

}  // namespace swarm::page

// The files of web/ that are of the page of a job; the build puts them into the program.
#pragma once

#include <span>

#include "base/web/page_files.h"

namespace swarm::page {

std::span<const web::PageFile> WebFiles();

}  // namespace swarm::page

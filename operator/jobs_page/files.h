// The files of web/ that are of the page of all jobs; the build puts them into the program.
#pragma once

#include <span>

#include "base/web/page_files.h"

namespace swarm::jobs_page {

std::span<const web::PageFile> WebFiles();

}  // namespace swarm::jobs_page

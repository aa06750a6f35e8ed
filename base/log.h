// The log, on standard error: one line for each event, with time, level, name and text.
#pragma once

#include <spdlog/spdlog.h>

#include <string_view>

namespace swarm {

/// Sets up the log of this process. Every line has `name`. `level` is one of trace, debug, info,
/// warn, error.
void StartLogging(std::string_view name, std::string_view level);

}  // namespace swarm

#define LOG_DEBUG(...) ::spdlog::debug(__VA_ARGS__)
#define LOG_INFO(...) ::spdlog::info(__VA_ARGS__)
#define LOG_WARN(...) ::spdlog::warn(__VA_ARGS__)
#define LOG_ERROR(...) ::spdlog::error(__VA_ARGS__)

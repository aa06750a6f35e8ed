# Language level, warnings, floating point, sanitizers, compiler cache, where programs go.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

option(SWARM_CUDA "Build the CUDA parts" OFF)
option(SWARM_WERROR "Treat warnings as errors" OFF)
option(SWARM_UNITY "Compile sources in groups: sooner from cold (scripts/build.sh sets it)" OFF)
option(SWARM_FUZZ "Make a fuzzer of each target in tests/fuzz; needs clang" OFF)
set(SWARM_SANITIZE "" CACHE STRING "Sanitizers: address,undefined or thread")

# A name of a file in a message is the one from the source tree: wherever a checkout is, it compiles to the same.
add_compile_options(-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
if(SWARM_WERROR)
  add_compile_options(-Werror)
endif()
# Sums must not depend on where the compiler finds a multiply next to an add: exactness is a promise.
add_compile_options(-ffp-contract=off)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -fno-omit-frame-pointer")

if(SWARM_SANITIZE)
  add_compile_options(-fsanitize=${SWARM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${SWARM_SANITIZE})
endif()

if(SWARM_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(SWARM_CCACHE ccache)
if(SWARM_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths relative to the source tree let several checkouts share what was compiled once.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env
      "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" "CCACHE_NOHASHDIR=1" "${SWARM_CCACHE}")
endif()

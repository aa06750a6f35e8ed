# The foreign libraries. Each is used by one folder of ours only; see docs/architecture.md.
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(nlohmann_json REQUIRED)
# Without it the library writes an enumeration as a number. Ours are written by their names (base/enum_names.h).
set_property(TARGET nlohmann_json::nlohmann_json APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS
             JSON_DISABLE_ENUM_SERIALIZATION=1)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(cpprestsdk REQUIRED)
find_package(civetweb CONFIG REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(curl REQUIRED IMPORTED_TARGET libcurl)
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(liburing REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
find_library(SWARM_ISAL isal REQUIRED)
find_path(SWARM_ISAL_INCLUDE isa-l/crc.h REQUIRED)
find_library(SWARM_IPERF iperf REQUIRED)
find_path(SWARM_LEMON_INCLUDE lemon/network_simplex.h REQUIRED)  # its headers are all that is used

find_program(SWARM_CARGO cargo REQUIRED)  # of Hugging Face's tokenizers (worker/data/huggingface)

# libtorch: SWARM_LIBTORCH, or what `make deps` unpacked.
set(SWARM_DEPS "$ENV{SWARM_DEPS}" CACHE PATH "Where scripts/deps.sh unpacked the wheels")
if(NOT SWARM_DEPS)
  set(SWARM_DEPS "${PROJECT_SOURCE_DIR}/.deps")
endif()
set(SWARM_LIBTORCH "$ENV{SWARM_LIBTORCH}" CACHE PATH "A libtorch folder with include/ and lib/")
if(NOT SWARM_LIBTORCH)
  set(SWARM_LIBTORCH "${SWARM_DEPS}/wheels/torch")
endif()
if(NOT EXISTS "${SWARM_LIBTORCH}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "no libtorch in ${SWARM_LIBTORCH}: run `make deps`, or set SWARM_LIBTORCH")
endif()
add_library(torch_cpu SHARED IMPORTED)
set_target_properties(torch_cpu PROPERTIES IMPORTED_LOCATION "${SWARM_LIBTORCH}/lib/libtorch_cpu.so")
add_library(torch_c10 SHARED IMPORTED)
set_target_properties(torch_c10 PROPERTIES IMPORTED_LOCATION "${SWARM_LIBTORCH}/lib/libc10.so")
# Its include path holds an old copy of the protobuf headers: only worker/model, worker/optim and
# the tensor half of worker/codec and worker/stage may link this target.
add_library(swarm_torch INTERFACE)
target_include_directories(swarm_torch SYSTEM INTERFACE
  "${SWARM_LIBTORCH}/include" "${SWARM_LIBTORCH}/include/torch/csrc/api/include")
target_link_libraries(swarm_torch INTERFACE torch_cpu torch_c10)
# at::parallel_for is a template: without OpenMP it is a plain loop. libtorch brings the same libgomp.so.1.
target_compile_options(swarm_torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
target_link_options(swarm_torch INTERFACE -fopenmp
  "LINKER:-rpath-link,${SWARM_LIBTORCH}/../nvidia/cu13/lib" "LINKER:--allow-shlib-undefined")

# Apache Arrow, which `make deps` unpacked: worker/data/parquet and worker/storage/arrow link it, as modules.
set(SWARM_ARROW "${SWARM_DEPS}/arrow/pyarrow")
if(NOT EXISTS "${SWARM_ARROW}/libparquet.so.2600")
  message(FATAL_ERROR "no Apache Arrow in ${SWARM_ARROW}: run `make deps`")
endif()
add_library(swarm_arrow INTERFACE)
target_include_directories(swarm_arrow SYSTEM INTERFACE "${SWARM_ARROW}/include")
target_link_libraries(swarm_arrow INTERFACE "${SWARM_ARROW}/libparquet.so.2600" "${SWARM_ARROW}/libarrow.so.2600")

# The preset cuda: NVIDIA's compiler, its runtime, and libtorch's CUDA half, as `make deps CUDA=1` fetches them. It adds
# units and libraries; the units of other presets are compiled as there, so a compiler cache serves them.
set(SWARM_CUDA_ROOT "${SWARM_DEPS}/cuda/nvidia/cu13" CACHE PATH "A CUDA toolkit of version 13, with bin/, include/ and lib/")
# A GPU that is newer than the last architecture compiles that one's when it first starts. CUDA 13 knows none before 75.
set(SWARM_CUDA_ARCHITECTURES "$ENV{SWARM_CUDA_ARCHITECTURES}" CACHE STRING
    "For which GPUs, as in CMAKE_CUDA_ARCHITECTURES; empty: those for which libtorch has code; brief: just to compile")
set(SWARM_CUDART "${SWARM_CUDA_ROOT}/lib/libcudart.so.13")
# A libtorch of one's own has both halves in one folder.
set(SWARM_LIBTORCH_CUDA "${SWARM_LIBTORCH}/lib")
if(NOT EXISTS "${SWARM_LIBTORCH_CUDA}/libtorch_cuda.so")
  set(SWARM_LIBTORCH_CUDA "${SWARM_DEPS}/cuda/torch/lib")
endif()
foreach(file "${SWARM_CUDA_ROOT}/bin/nvcc" "${SWARM_CUDART}" "${SWARM_LIBTORCH_CUDA}/libtorch_cuda.so")
  if(NOT EXISTS "${file}")
    message(FATAL_ERROR "no ${file}: run `make deps CUDA=1`, or set SWARM_CUDA_ROOT and SWARM_LIBTORCH to your own")
  endif()
endforeach()

if(SWARM_CUDA_ARCHITECTURES STREQUAL "brief")
  set(CMAKE_CUDA_ARCHITECTURES 75-real 90-virtual)
elseif(SWARM_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "${SWARM_CUDA_ARCHITECTURES}")
else()
  set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 90-real 100-real 120)
endif()
set(CMAKE_CUDA_COMPILER "${SWARM_CUDA_ROOT}/bin/nvcc")
set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # libtorch's, below: one program has one
enable_language(CUDA)
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")  # CMake 3.25 does not know that this compiler can
# The device computes what the host computes (worker/codec/cuda/team.h): no joined operations, and no fast math, which
# would flush denormals and divide inexactly. Bodies use functions of the C++ library that are constexpr. The options
# of toolchain.cmake go to the compiler of the host.
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;--expt-relaxed-constexpr>")
set(CMAKE_CUDA_FLAGS_RELEASE "-O2 -lineinfo --compress-mode=size")
if(SWARM_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")
endif()

# swarm_cudart: the runtime. Only worker/codec/cuda, its tests and its benchmark may link this target.
add_library(swarm_cudart INTERFACE)
target_include_directories(swarm_cudart SYSTEM INTERFACE "${SWARM_CUDA_ROOT}/include")
target_link_libraries(swarm_cudart INTERFACE "${SWARM_CUDART}")

# Where programs find libtorch's CUDA half, which worker/model/open_device.cc loads.
set(CMAKE_BUILD_RPATH "${SWARM_LIBTORCH_CUDA}")

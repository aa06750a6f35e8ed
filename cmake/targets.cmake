# One way to declare each kind of target, so that the CMake files of the folders are lists.
include(GoogleTest)

# Debian's gRPC and cpprestsdk are not instrumented: the sanitizers do not see how they order what they call.
set(SWARM_TEST_ENVIRONMENT OMP_NUM_THREADS=1 MKL_NUM_THREADS=1)
if(SWARM_SANITIZE)
  set(supp "${PROJECT_SOURCE_DIR}/cmake/sanitizers")
  list(APPEND SWARM_TEST_ENVIRONMENT
    "TSAN_OPTIONS=ignore_noninstrumented_modules=1:suppressions=${supp}/tsan.supp"
    "LSAN_OPTIONS=suppressions=${supp}/lsan.supp")
endif()

# With SWARM_UNITY, compiles the sources of each folder in groups, as one unit a group: a header is read
# once for all of them. Two sources of a folder that give one name to two things in their anonymous
# namespaces clash then: rename one, or list it with the property SKIP_UNITY_BUILD_INCLUSION. A target of
# few sources gains little and is left as it is.
function(swarm_unite target)
  list(LENGTH ARGN sources)
  if(NOT SWARM_UNITY OR sources LESS 6)
    return()
  endif()
  # The first warning takes a source that is included for a header. The second is wrong about moved variants
  # once gcc 12 inlines across sources; where each is compiled alone, it stays.
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage -Wno-maybe-uninitialized)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  list(FILTER ARGN EXCLUDE REGEX "^/")  # generated
  foreach(source ${ARGN})
    get_filename_component(folder "${source}" DIRECTORY)
    string(MAKE_C_IDENTIFIER "in_${folder}" group)
    math(EXPR count_${group} "0${count_${group}} + 1")
    math(EXPR part "(${count_${group}} - 1) / 8")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}_${part}")
  endforeach()
endfunction()

# swarm_library(NAME SOURCES ... DEPS ...)
function(swarm_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PUBLIC ${arg_DEPS} PRIVATE ${arg_PRIVATE_DEPS})
  swarm_unite(${name} ${arg_SOURCES})
endfunction()

# swarm_embed_web(VARIABLE HEADER NAMESPACE FILES ...): puts files of web/ into a source, whose path VARIABLE gets. HEADER
# declares its function WebFiles() in a namespace of swarm.
function(swarm_embed_web variable header namespace)
  cmake_parse_arguments(arg "" "" "FILES" ${ARGN})
  set(source "${CMAKE_CURRENT_BINARY_DIR}/files.cc")
  list(TRANSFORM arg_FILES PREPEND "${PROJECT_SOURCE_DIR}/web/" OUTPUT_VARIABLE paths)
  list(JOIN arg_FILES "," joined)
  add_custom_command(
    OUTPUT "${source}"
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${PROJECT_SOURCE_DIR}/web -DFILES=${joined} -DHEADER=${header}
            -DNAMESPACE=${namespace} -DOUTPUT=${source} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${paths} ${PROJECT_SOURCE_DIR}/web/head.html ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
  set(${variable} "${source}" PARENT_SCOPE)
endfunction()

# swarm_program(NAME SOURCES ... DEPS ...): one of the programs in bin/; the target `programs` is all of them.
function(swarm_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
  if(NOT TARGET programs)
    add_custom_target(programs)
  endif()
  add_dependencies(programs ${name})
endfunction()

# swarm_test(NAME SOURCES ... DEPS ... LABELS ... PARTS ... HEAVY ...): one test program; ctest runs it whole, in
# parallel with others. PARTS, names of instantiated suites, run apart from the rest of it. HEAVY, names of such
# suites too, have the label `heavy`: only `make test-heavy` runs them. Label `torch` marks tests that use libtorch
# (left out under the thread sanitizer).
function(swarm_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;DEPS;LABELS;PARTS;HEAVY" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_link_libraries(${name} PRIVATE ${arg_DEPS} GTest::gmock GTest::gtest_main)
  swarm_unite(${name} ${arg_SOURCES})
  # They run as long with -O1, for which the compiler takes a quarter less.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_compile_definitions(${name} PRIVATE SWARM_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                             SWARM_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  set(cases ${name})
  list(TRANSFORM arg_PARTS APPEND "/*" OUTPUT_VARIABLE parts)
  list(TRANSFORM arg_HEAVY APPEND "/*" OUTPUT_VARIABLE heavy)
  list(JOIN heavy ":" heavy_suites)
  list(APPEND parts ${heavy})
  list(JOIN parts ":" parts)
  add_test(NAME ${name} COMMAND ${name} "--gtest_filter=-${parts}")
  if(arg_HEAVY)
    add_test(NAME ${name}.heavy COMMAND ${name} "--gtest_filter=${heavy_suites}")
    set_tests_properties(${name}.heavy PROPERTIES LABELS "heavy;${arg_LABELS}" TIMEOUT 3600
      ENVIRONMENT "${SWARM_TEST_ENVIRONMENT}")
  endif()
  foreach(part ${arg_PARTS})
    list(APPEND cases ${name}.${part})
    add_test(NAME ${name}.${part} COMMAND ${name} "--gtest_filter=${part}/*")
  endforeach()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  # What may take long begins first, so that at the end none of it runs alone.
  set_tests_properties(${cases} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT}
    ENVIRONMENT "${SWARM_TEST_ENVIRONMENT}")
endfunction()

# swarm_benchmark(NAME SOURCES ... DEPS ... [BRIEF ...]): a program of bench/, run by `make bench`. With
# BRIEF, the arguments of a short run, ctest runs it with them.
function(swarm_benchmark name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;BRIEF" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
  target_link_libraries(${name} PRIVATE ${arg_DEPS} benchmark::benchmark)
  if(NOT TARGET benchmarks)
    add_custom_target(benchmarks)
  endif()
  add_dependencies(benchmarks ${name})
  if(DEFINED arg_BRIEF OR "BRIEF" IN_LIST arg_KEYWORDS_MISSING_VALUES)
    swarm_brief_run(${name} ${name} ${arg_BRIEF})
  endif()
endfunction()

# swarm_brief_run(NAME COMMAND...): the test bench.NAME, which checks that a benchmark runs to its end.
# It is left out under sanitizers, which would add nothing.
function(swarm_brief_run name)
  if(SWARM_SANITIZE)
    return()
  endif()
  add_test(NAME bench.${name} COMMAND ${ARGN})
  set_tests_properties(bench.${name} PROPERTIES LABELS bench TIMEOUT 120 SKIP_RETURN_CODE 77
    ENVIRONMENT "${SWARM_TEST_ENVIRONMENT}")
endfunction()

# Writes OUTPUT from base/version.cc.in, with the version of the project and the commit of the source tree,
# if they have changed. Run at every build: cmake -DSOURCE=... -DVERSION=... -DOUTPUT=... -P cmake/version.cmake
set(commit "")
# A tree without .git has no commit, even if it lies inside the checkout of another project.
if(EXISTS "${SOURCE}/.git")
  set(ENV{GIT_OPTIONAL_LOCKS} 0)
  execute_process(
    COMMAND git describe --always --dirty --exclude=*
    WORKING_DIRECTORY "${SOURCE}"
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET)
endif()
configure_file("${SOURCE}/base/version.cc.in" "${OUTPUT}" @ONLY)

# Writes OUTPUT, a header with the version of the project and the commit of the source tree, if it has
# changed. Run at every build: cmake -DSOURCE=... -DVERSION=... -DOUTPUT=... -P cmake/version.cmake
set(commit "")
# A tree without .git has no commit, also where it lies inside the checkout of another project.
if(EXISTS "${SOURCE}/.git")
  set(ENV{GIT_OPTIONAL_LOCKS} 0)
  execute_process(
    COMMAND git describe --always --dirty --exclude=*
    WORKING_DIRECTORY "${SOURCE}"
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "#define SWARM_VERSION \"@VERSION@\"
#define SWARM_COMMIT \"@commit@\"
" @ONLY)

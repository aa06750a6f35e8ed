# swarm_proto: the messages of proto/, compiled once. Only worker/net, worker/enrol and operator/satellite may link it.
set(SWARM_PROTO_DIR "${PROJECT_SOURCE_DIR}/proto")
set(SWARM_PROTO_OUT "${PROJECT_BINARY_DIR}/proto")
file(MAKE_DIRECTORY "${SWARM_PROTO_OUT}")
set(SWARM_PROTO_SOURCES)
foreach(stem control data enrolment frame ids observers proof recovery relay satellite)
  set(proto "${SWARM_PROTO_DIR}/swarmjob/v1/${stem}.proto")
  set(out "${SWARM_PROTO_OUT}/swarmjob/v1/${stem}.pb")
  add_custom_command(
    OUTPUT "${out}.cc" "${out}.h"
    COMMAND protobuf::protoc "--cpp_out=${SWARM_PROTO_OUT}" "-I${SWARM_PROTO_DIR}" "${proto}"
    DEPENDS "${proto}" VERBATIM)
  list(APPEND SWARM_PROTO_SOURCES "${out}.cc")
endforeach()
add_library(swarm_proto STATIC ${SWARM_PROTO_SOURCES})
target_include_directories(swarm_proto SYSTEM PUBLIC "${SWARM_PROTO_OUT}")
target_link_libraries(swarm_proto PUBLIC protobuf::libprotobuf)
target_compile_options(swarm_proto PRIVATE -w)

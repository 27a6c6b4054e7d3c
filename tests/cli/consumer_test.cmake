# Installs the build into an empty prefix, builds the consumer against that alone, and runs it.
foreach(name BUILD_DIR CONSUMER_DIR CHECKPOINT)
  if(NOT ${name})
    message(FATAL_ERROR "${name} is not set")
  endif()
endforeach()
set(work ${BUILD_DIR}/tests/consumer)
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${status}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# README.md shows the consumer's source.
file(READ ${CONSUMER_DIR}/consumer.cpp source)
file(READ ${CONSUMER_DIR}/../../README.md readme)
string(FIND "${readme}" "${source}" found)
if(found EQUAL -1)
  message(FATAL_ERROR "README.md doesn't show tests/consumer/consumer.cpp as it is")
endif()

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${work}/prefix)
run(${CMAKE_COMMAND} -S ${CONSUMER_DIR} -B ${work}/build -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_PREFIX_PATH=${work}/prefix)
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/consumer ${CHECKPOINT})
if(NOT output MATCHES "layer 1: 64 rows")
  message(FATAL_ERROR "unexpected output of the consumer: ${output}")
endif()
run(${work}/prefix/bin/waybill doctor)

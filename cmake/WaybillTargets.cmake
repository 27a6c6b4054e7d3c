# How a stage, a test and a program of this project are declared.

add_library(waybill_options INTERFACE)
target_compile_features(waybill_options INTERFACE cxx_std_20)
# No contraction: an fma stands in the source where the arithmetic contract wants one. So host code,
# PTX and machine code give the same bits.
target_compile_options(waybill_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -ffp-contract=off>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${WAYBILL_WERROR}>>:-Werror>
  $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false --expt-relaxed-constexpr>
  $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${WAYBILL_WERROR}>>:--Werror=all-warnings>)
target_include_directories(waybill_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
if(CMAKE_UNITY_BUILD)
  # Several sources as one: names of one may hide another's, and no namespace is anonymous. The
  # release build warns.
  target_compile_options(waybill_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow -Wno-subobject-linkage>)
endif()
if(WAYBILL_SANITIZE)  # vptr: a fifth of the compile time, for a handful of virtual functions
  target_compile_options(waybill_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${WAYBILL_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(waybill_options INTERFACE -fsanitize=${WAYBILL_SANITIZE})
endif()

# waybill_needs_no_speed(TARGET): instrumented code compiles twice as fast without optimisation.
# Fuzzing is nothing but speed.
function(waybill_needs_no_speed target)
  if(WAYBILL_SANITIZE AND NOT WAYBILL_FUZZ)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
  endif()
endfunction()

# waybill_stage(NAME [EARLIER stage...] SOURCES file...): one folder of the pipeline as a library
# that sees only the stages it names; those must come earlier in the pipeline.
set_property(GLOBAL PROPERTY WAYBILL_STAGES "")
function(waybill_stage name)
  cmake_parse_arguments(STAGE "" "" "EARLIER;SOURCES" ${ARGN})
  add_library(waybill_${name} STATIC ${STAGE_SOURCES})
  target_link_libraries(waybill_${name} PUBLIC waybill_options)
  foreach(earlier ${STAGE_EARLIER})
    target_link_libraries(waybill_${name} PUBLIC waybill_${earlier})
  endforeach()
  if(name MATCHES "^(io|topology|placement|model)$")  # they read files
    waybill_needs_no_speed(waybill_${name})
  endif()
  set_property(GLOBAL APPEND PROPERTY WAYBILL_STAGES ${name})
endfunction()

# waybill_device_sources(STAGE file...): what a stage's cuda/ folder adds to it. Each source is compiled
# on its own also in a unity build: their anonymous namespaces share names.
function(waybill_device_sources stage)
  target_sources(waybill_${stage} PRIVATE ${ARGN})
  set_source_files_properties(${ARGN} TARGET_DIRECTORY waybill_${stage}
                              PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# waybill_test(NAME STAGES stage... SOURCES file... [LABELS label...]): one GoogleTest program,
# one test of CTest each. Label `threaded` marks what TSan runs.
add_custom_target(threaded_tests)
function(waybill_test name)
  cmake_parse_arguments(TEST "" "" "STAGES;SOURCES;LABELS;LIBRARIES" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  foreach(stage ${TEST_STAGES})
    target_link_libraries(${name} PRIVATE waybill_${stage})
  endforeach()
  target_link_libraries(${name} PRIVATE ${TEST_LIBRARIES} GTest::gtest GTest::gmock
                                        GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  waybill_needs_no_speed(${name})
  target_compile_definitions(${name} PRIVATE
    WAYBILL_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES LABELS "${TEST_LABELS}")
  if(threaded IN_LIST TEST_LABELS)
    add_dependencies(threaded_tests ${name})
  endif()
endfunction()

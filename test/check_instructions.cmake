# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# cmake -D PERF=PROGRAM -D BUILD=BUILD -P check_instructions.cmake: counts the instructions of an operation with callgrind
# and fails if they are more than 5 % above instructions.txt, which has the figures of each build (type, compiler, major
# version). The counted code runs in one thread, on a device without a wire or, in the cases whose names begin with "wire",
# on both ends of the local wire in turn. So the counts are reproducible.

set(operations 20000)

find_program(VALGRIND valgrind)
if(NOT VALGRIND)
  message(STATUS "skipped: valgrind is not installed")
  return()
endif()
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/instructions.txt" lines REGEX "^${BUILD} ")
if(NOT lines)
  message(STATUS "skipped: instructions.txt has no figures for ${BUILD}")
  return()
endif()

set(problems "")
foreach(line IN LISTS lines)
  string(REPLACE " " ";" fields "${line}")
  list(GET fields 1 name)
  list(GET fields 2 recorded)
  execute_process(
    COMMAND "${VALGRIND}" --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=rdma_perf_counted
      "${PERF}" --wire local --instruction-probe ${name} --instruction-count ${operations}
    OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT output MATCHES "Collected : ([0-9]+)")
    message(FATAL_ERROR "${name}: valgrind ended with ${status}: ${output}")
  endif()
  math(EXPR counted "${CMAKE_MATCH_1} / ${operations}")
  math(EXPR limit "${recorded} * 105 / 100")
  message(STATUS "${name}: ${counted} instructions, ${recorded} recorded")
  if(counted GREATER limit)
    list(APPEND problems "${name}: ${counted} instructions, more than 5 % above ${recorded}")
  endif()
endforeach()
if(problems)
  list(JOIN problems "\n" text)
  message(FATAL_ERROR "${text}\nIf the change is worth it, record the new figures in test/instructions.txt.")
endif()

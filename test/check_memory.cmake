# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# cmake -D BENCH=PROGRAM -P check_memory.cmake: rdma_memory measures every case with every available allocator and prints
# JSON. No limit applies to the times.

execute_process(COMMAND "${BENCH}" --quick --json
  OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "rdma_memory ended with ${status}: ${errors}")
endif()
string(JSON jemalloc GET "${output}" jemalloc)
set(allocators pool buffer malloc synchronized_pool registration)
if(NOT jemalloc MATCHES "^left out: ")
  list(APPEND allocators jemalloc jemalloc_extents)
endif()
list(LENGTH allocators kinds)
string(JSON count LENGTH "${output}" results)
math(EXPR wanted "15 * ${kinds}") # three sizes; five cases: three patterns, two of which run with one and with two threads
if(NOT count EQUAL wanted)
  message(FATAL_ERROR "rdma_memory printed ${count} results instead of ${wanted}: ${output}")
endif()
set(seen)
math(EXPR last "${count} - 1")
foreach(i RANGE ${last})
  string(JSON allocator GET "${output}" results ${i} allocator)
  string(JSON ns GET "${output}" results ${i} ns)
  if(NOT ns GREATER 0)
    message(FATAL_ERROR "${allocator}: ${ns}")
  endif()
  list(APPEND seen "${allocator}")
endforeach()
foreach(allocator IN LISTS allocators)
  list(FIND seen "${allocator}" where)
  if(where EQUAL -1)
    message(FATAL_ERROR "${allocator} was not measured")
  endif()
endforeach()
message(STATUS "${count} results; jemalloc: ${jemalloc}")

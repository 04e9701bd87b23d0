# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# cmake -D BENCH=PROGRAM -P check_bench.cmake: the benchmark measures every case and prints JSON. What it
# measures is not judged.

execute_process(COMMAND "${BENCH}" --quick --json
  OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "rdma_bench ended with ${status}: ${errors}")
endif()
string(JSON count LENGTH "${output}" results)
if(count LESS 10)
  message(FATAL_ERROR "rdma_bench printed ${count} results: ${output}")
endif()
math(EXPR last "${count} - 1")
foreach(i RANGE ${last})
  string(JSON name GET "${output}" results ${i} case)
  string(JSON median GET "${output}" results ${i} median)
  if(NOT median GREATER 0)
    message(FATAL_ERROR "${name}: ${median}")
  endif()
endforeach()
message(STATUS "${count} results")

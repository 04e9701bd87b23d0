# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# cmake -D BENCH=PROGRAM -P check_agent.cmake: rdma_agent measures every case and prints JSON. No limit applies to the times.

execute_process(COMMAND "${BENCH}" --quick --json
  OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "rdma_agent ended with ${status}: ${errors}")
endif()
set(wanted round_trip allocate_64 allocate_4096 allocate_65536
  allocate_release_64 allocate_release_4096 allocate_release_65536 renew destroy)
set(seen)
string(JSON count LENGTH "${output}" results)
math(EXPR last "${count} - 1")
foreach(i RANGE ${last})
  string(JSON name GET "${output}" results ${i} case)
  foreach(figure median_us slow_us ratio ratio_least ratio_most)
    string(JSON value GET "${output}" results ${i} ${figure})
    if(NOT value GREATER 0)
      message(FATAL_ERROR "${name}: ${figure} is ${value}")
    endif()
  endforeach()
  list(APPEND seen "${name}")
endforeach()
if(NOT seen STREQUAL wanted)
  message(FATAL_ERROR "rdma_agent measured ${seen} instead of ${wanted}")
endif()
string(JSON worst GET "${output}" worst_allocate_ratio)
message(STATUS "${count} results; an allocation takes ${worst} times the bare round trip")

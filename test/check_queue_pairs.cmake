# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# cmake -D BENCH=PROGRAM -P check_queue_pairs.cmake: rdma_queue_pairs measures every case and prints JSON, and no honest
# client loses its connection. No limit applies to the times.

execute_process(COMMAND "${BENCH}" --quick --json
  OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "rdma_queue_pairs ended with ${status}: ${errors}")
endif()

# check_cases(LIST FIGURES KEYS WANTED): every case of LIST has FIGURES that are greater than 0, and the values of KEYS
# in all cases are WANTED.
function(check_cases list figures keys wanted)
  set(seen)
  string(JSON count LENGTH "${output}" ${list})
  math(EXPR last "${count} - 1")
  foreach(i RANGE ${last})
    set(name)
    foreach(key IN LISTS keys)
      string(JSON value GET "${output}" ${list} ${i} ${key})
      string(APPEND name " ${value}")
    endforeach()
    string(STRIP "${name}" name)
    list(APPEND seen "${name}")
    foreach(figure IN LISTS figures)
      string(JSON value GET "${output}" ${list} ${i} ${figure})
      if(NOT value GREATER 0)
        message(FATAL_ERROR "${list}, ${name}: ${figure} is ${value}")
      endif()
    endforeach()
  endforeach()
  if(NOT seen STREQUAL wanted)
    message(FATAL_ERROR "${list} has the cases ${seen} instead of ${wanted}")
  endif()
endfunction()

check_cases(echo "per_second;least;most;ratio" "wire;connections;processes"
  "local 32 1;local 32 4;local 1 1;tcp 32 1;tcp 32 4;tcp 1 1;asio 32 1;asio 32 4;asio 1 1")
check_cases(crowd "median_us;p99_us;p99_9_us;server_processors;p99_us_ratio" "wire;condition;lost"
  "local alone 0;local control 0;local hostile 0;tcp alone 0;tcp control 0;tcp hostile 0")
string(JSON ratio GET "${output}" echo 0 ratio)
message(STATUS "queue pairs on the local wire make ${ratio} times as many echoes per second as plain TCP")

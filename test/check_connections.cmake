# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# cmake -D BENCH=PROGRAM -D CONNECTIONS=N -D IDLE_KIB_MOST=M -P check_connections.cmake: rdma_connections
# connects and echoes on every connection and prints JSON, and an idle connection uses at most M KiB on either side. No
# limit applies to the times.

execute_process(COMMAND "${BENCH}" --quick --connections "${CONNECTIONS}" --json
  OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "rdma_connections ended with ${status}: ${errors}")
endif()
foreach(kind IN ITEMS tcp queue_pairs queue_pairs_8_8)
  foreach(figure IN ITEMS connects_per_second round_trips_per_second client_descriptors server_threads)
    string(JSON value GET "${output}" ${kind} ${figure})
    if(NOT value GREATER 0)
      message(FATAL_ERROR "${kind}, ${figure}: ${value}")
    endif()
  endforeach()
endforeach()
foreach(kind IN ITEMS queue_pairs queue_pairs_8_8)
  string(JSON idle GET "${output}" ${kind} idle_kib_most)
  if(idle GREATER IDLE_KIB_MOST)
    message(FATAL_ERROR "an idle connection (${kind}) uses ${idle} KiB")
  endif()
endforeach()
string(JSON held GET "${output}" connections)
if(NOT held EQUAL CONNECTIONS)
  message(FATAL_ERROR "${held} connections instead of ${CONNECTIONS}")
endif()
string(JSON ratio GET "${output}" connect_elapsed_ratio)
message(STATUS "${held} connections at once; connecting takes ${ratio} times as long as with TCP and HTTP")

# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# cmake -D CALL=PROGRAM -D SERVER=ADDRESS:PORT -P check_call.cmake: rdma_call calls the methods of the example calculator,
# and ends it.

# call(EXPECTED_STATUS EXPECTED_OUTPUT ARGUMENT...): the output, also that of errors, must match the regular expression.
function(call status expected)
  execute_process(COMMAND "${CALL}" ${ARGN} OUTPUT_VARIABLE out ERROR_VARIABLE out RESULT_VARIABLE result)
  if(NOT result STREQUAL status OR NOT out MATCHES "${expected}")
    message(FATAL_ERROR "${ARGN} ended with ${result}: ${out}")
  endif()
endfunction()

call(0 "(^|\n)stop/1 +nothing -> nothing\n" ${SERVER})
call(0 "^2.5E-1\n$" ${SERVER} divide/1 "{\"numerator\": 1, \"denominator\": 4}"
  --request "i64 numerator, i64 denominator" --reply f64)
call(1 "^error: divide/1: Numerical argument out of domain" ${SERVER} divide/1 "[1, 0]" --request i64,i64 --reply f64)
call(1 "^error: multiply/1: " ${SERVER} multiply/1)
call(1 "^error: count_primes/1: .*timed out" ${SERVER} count_primes/1 18446744073709551615
  --request u64 --reply u64 --timeout 0.5)
call(2 "^error: the request of the method is: value .16 bytes, alignment 8.. Describe" ${SERVER} divide/1 "[1, 4]")
call(2 "SERVER is required" --tcp)
call(0 "Usage:" --help)
call(0 "^null\n$" ${SERVER} stop/1 --tcp)

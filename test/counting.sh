# shellcheck shell=bash
# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# Results of test scripts; sourced, not run. tools/check reads these lines.

count_passed=0
count_failed=0

count_ok() { # count_ok NAME
  echo "ok $1"
  count_passed=$((count_passed + 1))
}

# count_failure NAME [FILE]...: also prints the end of each file.
count_failure() {
  local file
  echo "FAILED $1"
  for file in "${@:2}"; do
    tail -n 100 "$file" | sed "s/^/  ${file##*/}: /"
  done
  count_failed=$((count_failed + 1))
}

# count_end: prints the last line, and fails if a test failed.
count_end() {
  echo "$count_passed passed, $count_failed failed"
  ((count_failed == 0))
}

# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# boost_rdma_target_options(TARGET): sets the language, warnings and sanitizers of every target in this project. Only the
# sanitizers' link options propagate to programs that use the library.

string(REPLACE "," ";" boost_rdma_sanitizers "${BOOST_RDMA_SANITIZE}")

# Clang's static thread sanitizer library defines operator new, which conflicts with the counting one of the tests.
set(boost_rdma_sanitizer_link_options)
if("thread" IN_LIST boost_rdma_sanitizers AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-runtime-dir
    OUTPUT_VARIABLE boost_rdma_clang_runtime OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(boost_rdma_sanitizer_link_options -shared-libsan "LINKER:-rpath,${boost_rdma_clang_runtime}")
endif()

function(boost_rdma_target_options target)
  if(NOT CMAKE_CXX_STANDARD OR CMAKE_CXX_STANDARD LESS 20 OR CMAKE_CXX_STANDARD EQUAL 98) # keep a newer standard chosen by the user
    set_target_properties(${target} PROPERTIES CXX_STANDARD 20)
  endif()
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD_REQUIRED ON
    CXX_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE
    # No -Wnon-virtual-dtor: it rejects every class derived from boost::system::error_category. -Wall contains the important
    # warning, about delete.
    -Wall -Wextra -Wpedantic -Woverloaded-virtual
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wshadow> # unity builds: shadows names of other files
    -Wimplicit-fallthrough -Wextra-semi -Wcast-align -Wvla -Wundef
    $<$<BOOL:${BOOST_RDMA_WERROR}>:-Werror>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE
      -Wduplicated-cond -Wlogical-op
      # In a unity build GCC takes the source files for headers, where anonymous namespaces are suspicious.
      $<$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>:-Wno-subobject-linkage>
      # False positives of GCC 12 for coroutine frames (GCC bug 109224).
      -Wno-mismatched-new-delete
      # False positives of GCC 12 for copies in std::string (GCC bugs 105651, 105329) and for the content of std::optional
      # (GCC bug 105562).
      "$<$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>:-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-array-bounds;-Wno-maybe-uninitialized>")
  endif()

  if(BOOST_RDMA_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=${BOOST_RDMA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${BOOST_RDMA_SANITIZE} ${boost_rdma_sanitizer_link_options})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # False positives, because the instrumentation hides initialisations from GCC.
      target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
      if("thread" IN_LIST boost_rdma_sanitizers)
        # The thread sanitizer does not model Asio's fences. Asio does not rely on the fences alone.
        target_compile_options(${target} PRIVATE -Wno-tsan)
      endif()
    endif()
  endif()
endfunction()

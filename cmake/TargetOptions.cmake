# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# boost_rdma_target_options(TARGET): the language, the warnings and the sanitizers that every target
# of this project is built with. Nothing here reaches a program that uses the library, but for the
# sanitizers' link options.

string(REPLACE "," ";" boost_rdma_sanitizers "${BOOST_RDMA_SANITIZE}")

# Clang's thread sanitizer, linked statically, defines operator new once and for all; the tests have one that counts.
set(boost_rdma_sanitizer_link_options)
if("thread" IN_LIST boost_rdma_sanitizers AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-runtime-dir
    OUTPUT_VARIABLE boost_rdma_clang_runtime OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(boost_rdma_sanitizer_link_options -shared-libsan "LINKER:-rpath,${boost_rdma_clang_runtime}")
endif()

function(boost_rdma_target_options target)
  if(NOT CMAKE_CXX_STANDARD OR CMAKE_CXX_STANDARD LESS 20 OR CMAKE_CXX_STANDARD EQUAL 98) # a newer one is the wish of who builds
    set_target_properties(${target} PROPERTIES CXX_STANDARD 20)
  endif()
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD_REQUIRED ON
    CXX_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE
    # No -Wnon-virtual-dtor: it rejects every class derived from boost::system::error_category. -Wall
    # has the warning that matters, about the delete.
    -Wall -Wextra -Wpedantic -Woverloaded-virtual
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wshadow> # else by names of other files
    -Wimplicit-fallthrough -Wextra-semi -Wcast-align -Wvla -Wundef
    $<$<BOOL:${BOOST_RDMA_WERROR}>:-Werror>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE
      -Wduplicated-cond -Wlogical-op
      # GCC 12 loses track of which function allocated a coroutine's frame (GCC bug 109224).
      -Wno-mismatched-new-delete
      # GCC 12 sees overlapping and endless copies in std::string (GCC bugs 105651, 105329), and an
      # engaged std::optional's content uninitialised (GCC bug 105562).
      "$<$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>:-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-array-bounds;-Wno-maybe-uninitialized>")
  endif()

  if(BOOST_RDMA_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=${BOOST_RDMA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${BOOST_RDMA_SANITIZE} ${boost_rdma_sanitizer_link_options})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # The instrumentation hides from GCC what has been initialised.
      target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
      if("thread" IN_LIST boost_rdma_sanitizers)
        # Asio's fences, which the thread sanitizer does not model; Asio does not rely on them alone.
        target_compile_options(${target} PRIVATE -Wno-tsan)
      endif()
    endif()
  endif()
endfunction()

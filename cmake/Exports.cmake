# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# A shared libboost_rdma hides the symbols of its internals (spdlog, fmt, Beast's HTTP, the internals of the software device).
# It exports all others, including Asio's: Asio detects by the addresses of its variables if it is inside run(), so the
# program and the library must share them. A list of names is used instead of -fvisibility=hidden, so that the public headers
# need no export macros.
if(BUILD_SHARED_LIBS)
  # Mangled names: the demangled name of a template function begins with its result type, that of a vtable with "vtable".
  set(boost_rdma_hidden "")
  foreach(namespace IN ITEMS 3fmt 4rdma8software4wire 4rdma8software8protocol 5boost5beast 6spdlog)
    foreach(member IN ITEMS N NK NR NO NKR NKO) # const and reference qualifiers
      string(APPEND boost_rdma_hidden
        "    _Z${member}${namespace}*; _ZZ${member}${namespace}*; _ZGV${member}${namespace}*; _ZGVZ${member}${namespace}*;\n")
    endforeach()
    string(APPEND boost_rdma_hidden # vtables and related symbols; thunks
      "    _ZT?N${namespace}*; _ZThn*_N${namespace}*; _ZThn*_NK${namespace}*; _ZTv*_N${namespace}*; _ZTv*_NK${namespace}*;\n")
  endforeach()
  set(boost_rdma_exports "${PROJECT_BINARY_DIR}/exports.map")
  # "*" has lower priority than the local patterns. Any other global pattern would have a higher one.
  file(CONFIGURE OUTPUT "${boost_rdma_exports}" CONTENT "{\n  global:\n    *;\n  local:\n@boost_rdma_hidden@};\n" @ONLY)
  target_link_options(boost_rdma PRIVATE "LINKER:--version-script=${boost_rdma_exports}")
  set_property(TARGET boost_rdma APPEND PROPERTY LINK_DEPENDS "${boost_rdma_exports}")
endif()

# Programs configure the library's log through spdlog's registry of loggers (doc/tutorial/3_production.md). With a shared
# libboost_rdma, both use the same registry only if spdlog is a shared library as well.
if(BUILD_SHARED_LIBS)
  get_target_property(boost_rdma_spdlog_type spdlog::spdlog TYPE)
  if(boost_rdma_spdlog_type STREQUAL "STATIC_LIBRARY")
    message(WARNING "spdlog is a static library: a shared libboost_rdma has its own copy without the loggers that programs "
      "register, so it logs nothing. Use a shared spdlog.")
  endif()
endif()

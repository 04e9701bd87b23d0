# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# What a shared libboost_rdma does not show: what it is made of (spdlog, fmt, Beast's HTTP, the inside of the software device).
# All else it does show, Asio's names among it: a program must share those with it, as Asio finds out by the addresses of its
# variables whether it is inside run(). Names, not -fvisibility=hidden: the public headers then need no macro at each class.
if(BUILD_SHARED_LIBS)
  # Names as the linker sees them: written out, a template function's begins with its result and a vtable's with "vtable".
  set(boost_rdma_hidden "")
  foreach(namespace IN ITEMS 3fmt 4rdma8software4wire 4rdma8software8protocol 5boost5beast 6spdlog)
    foreach(member IN ITEMS N NK NR NO NKR NKO) # its constness and value category
      string(APPEND boost_rdma_hidden
        "    _Z${member}${namespace}*; _ZZ${member}${namespace}*; _ZGV${member}${namespace}*; _ZGVZ${member}${namespace}*;\n")
    endforeach()
    string(APPEND boost_rdma_hidden # vtables and what belongs to them; thunks
      "    _ZT?N${namespace}*; _ZThn*_N${namespace}*; _ZThn*_NK${namespace}*; _ZTv*_N${namespace}*; _ZTv*_NK${namespace}*;\n")
  endforeach()
  set(boost_rdma_exports "${PROJECT_BINARY_DIR}/exports.map")
  # "*" gives way to what is named: among other patterns a global one would win.
  file(CONFIGURE OUTPUT "${boost_rdma_exports}" CONTENT "{\n  global:\n    *;\n  local:\n@boost_rdma_hidden@};\n" @ONLY)
  target_link_options(boost_rdma PRIVATE "LINKER:--version-script=${boost_rdma_exports}")
  set_property(TARGET boost_rdma APPEND PROPERTY LINK_DEPENDS "${boost_rdma_exports}")
endif()

# spdlog's registry of loggers, by which programs choose where the library's messages go (doc/tutorial/3_production.md), is
# then one for both only where it is in a library of its own.
if(BUILD_SHARED_LIBS)
  get_target_property(boost_rdma_spdlog_type spdlog::spdlog TYPE)
  if(boost_rdma_spdlog_type STREQUAL "STATIC_LIBRARY")
    message(WARNING "spdlog is a static library: a shared libboost_rdma has a copy of its own, which does not know the loggers "
      "that programs register, so that it logs nothing. Use a shared spdlog.")
  endif()
endif()

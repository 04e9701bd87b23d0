//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_LOAD_LIBRARY_HPP
#define BOOST_RDMA_LIB_VERBS_LOAD_LIBRARY_HPP

#include <string>

#include <dlfcn.h>

namespace rdma::verbs {

// A shared library that is loaded at run time and never closed, because rdma-core's own plug-ins
// register handlers that outlive any user of it.
class loaded_library
{
public:
  // Loads the file that the environment variable names, otherwise `file`. `use` is the purpose of
  // the package, for the error text.
  loaded_library(const char* variable, const char* file, const char* package, const char* use);

  [[nodiscard]] bool loaded() const noexcept { return handle_ != nullptr && missing_.empty(); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  // Returns why loaded() is false, as text for the user.
  [[nodiscard]] std::string reason() const;

  template <class Function>
  void resolve(Function& member, const char* name)
  {
    void* symbol = handle_ != nullptr ? ::dlsym(handle_, name) : nullptr;
    if (symbol == nullptr)
      missing_ += std::string(missing_.empty() ? "" : ", ") + name;
    member = reinterpret_cast<Function>(symbol);
  }

private:
  void* handle_ = nullptr;
  std::string path_;
  std::string reason_;
  std::string missing_;
};

} // namespace rdma::verbs

#endif // BOOST_RDMA_LIB_VERBS_LOAD_LIBRARY_HPP

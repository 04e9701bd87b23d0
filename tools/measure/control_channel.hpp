//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_MEASURE_CONTROL_CHANNEL_HPP
#define BOOST_RDMA_TOOLS_MEASURE_CONTROL_CHANNEL_HPP

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <sys/socket.h>
#include <unistd.h>

namespace bench {

// Synchronizes the two processes over a socket pair that was created before the fork. All calls
// block.
class control_channel
{
public:
  explicit control_channel(int descriptor)
    : descriptor_(descriptor)
  {
  }
  control_channel(const control_channel&) = delete;
  control_channel& operator=(const control_channel&) = delete;
  ~control_channel() { ::close(descriptor_); }

  template <class T>
    requires std::is_trivially_copyable_v<T>
  void send(const T& value)
  {
    write(&value, sizeof(value));
  }

  // Returns false when the other process has closed its end.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  bool receive(T& value)
  {
    return read(&value, sizeof(value));
  }

  void send_text(const std::string& text)
  {
    send(static_cast<std::uint32_t>(text.size()));
    write(text.data(), text.size());
  }

  std::string receive_text()
  {
    std::uint32_t size = 0;
    std::string text;
    if (receive(size))
      text.resize(size);
    if (size == 0 || !read(text.data(), size))
      throw std::runtime_error("the other process has ended; see its message");
    return text;
  }

private:
  void write(const void* data, std::size_t size)
  {
    if (::send(descriptor_, data, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size))
      throw std::runtime_error("the other process has ended; see its message");
  }

  bool read(void* data, std::size_t size)
  {
    return ::recv(descriptor_, data, size, MSG_WAITALL) == static_cast<ssize_t>(size);
  }

  int descriptor_;
};

} // namespace bench

#endif // BOOST_RDMA_TOOLS_MEASURE_CONTROL_CHANNEL_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_EXAMPLE_BULK_TRANSFER_FILE_HPP
#define BOOST_RDMA_EXAMPLE_BULK_TRANSFER_FILE_HPP

#include "protocol.hpp"

#include <boost/system/system_error.hpp>

#include <openssl/evp.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace bulk_transfer {

[[noreturn]] inline void throw_errno(const std::string& what)
{
  throw boost::system::system_error(errno, boost::system::system_category(), what);
}

/// An open file that is read and written at given positions.
class file
{
public:
  file(std::string path, int flags)
    : path_(std::move(path))
    , descriptor_(::open(path_.c_str(), flags | O_CLOEXEC, 0666))
  {
    if (descriptor_ < 0)
      throw_errno(path_);
  }
  file(const file&) = delete;
  file& operator=(const file&) = delete;
  ~file() { ::close(descriptor_); }

  [[nodiscard]] const std::string& path() const { return path_; }

  /// The size of a regular file. Other files have no size to announce.
  [[nodiscard]] std::uint64_t size() const
  {
    struct stat status = {};
    if (::fstat(descriptor_, &status) != 0)
      throw_errno(path_);
    if (!S_ISREG(status.st_mode))
      throw std::runtime_error(path_ + ": only regular files can be sent");
    return static_cast<std::uint64_t>(status.st_size);
  }

  /// Fills all of `bytes`, or throws.
  void read(std::span<std::byte> bytes, std::uint64_t position) const
  {
    while (!bytes.empty())
    {
      const ssize_t n =
        ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(position));
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        throw_errno(path_);
      if (n == 0)
        throw std::runtime_error(path_ + " was truncated during the transfer");
      bytes = bytes.subspan(static_cast<std::size_t>(n));
      position += static_cast<std::uint64_t>(n);
    }
  }

  void write(std::span<const std::byte> bytes, std::uint64_t position) const
  {
    while (!bytes.empty())
    {
      const ssize_t n =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(position));
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        throw_errno(path_);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
      position += static_cast<std::uint64_t>(n);
    }
  }

  /// Checks before the transfer, not after it.
  void check_room_for(std::uint64_t bytes) const
  {
    struct statvfs status = {};
    if (::fstatvfs(descriptor_, &status) == 0
      && bytes / status.f_frsize > static_cast<std::uint64_t>(status.f_bavail))
    {
      errno = ENOSPC;
      throw_errno(path_ + ": " + std::to_string(bytes) + " bytes do not fit on the file system");
    }
  }

private:
  std::string path_;
  int descriptor_;
};

/// An output file that is named OUT.part until it has been verified. Removed unless keep() is
/// called.
class part_file
{
public:
  explicit part_file(std::string final_path)
    : final_path_(std::move(final_path))
    , content_(final_path_ + ".part", O_RDWR | O_CREAT | O_TRUNC)
  {
  }
  part_file(const part_file&) = delete;
  part_file& operator=(const part_file&) = delete;
  ~part_file()
  {
    if (!kept_)
      ::unlink(content_.path().c_str());
  }

  [[nodiscard]] const file& content() const { return content_; }

  void keep()
  {
    if (::rename(content_.path().c_str(), final_path_.c_str()) != 0)
      throw_errno(final_path_);
    kept_ = true;
  }

private:
  std::string final_path_;
  file content_;
  bool kept_ = false;
};

/// The SHA-256 of the first `size` bytes.
inline digest sha256(const file& content, std::uint64_t size)
{
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> state(
    EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  digest result{};
  bool good = state && EVP_DigestInit_ex(state.get(), EVP_sha256(), nullptr) == 1;
  for (std::uint64_t position = 0; good && position < size;)
  {
    const auto n =
      static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), size - position));
    content.read(std::span(buffer).first(n), position);
    good = EVP_DigestUpdate(state.get(), buffer.data(), n) == 1;
    position += n;
  }
  good = good && EVP_DigestFinal_ex(state.get(), result.data(), nullptr) == 1;
  if (!good)
    throw std::runtime_error("OpenSSL cannot compute a SHA-256");
  return result;
}

inline std::string text_of(const digest& value)
{
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char each : value)
  {
    text += digits[each >> 4];
    text += digits[each & 15];
  }
  return text;
}

} // namespace bulk_transfer

#endif // BOOST_RDMA_EXAMPLE_BULK_TRANSFER_FILE_HPP

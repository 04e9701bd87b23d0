//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_VERBS_FIXTURE_HPP
#define BOOST_RDMA_TEST_SOFTWARE_VERBS_FIXTURE_HPP

#include "common/catch.hpp"
#include "common/device_traits.hpp"
#include "common/patience.hpp"

#include "verbs/software/software.hpp"

#include <infiniband/verbs.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <vector>

// RAII wrappers of plain verbs for tests that use only verbs. They run on any device that
// test::verbs_device can open.

inline std::ostream& operator<<(std::ostream& to, ibv_wc_status status)
{
  return to << rdma::software::api().wc_status_str(status);
}

inline std::ostream& operator<<(std::ostream& to, ibv_event_type type)
{
  return to << rdma::software::api().event_type_str(type);
}

namespace test {

/// Returns the table of verbs of the device under test.
const rdma::verbs::api& api_under_test();

/// Throws if a requirement of this fixture fails. Catch's assertions work in one thread only.
void must(bool good, const char* what);

/// A device's function table and an opened context.
class verbs_device
{
public:
  /// Opens the device under test.
  verbs_device();
  /// Opens a software device with these settings, for tests that need feature::software_device.
  explicit verbs_device(const rdma::software::device_settings& with);
  ~verbs_device();
  verbs_device(const verbs_device&) = delete;
  verbs_device& operator=(const verbs_device&) = delete;

  const rdma::verbs::api& api() const noexcept { return api_; }
  ibv_context* context() const noexcept { return context_; }
  ibv_pd* pd() const noexcept { return pd_; }
  std::uint16_t lid() const;
  ibv_gid gid(int index) const;
  /// The index in the GID table of the address that connections use, and the GID.
  std::uint8_t gid_index() const noexcept { return gid_index_; }
  ibv_gid gid() const { return gid(gid_index_); }

  /// Returns the type of the next asynchronous event and acknowledges it.
  ibv_event_type event() const;
  /// Returns true if an asynchronous event is pending.
  bool has_event() const;

private:
  verbs_device(const rdma::verbs::api& api, ibv_context* context);

  const rdma::verbs::api& api_;
  ibv_context* context_;
  ibv_pd* pd_;
  std::uint8_t gid_index_;
};

inline constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
  | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

/// Sources and targets are filled with different bytes, so that misplaced bytes are visible.
inline constexpr std::uint8_t sent_byte = 0xa5;
inline constexpr std::uint8_t kept_byte = 0x3c;

/// Registered bytes.
class memory
{
public:
  memory(const verbs_device& on, std::size_t size, int access = all_access, ibv_pd* in = nullptr);
  ~memory();
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;

  std::uint8_t& operator[](std::size_t i) noexcept { return bytes_[i]; }
  std::vector<std::uint8_t>& bytes() noexcept { return bytes_; }
  const std::vector<std::uint8_t>& bytes() const noexcept { return bytes_; }
  void fill(std::uint8_t with) noexcept;
  /// Returns true if all of these bytes have this value.
  bool holds(std::uint8_t what, std::size_t offset = 0, std::size_t size = SIZE_MAX) const;
  std::uint64_t address(std::size_t offset = 0) const noexcept
  {
    return reinterpret_cast<std::uint64_t>(bytes_.data()) + offset;
  }
  ibv_mr* mr() const noexcept { return mr_; }
  std::uint32_t key() const noexcept { return mr_->rkey; }
  ibv_sge sge(std::size_t offset, std::size_t size) const noexcept
  {
    return {address(offset), static_cast<std::uint32_t>(size), mr_->lkey};
  }
  ibv_sge sge() const noexcept { return sge(0, bytes_.size()); }
  std::uint64_t* word(std::size_t index = 0) noexcept
  {
    return reinterpret_cast<std::uint64_t*>(bytes_.data()) + index;
  }
  void deregister();

private:
  const rdma::verbs::api& api_;
  std::vector<std::uint8_t> bytes_;
  ibv_mr* mr_;
};

/// Returns the flags of a receive's completion, without the one that has no meaning for RC.
[[nodiscard]] unsigned flags_of(const ibv_wc& wc);

class completions
{
public:
  explicit completions(
    const verbs_device& on, int depth = 256, ibv_comp_channel* channel = nullptr);
  ~completions();
  completions(const completions&) = delete;
  completions& operator=(const completions&) = delete;

  ibv_cq* get() const noexcept { return cq_; }

  /// Returns the next completion. Throws if the time limit expires.
  ibv_wc next() const;
  /// Returns a completion if one is available.
  std::optional<ibv_wc> poll() const;

private:
  const rdma::verbs::api& api_;
  ibv_cq* cq_;
};

struct pair_options
{
  std::uint32_t depth = 64;
  std::uint32_t elements = 8;
  std::uint32_t inline_max = 256;
  int signal_all = 1;
  unsigned access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  std::uint8_t max_read_atomic = 4;
  std::uint8_t max_peer_read_atomic = 4;
  std::uint8_t rnr_retry = 7;
  std::uint8_t rnr_timer = 1; // 10 us
  std::uint8_t timeout = 14;
  std::uint8_t retry_count = 1;
  int completions = 256;
  ibv_comp_channel* channel = nullptr;
  ibv_srq* shared = nullptr;
  ibv_qp_type service = IBV_QPT_RC; // or UC, XRC_SEND
};

/// The data that the other end needs to connect and to access memory. It is sent between processes.
struct end_name
{
  ibv_gid gid{};
  std::uint16_t lid = 0;
  std::uint32_t qp = 0;
  std::uint64_t address = 0;
  std::uint32_t key = 0;
};

/// One end: a queue pair with a completion queue for each of its queues.
class endpoint
{
public:
  explicit endpoint(const verbs_device& on, const pair_options& with = {}, ibv_pd* in = nullptr);
  ~endpoint();
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  ibv_qp* qp() const noexcept { return qp_; }
  end_name name() const;
  end_name name(const memory& with) const;
  const completions& sent() const noexcept { return sent_; }
  const completions& received() const noexcept { return received_; }
  const verbs_device& device() const noexcept { return device_; }
  const pair_options& options() const noexcept { return options_; }

  int to_init() const;
  int to_ready_to_receive(const endpoint& peer) const { return to_ready_to_receive(peer.name()); }
  int to_ready_to_receive(const end_name& peer) const;
  int to_ready_to_send() const;
  int to(ibv_qp_state state) const;
  ibv_qp_state state() const;
  int modify(ibv_qp_attr& attr, int mask) const;

  int post(ibv_send_wr& wr) const;
  int send(std::uint64_t id, const ibv_sge& what, unsigned flags = 0) const;
  int write(std::uint64_t id, const ibv_sge& what, std::uint64_t to, std::uint32_t key,
    unsigned flags = 0) const;
  int read(std::uint64_t id, const ibv_sge& into, std::uint64_t from, std::uint32_t key,
    unsigned flags = 0) const;
  int receive(std::uint64_t id, const ibv_sge& into) const;
  int receive(std::uint64_t id, std::vector<ibv_sge> into) const;

  void destroy();

  static constexpr std::uint32_t first_psn = 0xfffffe; // so that every test wraps around

private:
  const verbs_device& device_;
  const pair_options options_;
  completions sent_;
  completions received_;
  ibv_qp* qp_;
};

/// Moves both ends to RTS.
void connect(const endpoint& a, const endpoint& b);

/// Two devices, as on two hosts, and a connected pair.
struct connected
{
  explicit connected(const pair_options& with = {})
    : connected(with, with)
  {
  }
  connected(const pair_options& left, const pair_options& right)
    : a(near, left)
    , b(far, right)
  {
    connect(a, b);
  }

  verbs_device near;
  verbs_device far;
  endpoint a;
  endpoint b;
};

/// A work request with its elements, ready to post.
struct request
{
  explicit request(ibv_wr_opcode opcode, std::vector<ibv_sge> list = {}, std::uint64_t id = 1)
    : elements(std::move(list))
  {
    wr.wr_id = id;
    wr.opcode = opcode;
    wr.sg_list = elements.data();
    wr.num_sge = static_cast<int>(elements.size());
  }
  request(const request&) = delete;
  request& operator=(const request&) = delete;

  request& remote(std::uint64_t address, std::uint32_t key)
  {
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = key;
    return *this;
  }
  request& atomic(
    std::uint64_t address, std::uint32_t key, std::uint64_t compare_add, std::uint64_t swap = 0)
  {
    wr.wr.atomic.remote_addr = address;
    wr.wr.atomic.rkey = key;
    wr.wr.atomic.compare_add = compare_add;
    wr.wr.atomic.swap = swap;
    return *this;
  }
  request& flags(unsigned f)
  {
    wr.send_flags = f;
    return *this;
  }

  std::vector<ibv_sge> elements;
  ibv_send_wr wr{};
};

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_VERBS_FIXTURE_HPP

//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_DEVICE_IMPL_HPP
#define BOOST_RDMA_LIB_RESOURCE_DEVICE_IMPL_HPP

#include "boost_rdma/context.hpp"
#include "boost_rdma/detail/process_mark.hpp"
#include "boost_rdma/device.hpp"
#include "resource/device_traits.hpp"
#include "resource/event_reader.hpp"
#include "resource/gid_choice.hpp"
#include "verbs/api.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rdma::detail {

// One opened device: its function table, its limits, its ports with their GIDs, and its events.
class device_impl
{
public:
  // Takes ownership of the opened context. Throws system_error if the device cannot be queried.
  device_impl(const verbs::api& api, ibv_context* context, device_kind kind);
  ~device_impl();
  device_impl(const device_impl&) = delete;
  device_impl& operator=(const device_impl&) = delete;

  [[nodiscard]] const verbs::api& api() const noexcept { return api_; }
  [[nodiscard]] ibv_context* native() const noexcept { return context_; }
  [[nodiscard]] device_kind kind() const noexcept { return kind_; }
  [[nodiscard]] std::string name() const { return api_.get_device_name(context_->device); }
  [[nodiscard]] std::size_t index() const noexcept;
  [[nodiscard]] const ibv_device_attr& attributes() const noexcept { return attributes_; }
  [[nodiscard]] const device_traits& traits() const noexcept { return *traits_; }

  // The first active port, with its attributes from the time the device was opened.
  [[nodiscard]] const ibv_port_attr& port() const noexcept { return port_; }
  [[nodiscard]] std::uint8_t port_number() const noexcept { return port_number_; }
  [[nodiscard]] bool port_active() const noexcept { return port_.state == IBV_PORT_ACTIVE; }

  // Returns the current attributes of a port, or nullopt if the device has no such port or the
  // query fails.
  [[nodiscard]] std::optional<ibv_port_attr> query_port(std::uint8_t number) const;

  // Returns the current GID tables of all ports.
  [[nodiscard]] std::vector<gid_entry> gids() const;

  // See choose_gid(). Considers only the GIDs of wire `by`.
  [[nodiscard]] std::optional<gid_entry> find_gid(
    const std::optional<boost::asio::ip::address>& local, wire by, error_code& ec) const;

  // Returns the wire of connections by this GID.
  [[nodiscard]] wire wire_by(const gid_entry& gid) const noexcept
  {
    return traits_->only_wire != wire::unknown ? traits_->only_wire : gid.wire;
  }
  [[nodiscard]] bool has_windows() const noexcept
  {
    return (attributes_.device_cap_flags
             & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B))
      != 0;
  }
  // Windows that restrict a peer, and that can be destroyed at any time.
  [[nodiscard]] bool has_sound_windows() const noexcept
  {
    return has_windows() && !traits_->windows_unprotected && !traits_->windows_delay_close;
  }

  [[nodiscard]] event_hub& events() const noexcept { return *events_; }

  // Returns error::forked or error::device_lost if the device can no longer be used.
  [[nodiscard]] error_code state() const noexcept;
  [[nodiscard]] bool forked() const noexcept { return process_.foreign(); }

  // Translates the error of a failed call: returns error::device_lost if the device was lost, or
  // error::forked.
  [[nodiscard]] error_code why(const error_code& ec) const noexcept
  {
    return state() ? state() : ec;
  }

  // Records if the device sends IBV_EVENT_QP_LAST_WQE_REACHED. No device attribute reports this.
  // `unknown` counts as yes, and becomes `no` when a queue pair of a device with this name has
  // waited without receiving the event. rxe before Linux 6.11 never sends it.
  enum class last_wqe_reporting
  {
    unknown,
    yes,
    no,
  };
  [[nodiscard]] bool tells_last_work_request() const noexcept
  {
    return last_wqe_reporting_->load(std::memory_order_relaxed) != last_wqe_reporting::no;
  }
  void last_work_request_told() noexcept
  {
    last_wqe_reporting_->store(last_wqe_reporting::yes, std::memory_order_relaxed);
  }
  void last_work_request_missed() noexcept
  {
    last_wqe_reporting expected = last_wqe_reporting::unknown;
    last_wqe_reporting_->compare_exchange_strong(
      expected, last_wqe_reporting::no, std::memory_order_relaxed);
  }

private:
  const verbs::api& api_;
  ibv_context* context_;
  device_kind kind_;
  ibv_device_attr attributes_{};
  const device_traits* traits_ = nullptr; // a row of the table
  ibv_port_attr port_{};
  std::uint8_t port_number_ = 1;
  std::shared_ptr<event_hub> events_;
  const process_mark process_;
  std::atomic<last_wqe_reporting>*
    last_wqe_reporting_; // shared by all opened devices of this name, never freed
};

// Opens the software device; throws system_error.
std::unique_ptr<device_impl> open_software(const software::device_settings& settings);

// Returns the errno of a failed verbs call, never zero.
[[nodiscard]] error_code last_verbs_error() noexcept;

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_DEVICE_IMPL_HPP

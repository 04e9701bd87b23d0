//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Empty calls of gRPC between two processes, for bench/compare_grpc.

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace {

using clock_type = std::chrono::steady_clock;

// A call at the server; the tag of all its events.
struct served_call
{
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream{&context};
  grpc::ByteBuffer bytes;
  enum
  {
    waits,
    reads,
    answers
  } state = waits;
};

void serve(int ready)
{
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterAsyncGenericService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  const auto wait = [&]
  {
    auto* const made = new served_call;
    service.RequestCall(&made->context, &made->stream, queue.get(), queue.get(), made);
  };
  wait();
  if (::write(ready, &port, sizeof port) != sizeof port)
    std::abort();
  void* tag = nullptr;
  for (bool ok = false; queue->Next(&tag, &ok);)
  {
    auto* const call = static_cast<served_call*>(tag);
    if (!ok || call->state == served_call::answers)
    {
      delete call;
      continue;
    }
    if (call->state == served_call::waits)
    {
      wait();
      call->state = served_call::reads;
      call->stream.Read(&call->bytes, call);
      continue;
    }
    call->state = served_call::answers;
    call->stream.WriteAndFinish(call->bytes, {}, grpc::Status::OK, call);
  }
}

struct made_call
{
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader;
  grpc::ByteBuffer answer;
  grpc::Status status;
  clock_type::time_point begin;
};

// Calls for this time, `depth` at once. Returns the latencies in microseconds.
std::vector<double> call(int port, std::size_t depth, std::chrono::milliseconds duration)
{
  grpc::GenericStub stub(
    grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  grpc::CompletionQueue queue;
  const grpc::Slice nothing;
  const grpc::ByteBuffer request(&nothing, 1);
  std::vector<made_call> calls(depth);
  std::vector<double> latencies;
  const auto start = [&](made_call& each)
  {
    each.begin = clock_type::now();
    each.context = std::make_unique<grpc::ClientContext>();
    each.reader = stub.PrepareUnaryCall(each.context.get(), "/empty/1", request, &queue);
    each.reader->StartCall();
    each.reader->Finish(&each.answer, &each.status, &each);
  };
  for (made_call& each : calls)
    start(each);
  // The first tenth warms up.
  const auto from = clock_type::now() + duration / 10;
  const auto until = from + duration;
  std::size_t outstanding = depth;
  void* tag = nullptr;
  for (bool ok = false; outstanding != 0 && queue.Next(&tag, &ok);)
  {
    made_call& each = *static_cast<made_call*>(tag);
    if (!ok || !each.status.ok())
    {
      std::fprintf(stderr, "%s\n", each.status.error_message().c_str());
      std::exit(1);
    }
    const auto now = clock_type::now();
    if (now >= from && now < until)
      latencies.push_back(std::chrono::duration<double, std::micro>(now - each.begin).count());
    if (now < until)
      start(each);
    else
      --outstanding;
  }
  return latencies;
}

} // namespace

int main(int argc, char** argv)
{
  const std::chrono::milliseconds duration(argc > 1 ? std::atoi(argv[1]) : 1000);
  int ready[2];
  if (duration.count() < 1 || ::pipe(ready) != 0)
    return 2;
  const pid_t child = ::fork(); // before gRPC has threads
  if (child == 0)
  {
    serve(ready[1]);
    return 0;
  }
  int port = 0;
  if (child < 0 || ::read(ready[0], &port, sizeof port) != sizeof port)
    return 1;
  auto one = call(port, 1, duration);
  const auto many = call(port, 64, duration);
  std::ranges::nth_element(one, one.begin() + static_cast<std::ptrdiff_t>(one.size() / 2));
  std::printf("gRPC %s: %.1f us one at a time (median), %.3f million/s with 64 in flight\n",
    grpc::Version().c_str(), one[one.size() / 2],
    static_cast<double>(many.size()) / static_cast<double>(duration.count()) / 1000);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

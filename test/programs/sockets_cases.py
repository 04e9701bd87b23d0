# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

"""Servers and clients that use TCP sockets in many ways: see the script sockets, which starts them as two processes.

sockets_cases.py list                         prints a line per case: name, connections, transport, exit codes of both
sockets_cases.py server|client CASE HOST PORT runs one side; exit code 0 if all its checks passed
sockets_cases.py memcached HOST PORT          checks a memcached server's contents with many connections
"""

import asyncio
import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import os
import random
import select
import selectors
import signal
import socket
import socketserver
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

MIB = 1 << 20


@dataclasses.dataclass
class Case:
    server: object
    client: object
    connections: int = 1  # the least number of connections that both reports must show
    transport: str = "rdma"  # "any": the contents are checked, the transport is not
    server_status: int = 0
    client_status: int = 0


def contents(size, seed):
    """Returns bytes that both sides can compute."""
    return random.Random(seed).randbytes(size)


def read_exactly(peer, size):
    parts = []
    while size:
        part = peer.recv(min(size, 1 << 18))
        if not part:
            raise AssertionError(f"end of stream, {size} bytes early")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def read_all(peer):
    parts = []
    while part := peer.recv(1 << 18):
        parts.append(part)
    return b"".join(parts)


def same(actual, expected, what="the received bytes"):
    if actual != expected:
        if isinstance(actual, bytes) and len(actual) > 100:
            wrong = next((i for i, (a, e) in enumerate(zip(actual, expected)) if a != e), "none of the common length")
            raise AssertionError(f"{what} differ: {len(actual)} of {len(expected)}, first wrong byte: {wrong}")
        raise AssertionError(f"{what}: {actual!r}, not {expected!r}")


def accept(listener):
    return listener.accept()[0]


def connect(address):
    return socket.create_connection(address)


# Echo servers: one for each way to wait. Each serves `count` connections and returns when all have ended.


class Echo:
    """The state of one connection of a non-blocking echo server."""

    def __init__(self, peer):
        peer.setblocking(False)
        self.peer = peer
        self.pending = bytearray()
        self.ended = False

    def step(self):
        """Reads and writes until both would block. Returns true if the connection has ended."""
        blocked = False
        while not blocked:
            blocked = True
            if not self.ended and len(self.pending) < MIB:
                try:
                    data = self.peer.recv(10000)
                    self.pending += data
                    self.ended = not data
                    blocked = self.ended
                except BlockingIOError:
                    pass
            if self.pending:
                try:
                    del self.pending[: self.peer.send(self.pending)]
                    blocked = False
                except BlockingIOError:
                    pass
        return self.ended and not self.pending


def echo_epoll(count, trigger):
    def serve(listener):
        poller = select.epoll()
        poller.register(listener, select.EPOLLIN)
        listener.setblocking(False)
        states = {}
        accepted = ended = 0
        while ended < count:
            for descriptor, _ in poller.poll():
                if descriptor == listener.fileno():
                    with contextlib.suppress(BlockingIOError):
                        while accepted < count:
                            state = Echo(accept(listener))
                            accepted += 1
                            states[state.peer.fileno()] = state
                            events = select.EPOLLIN | trigger
                            if trigger == select.EPOLLET:
                                events |= select.EPOLLOUT | select.EPOLLRDHUP
                            poller.register(state.peer, events)
                    continue
                state = states[descriptor]
                if state.step():
                    poller.unregister(descriptor)
                    del states[descriptor]
                    state.peer.close()
                    ended += 1
                elif trigger != select.EPOLLET:
                    events = (select.EPOLLOUT if state.pending else 0) | (0 if state.ended else select.EPOLLIN)
                    poller.modify(descriptor, events | trigger)

    return serve


def echo_selector(count, selector_class):
    def serve(listener):
        listener.setblocking(False)
        with selector_class() as selector:
            selector.register(listener, selectors.EVENT_READ)
            accepted = ended = 0
            while ended < count:
                for key, _ in selector.select():
                    if key.fileobj is listener:
                        with contextlib.suppress(BlockingIOError):
                            while accepted < count:
                                state = Echo(accept(listener))
                                accepted += 1
                                selector.register(state.peer, selectors.EVENT_READ, state)
                        continue
                    state = key.data
                    if state.step():
                        selector.unregister(state.peer)
                        state.peer.close()
                        ended += 1
                    else:
                        events = (selectors.EVENT_WRITE if state.pending else 0) | (
                            0 if state.ended else selectors.EVENT_READ
                        )
                        selector.modify(state.peer, events, state)

    return serve


class EchoHandler(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(10000):
            self.request.sendall(data)


def echo_socketserver(count, mixin):
    class Server(mixin, socketserver.TCPServer):
        daemon_threads = False
        max_children = count
        block_on_close = True

    def serve(listener):
        # Takes the listening socket of this file's main().
        server = Server(listener.getsockname(), EchoHandler, bind_and_activate=False)
        server.socket.close()
        server.socket = listener
        for _ in range(count):
            server.handle_request()
        server.server_close()  # waits for the threads or child processes

    return serve


def echo_asyncio(count):
    async def serve(listener):
        ended = 0
        all_ended = asyncio.Event()

        async def handle(reader, writer):
            nonlocal ended
            while data := await reader.read(10000):
                writer.write(data)
                await writer.drain()
            writer.close()
            await writer.wait_closed()
            ended += 1
            if ended == count:
                all_ended.set()

        server = await asyncio.start_server(handle, sock=listener)
        await all_ended.wait()
        server.close()

    return lambda listener: asyncio.run(serve(listener))


def asyncio_client(count, size):
    async def one(address, number):
        reader, writer = await asyncio.open_connection(*address[:2])
        data = contents(size, number)
        received = asyncio.create_task(reader.readexactly(size))
        for start in range(0, size, 7777):
            writer.write(data[start : start + 7777])
            await writer.drain()
        same(await received, data)
        writer.write_eof()
        same(await reader.read(), b"")
        writer.close()
        await writer.wait_closed()

    async def all_of_them(address):
        await asyncio.gather(*(one(address, number) for number in range(count)))

    return lambda address: asyncio.run(all_of_them(address))


def echo_client(count, size):
    """All connections at the same time, in one thread; the checksum of each must be that of what it sent."""

    def run(address):
        selector = selectors.DefaultSelector()
        states = []
        for number in range(count):
            peer = connect(address)
            peer.setblocking(False)
            data = contents(size, number)
            state = {"peer": peer, "data": data, "sent": 0, "hash": hashlib.sha256(), "received": 0}
            states.append(state)
            selector.register(peer, selectors.EVENT_READ | selectors.EVENT_WRITE, state)
        open_connections = count
        chunk = random.Random(count)
        while open_connections:
            for key, events in selector.select():
                state, peer = key.data, key.fileobj
                if events & selectors.EVENT_WRITE:
                    with contextlib.suppress(BlockingIOError):
                        end = state["sent"] + chunk.randint(1, 30000)
                        state["sent"] += peer.send(state["data"][state["sent"] : end])
                    if state["sent"] == size:
                        selector.modify(peer, selectors.EVENT_READ, state)
                        peer.shutdown(socket.SHUT_WR)
                if events & selectors.EVENT_READ:
                    try:
                        data = peer.recv(1 << 16)
                    except BlockingIOError:
                        continue
                    state["hash"].update(data)
                    state["received"] += len(data)
                    if not data:
                        selector.unregister(peer)
                        peer.close()
                        open_connections -= 1
        for number, state in enumerate(states):
            same(state["received"], size, f"bytes of connection {number}")
            same(state["hash"].digest(), hashlib.sha256(state["data"]).digest(), f"checksum of connection {number}")

    return run


# Ways to use one connection. Each is a pair of functions, server and client.


def sleeping_server(listener):
    with accept(listener) as peer:
        for _ in range(2):
            time.sleep(1)  # the reader sleeps meanwhile
            peer.sendall(b"awake")
            same(read_exactly(peer, 5), b"still")


def sleeping_client(address):
    with connect(address) as peer:
        for _ in range(2):
            same(peer.recv(100), b"awake")
            time.sleep(1)
            peer.sendall(b"still")
        same(peer.recv(100), b"")


def half_close_server(listener):
    with accept(listener) as peer:
        data = read_all(peer)
        peer.sendall(hashlib.sha256(data).digest())
        peer.sendall(data)


def half_close_client(address):
    data = contents(MIB + 1, 1)
    with connect(address) as peer:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        try:
            peer.send(b"x")
            raise AssertionError("send() after shutdown(SHUT_WR) succeeded")
        except BrokenPipeError:
            pass
        same(read_exactly(peer, 32), hashlib.sha256(data).digest())
        same(read_all(peer), data)


def victim(peer):
    peer.sendall(struct.pack("!I", os.getpid()))
    read_all(peer)
    raise AssertionError("not killed")


def killer(peer):
    os.kill(struct.unpack("!I", read_exactly(peer, 4))[0], signal.SIGKILL)
    try:
        same(peer.recv(1), b"")
    except ConnectionResetError:
        pass
    # A program that only writes must notice it, too.
    try:
        while True:
            peer.sendall(b"x" * 10000)
    except (BrokenPipeError, ConnectionResetError):
        pass


def killer_polls(peer):
    """As killer, but it sleeps in poll()."""
    pid = struct.unpack("!I", read_exactly(peer, 4))[0]
    poller = select.poll()
    poller.register(peer, select.POLLIN)
    os.kill(pid, signal.SIGKILL)
    poller.poll()
    try:
        same(peer.recv(1), b"")
    except ConnectionResetError:
        pass


def as_server(function):
    def serve(listener):
        with accept(listener) as peer:
            function(peer)

    return serve


def as_client(function):
    def run(address):
        with connect(address) as peer:
            function(peer)

    return run


def peek_server(listener):
    with accept(listener) as peer:
        peer.sendall(b"peek at this")
        same(read_exactly(peer, 2), b"ok")
        peer.sendall(b"more")


def peek_client(address):
    with connect(address) as peer:
        same(peer.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL), b"peek")
        same(peer.recv(12, socket.MSG_PEEK | socket.MSG_WAITALL), b"peek at this")
        same(peer.recv(5), b"peek ")
        same(peer.recv(100, socket.MSG_PEEK), b"at this")
        same(peer.recv(100), b"at this")
        try:
            peer.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            raise AssertionError("recv() with MSG_DONTWAIT returned without data")
        except BlockingIOError:
            pass
        peer.sendall(b"ok")
        same(peer.recv(4, socket.MSG_WAITALL), b"more")
        same(peer.recv(1, socket.MSG_PEEK), b"")
        same(peer.recv(1), b"")


def sendfile_server(listener):
    data = contents(5 * MIB + 3, 2)
    with accept(listener) as peer, tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        file.seek(1000)
        same(peer.sendfile(file, offset=0), len(data))
        # Without an offset, the position of the file counts and moves.
        os.lseek(file.fileno(), 10, os.SEEK_SET)
        sent = 0
        while count := os.sendfile(peer.fileno(), file.fileno(), None, MIB):
            sent += count
        same(sent, len(data) - 10)
        same(os.lseek(file.fileno(), 0, os.SEEK_CUR), len(data))


def sendfile_client(address):
    data = contents(5 * MIB + 3, 2)
    with connect(address) as peer:
        same(read_exactly(peer, len(data)), data)
        same(read_all(peer), data[10:])


def nonblocking_connect_server(listener):
    with accept(listener) as peer:
        peer.sendall(read_exactly(peer, 5))


def nonblocking_connect_client(address):
    with socket.socket(socket.AF_INET) as peer:
        peer.setblocking(False)
        result = peer.connect_ex(address)
        if result not in (0, errno.EINPROGRESS):
            raise AssertionError(f"connect(): {os.strerror(result)}")
        select.select([], [peer], [])
        same(peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0, "SO_ERROR")
        # Linux reports the success once, by 0.
        if peer.connect_ex(address) not in (0, errno.EISCONN):
            raise AssertionError("the second connect() failed")
        same(peer.connect_ex(address), errno.EISCONN, "the third connect()")
        same(peer.send(b"hello"), 5)
        select.select([peer], [], [])
        same(read_exactly(peer, 5), b"hello")
    with socket.socket(socket.AF_INET) as closed:
        closed.bind((address[0], 0))  # bound, but not listening
        with socket.socket(socket.AF_INET) as peer:
            same(peer.connect_ex(closed.getsockname()), errno.ECONNREFUSED, "connect() without a server")
        with socket.socket(socket.AF_INET) as peer:
            peer.setblocking(False)
            result = peer.connect_ex(closed.getsockname())
            if result == errno.EINPROGRESS:
                select.select([], [peer], [])
                result = peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            same(result, errno.ECONNREFUSED, "non-blocking connect() without a server")


def makefile_server(listener):
    with accept(listener) as peer, peer.makefile("rw", encoding="utf-8", newline="\n") as stream:
        for line in stream:
            stream.write(line.upper())
            stream.flush()


def makefile_client(address):
    with connect(address) as peer, peer.makefile("rw", encoding="utf-8", newline="\n") as stream:
        for number in range(1000):
            stream.write(f"line {number} " + "x" * number + "\n")
            stream.flush()
            same(stream.readline(), f"LINE {number} " + "X" * number + "\n")
        peer.shutdown(socket.SHUT_WR)
        same(stream.readline(), "")


def vectors_server(listener):
    with accept(listener) as peer:
        parts = [bytearray(1), bytearray(0), bytearray(1000), bytearray(70000)]
        received = bytearray()
        while len(received) < 300000:
            count, _, flags, _ = peer.recvmsg_into(parts)
            same(flags, 0, "msg_flags")
            if not count:
                raise AssertionError("end of stream")
            received += b"".join(parts)[:count]
        peer.sendall(received)
        same(os.readv(peer.fileno(), [parts[0], parts[2]]), 0)


def vectors_client(address):
    data = contents(300000, 3)
    with connect(address) as peer:
        sent = peer.sendmsg([data[:1], b"", data[1:100], data[100:150000]])
        while sent < len(data):
            # IOV_MAX is 1024
            parts = [data[start : min(start + 100, len(data))] for start in range(sent, len(data), 100)]
            sent += os.writev(peer.fileno(), parts[:1000])
        same(read_exactly(peer, len(data)), data)


def receive_timeout_server(listener):
    with accept(listener) as peer:
        same(read_exactly(peer, 1), b"1")
        peer.sendall(b"data")
        same(read_exactly(peer, 1), b"2")


def receive_timeout_client(address):
    with connect(address) as peer:
        timeval = struct.pack("ll", 0, 200000)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)
        same(peer.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16)[:8], timeval[:8], "SO_RCVTIMEO")
        try:
            peer.recv(10)
            raise AssertionError("recv() returned without data")
        except BlockingIOError:
            pass
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 60, 0))
        peer.sendall(b"1")
        same(read_exactly(peer, 4), b"data")
        peer.sendall(b"2")
        peer.settimeout(60)
        same(peer.recv(10), b"")


def send_blocks_server(listener):
    """Reads only after the client's send buffer has become full."""
    with accept(listener) as peer:
        time.sleep(0.5)
        same(read_exactly(peer, 64 * MIB), b"0123456789abcdef" * (4 * MIB))
        peer.sendall(b"done")


def send_blocks_client(address):
    data = b"0123456789abcdef" * (4 * MIB)
    with connect(address) as peer:
        peer.setblocking(False)
        sent = blocked = 0
        poller = select.poll()
        poller.register(peer, select.POLLOUT)
        while sent < len(data):
            try:
                sent += peer.send(data[sent : sent + MIB])
            except BlockingIOError:
                blocked += 1
                poller.poll()
        if not blocked:
            raise AssertionError("64 MiB were sent without a full buffer")
        peer.setblocking(True)
        same(read_exactly(peer, 4), b"done")


def duplicates_server(listener):
    with accept(listener) as peer:
        copy = socket.fromfd(peer.fileno(), socket.AF_INET, socket.SOCK_STREAM)
        peer.close()
        copy.sendall(read_exactly(copy, 3))
        number = os.dup(copy.fileno())
        copy.close()
        os.write(number, os.read(number, 3))
        # dup2() closes what the second number meant.
        other = os.open("/dev/null", os.O_RDWR)
        os.dup2(number, other)
        os.close(number)
        os.write(other, os.read(other, 3))
        same(os.read(other, 3), b"")
        os.close(other)


def duplicates_client(address):
    with connect(address) as peer:
        for text in (b"one", b"two", b"six"):
            peer.sendall(text)
            same(read_exactly(peer, 3), text)
        peer.shutdown(socket.SHUT_WR)
        same(peer.recv(1), b"")


def both_ways(peer, sends, receives):
    """One thread writes, this one reads, on the same socket."""
    size = 32 * MIB
    data = contents(size, sends)
    writer = threading.Thread(target=peer.sendall, args=(data,))
    writer.start()
    same(read_exactly(peer, size), contents(size, receives))
    writer.join()


def options_server(listener):
    with accept(listener) as peer:
        same(peer.getsockname(), listener.getsockname(), "the server's address")
        peer.sendall(repr(peer.getpeername()).encode() + b"\n")
        same(read_exactly(peer, 2), b"ok")


def options_client(address):
    with connect(address) as peer:
        same(peer.getpeername(), address, "the peer's address")
        select.select([peer], [], [])
        expected = repr(peer.getsockname()).encode() + b"\n"
        same(peer.recv(len(expected), socket.MSG_PEEK | socket.MSG_WAITALL), expected)
        count = struct.unpack("i", fcntl.ioctl(peer, termios.FIONREAD, b"\0" * 4))[0]
        same(count, len(expected), "FIONREAD")
        same(peer.recv(100), expected)
        same(peer.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE), socket.SOCK_STREAM)
        same(peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0)
        same(peer.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN), 0)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        same(peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), 1)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        same(peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), 1)
        # FIONBIO and O_NONBLOCK are the same flag.
        fcntl.ioctl(peer, 0x5421, struct.pack("i", 1))
        if not fcntl.fcntl(peer, fcntl.F_GETFL) & os.O_NONBLOCK:
            raise AssertionError("FIONBIO did not set O_NONBLOCK")
        peer.setblocking(True)
        peer.sendall(b"ok")
        same(peer.recv(1), b"")


def short_server(listener):
    for number in range(300):
        with accept(listener) as peer:
            same(read_all(peer), b"%d" % number)
            peer.sendall(b"reply %d" % number)


def short_client(address):
    for number in range(300):
        with connect(address) as peer:
            peer.sendall(b"%d" % number)
            peer.shutdown(socket.SHUT_WR)
            same(read_all(peer), b"reply %d" % number)


def exit_server(listener):
    """Ends right after the last send(): what it sent must arrive nevertheless."""
    peer = accept(listener)
    data = contents(20 * MIB, 5)
    peer.sendall(data)
    sys.stdout.flush()
    sys.exit(0)


def slow_reader_client(address):
    with connect(address) as peer:
        time.sleep(0.5)
        same(read_all(peer), contents(20 * MIB, 5))


def broken_pipe_server(listener):
    with accept(listener) as peer:
        same(read_exactly(peer, 1), b"x")


def broken_pipe_client(address):
    with connect(address) as peer:
        peer.sendall(b"x")
        same(peer.recv(1), b"")
        try:
            while True:
                peer.sendall(b"x")
        except (BrokenPipeError, ConnectionResetError):
            pass
        # SIGPIPE's default action is for programs that do not ignore it, as Python does.
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            with contextlib.suppress(OSError):
                peer.send(b"x", socket.MSG_NOSIGNAL)
            os._exit(0)
        same(os.waitpid(pid, 0)[1], 0, "the end of a process that used MSG_NOSIGNAL")


def unused_server(listener):
    for _ in range(20):
        accept(listener).close()


def unused_client(address):
    for number in range(20):
        with connect(address) as peer:
            if number % 2:
                poller = select.poll()
                poller.register(peer, select.POLLIN | select.POLLRDHUP)
                same(poller.poll(), [(peer.fileno(), select.POLLIN | select.POLLRDHUP)], "the events")
            same(peer.recv(1), b"")
            same(peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0, "SO_ERROR")
            peer.shutdown(socket.SHUT_WR)
            same(peer.recv(1), b"")


def resets_server(listener):
    for number in range(3):
        with accept(listener) as peer:
            if number == 0:
                same(read_exactly(peer, 1), b"x")
            if number <= 1:
                peer.sendall(b"bytes")
            else:
                select.select([], [peer], [])
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def resets_client(address):
    for number in range(3):
        with connect(address) as peer:
            if number == 0:
                peer.sendall(b"x")
            if number <= 1:
                same(read_exactly(peer, 5), b"bytes")
            try:
                same(peer.recv(1), "a reset")
            except ConnectionResetError:
                pass


def waiting_clients(listener):
    # tcpi_unacked
    return struct.unpack_from("I", listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 28), 24)[0]


def early_reset_server(listener):
    for number in range(20):
        # The last ten have reset the connection before it is accepted.
        while number == 10 and waiting_clients(listener) < 10:
            time.sleep(0.01)
        with accept(listener) as peer:
            select.select([peer], [], [])
            try:
                same(peer.recv(1), "a reset")
            except ConnectionResetError:
                pass


def early_reset_client(address):
    for number in range(20):
        with connect(address) as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            time.sleep(number % 10 / 1000)


def signals_server(listener):
    with accept(listener) as peer:
        same(read_exactly(peer, 1), b"x")
        peer.sendall(b"y")


def signals_client(address):
    """A signal's handler must run while a thread sleeps in recv()."""
    with connect(address) as peer:
        count = 0

        def handler(*_):
            nonlocal count
            count += 1
            if count == 3:
                peer.sendall(b"x")

        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
        same(peer.recv(1), b"y")
        signal.setitimer(signal.ITIMER_REAL, 0)


def accept_thread_server(listener):
    """A thread sleeps in accept() while another one exchanges data."""
    peers = []
    acceptor = threading.Thread(target=lambda: peers.append(accept(listener)))
    with accept(listener) as first:
        acceptor.start()
        for _ in range(1000):
            first.sendall(read_exactly(first, 100))
        first.sendall(b"next")
        acceptor.join()
    with peers[0] as second:
        second.sendall(read_all(second))


def accept_thread_client(address):
    with connect(address) as first:
        for number in range(1000):
            data = contents(100, number)
            first.sendall(data)
            same(read_exactly(first, 100), data)
        same(read_exactly(first, 4), b"next")
        with connect(address) as second:
            second.sendall(b"second")
            second.shutdown(socket.SHUT_WR)
            same(read_all(second), b"second")


def exec_server(listener):
    """As inetd: the connection is the standard input and output of another program."""
    for _ in range(5):
        with accept(listener) as peer:
            subprocess.run(["cat"], stdin=peer, stdout=peer, check=False)


def exec_client(address):
    """Gets the right bytes, or an error; but never wrong bytes."""
    for number in range(5):
        data = contents(100000, number)
        received = b""
        with connect(address) as peer:

            def send(peer=peer, data=data):
                with contextlib.suppress(OSError):
                    peer.sendall(data)
                    peer.shutdown(socket.SHUT_WR)

            sender = threading.Thread(target=send)
            sender.start()
            failed = False
            try:
                received = read_all(peer)
            except OSError as error:
                failed = True
                print(f"connection {number}: {error}")
            sender.join()
        same(received, data[: len(received)])
        if not failed and len(received) != len(data):
            raise AssertionError(f"end of stream after {len(received)} bytes of {len(data)}, without an error")


def inherited_server(listener):
    with accept(listener) as peer:
        peer.sendall(read_all(peer))


def inherited_client(address):
    """A child process writes to the connection of its parent: it may get an error. The parent's use goes on."""
    data = contents(200000, 8)
    with connect(address) as peer:
        pid = os.fork()
        if not pid:
            status = 1
            with contextlib.suppress(OSError):
                peer.sendall(b"child")
                status = 0
            os._exit(status)
        status = os.waitpid(pid, 0)[1]
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        same(read_all(peer), (b"child" if status == 0 else b"") + data)


CASES = {
    "a reader sleeps until data arrive": Case(sleeping_server, sleeping_client),
    "shutdown(SHUT_WR)": Case(half_close_server, half_close_client),
    "the server is killed": Case(as_server(victim), as_client(killer), server_status=137),
    "the client is killed": Case(as_server(killer), as_client(victim), client_status=137),
    "the server is killed, poll()": Case(as_server(victim), as_client(killer_polls), server_status=137),
    "epoll, edge triggered": Case(echo_epoll(100, select.EPOLLET), echo_client(100, 200000), 100),
    "epoll, level triggered": Case(echo_epoll(100, 0), echo_client(100, 200000), 100),
    "epoll, EPOLLONESHOT": Case(echo_epoll(100, select.EPOLLONESHOT), echo_client(100, 200000), 100),
    "select()": Case(echo_selector(100, selectors.SelectSelector), echo_client(100, 200000), 100),
    "poll()": Case(echo_selector(100, selectors.PollSelector), echo_client(100, 200000), 100),
    "asyncio": Case(echo_asyncio(100), asyncio_client(100, 100000), 100),
    "ThreadingTCPServer": Case(echo_socketserver(50, socketserver.ThreadingMixIn), echo_client(50, 200000), 50),
    "ForkingTCPServer": Case(echo_socketserver(20, socketserver.ForkingMixIn), echo_client(20, 200000), 20),
    "a server that executes cat": Case(exec_server, exec_client, 5, "any"),
    "a child uses its parent's connection": Case(inherited_server, inherited_client, 1, "any"),
    "MSG_PEEK": Case(peek_server, peek_client),
    "sendfile()": Case(sendfile_server, sendfile_client),
    "non-blocking connect()": Case(nonblocking_connect_server, nonblocking_connect_client),
    "makefile()": Case(makefile_server, makefile_client),
    "sendmsg() and recvmsg() with vectors": Case(vectors_server, vectors_client),
    "SO_RCVTIMEO": Case(receive_timeout_server, receive_timeout_client),
    "a full send buffer": Case(send_blocks_server, send_blocks_client),
    "dup() and dup2()": Case(duplicates_server, duplicates_client),
    "two threads use one socket": Case(
        as_server(lambda peer: both_ways(peer, 1, 2)), as_client(lambda peer: both_ways(peer, 2, 1))
    ),
    "options and addresses": Case(options_server, options_client),
    "300 short connections": Case(short_server, short_client, 300),
    "exit() after send()": Case(exit_server, slow_reader_client),
    "the server closes without a use": Case(unused_server, unused_client, 20, "any"),
    "the client resets without a use": Case(early_reset_server, early_reset_client, 20, "any"),
    "SO_LINGER with 0 seconds": Case(resets_server, resets_client),
    "EPIPE and MSG_NOSIGNAL": Case(broken_pipe_server, broken_pipe_client),
    "signals": Case(signals_server, signals_client),
    "accept() in a thread": Case(accept_thread_server, accept_thread_client, 2),
    "IPv6": Case(echo_epoll(50, 0), echo_client(50, 100000), 50),
}


def memcached(address):
    """64 connections in 8 threads: sets values, then gets them by another connection."""
    failures = []

    def line(stream, expected):
        same(stream.readline(), expected)

    def worker(number):
        try:
            peers = [connect(address) for _ in range(8)]
            streams = [peer.makefile("rwb") for peer in peers]
            for key in range(100):
                stream = streams[key % 8]
                value = contents((key * 997) % 60000, number * 1000 + key)
                stream.write(b"set k%d_%d 0 0 %d\r\n%s\r\n" % (number, key, len(value), value))
                stream.flush()
                line(stream, b"STORED\r\n")
            # All requests of a connection leave before the first reply is read.
            for index, stream in enumerate(streams):
                for key in range(100):
                    if key % 8 == index:
                        stream.write(b"get k%d_%d\r\n" % (number, (key + 1) % 100))
                stream.flush()
            for index, stream in enumerate(streams):
                for key in range(100):
                    if key % 8 == index:
                        got = (key + 1) % 100
                        value = contents((got * 997) % 60000, number * 1000 + got)
                        line(stream, b"VALUE k%d_%d 0 %d\r\n" % (number, got, len(value)))
                        same(stream.read(len(value) + 2), value + b"\r\n")
                        line(stream, b"END\r\n")
            for stream, peer in zip(streams, peers):
                stream.write(b"quit\r\n")
                stream.flush()
                same(stream.read(), b"")
                stream.close()
                peer.close()
        except Exception as error:
            failures.append(f"thread {number}: {error!r}")

    threads = [threading.Thread(target=worker, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise AssertionError("; ".join(failures))


def main():
    what = sys.argv[1]
    if what == "list":
        for name, case in CASES.items():
            print(name, case.connections, case.transport, case.server_status, case.client_status, sep="\t")
        return
    address = (sys.argv[-2], int(sys.argv[-1]))
    if what == "memcached":
        memcached(address)
    elif what == "client":
        CASES[sys.argv[2]].client(address)
    else:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        with socket.create_server(address, family=family, backlog=128) as listener:
            CASES[sys.argv[2]].server(listener)


if __name__ == "__main__":
    main()

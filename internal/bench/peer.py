"""The Mooncake wheel's own client as a contender.

usage: peer.py SOCKET     Connects to a unix socket, reads calls from it and answers; protocol.go has the calls. It takes the client's path with the fewest copies: registered buffers, batch_put_from, batch_get_into. Its
segment is empty, so all data is in the memory of another process.
"""

import ctypes
import importlib.metadata
import json
import mmap
import platform
import socket
import sys
import time

from mooncake.store import MooncakeDistributedStore

libc = ctypes.CDLL(None)
libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


def memory(field):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def loopback():
    """Bytes that the loopback interface has carried."""
    with open("/proc/net/dev") as interfaces:
        for line in interfaces:
            if line.strip().startswith("lo:"):
                return int(line.split(":")[1].split()[0])
    return 0


class Buffers:
    """Memory for some objects, aligned to pages of the machine, on huge ones where it has them."""

    def __init__(self, count, size):
        self.count, self.size = count, size
        self.memory = mmap.mmap(-1, count * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            try:
                self.memory.madvise(mmap.MADV_HUGEPAGE)
            except OSError:
                pass  # a kernel without them
        self.first = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.clear()

    def fill(self):
        """Fills the memory with random bytes."""
        left = memoryview(self.memory)
        with open("/dev/urandom", "rb", buffering=0) as random:
            while left:
                left = left[random.readinto(left) :]

    def clear(self):
        ctypes.memset(self.first, 0, self.count * self.size)

    def addresses(self):
        return [self.first + i * self.size for i in range(self.count)]


class Contender:
    store = None

    def open(self, call):
        o = call["open"]
        self.before = memory("VmRSS")
        self.store = MooncakeDistributedStore()
        host = o["master"].rsplit(":", 1)[0]
        code = self.store.setup(host, o["metadata"], 0, 0, "tcp", "", o["master"])
        if code != 0:
            raise RuntimeError(f"setup: code {code}")
        size, pages, shared = o["object_bytes"], o["pages"], o["shared_pages"]
        self.shared = shared
        self.published = Buffers(pages, size)
        self.own = Buffers(pages - shared, size)
        self.target = Buffers(pages, size)
        self.buffers = [self.published, self.own, self.target]
        for b in self.buffers:
            code = self.store.register_buffer(b.first, b.count * size)
            if code != 0:
                raise RuntimeError(f"register_buffer: code {code}")
        for b in (self.published, self.own):
            b.fill()
        return {
            "versions": {
                "python": platform.python_version(),
                "mooncake": importlib.metadata.version("mooncake-transfer-engine-non-cuda"),
            }
        }

    def put(self, keys, addresses):
        """Publishes what is not there; returns how many were stored and the time in ms."""
        size = self.target.size
        start = time.perf_counter()
        there = self.store.batch_is_exist(keys)
        missing = [i for i, found in enumerate(there) if found != 1]
        codes = []
        if missing:
            codes = self.store.batch_put_from(
                [keys[i] for i in missing], [addresses[i] for i in missing], [size] * len(missing)
            )
        ms = (time.perf_counter() - start) * 1e3
        if any(code != 0 for code in codes):
            raise RuntimeError(f"batch_put_from: codes {codes}")
        return {"pages": len(missing), "ms": ms}

    def publish(self, call):
        return self.put(call["keys"], self.published.addresses())

    def extend(self, call):
        return self.put(call["keys"], self.target.addresses()[: self.shared] + self.own.addresses())

    def remove(self, call):
        for key in call["keys"]:
            code = self.store.remove(key, True)
            if code != 0:
                raise RuntimeError(f"remove: code {code}")
        return {}

    def reload(self, call):
        self.target.clear()
        keys, addresses, size = call["keys"], self.target.addresses(), self.target.size
        carried = loopback()
        start = time.perf_counter()
        there = self.store.batch_is_exist(keys)
        run = next((i for i, found in enumerate(there) if found != 1), len(keys))
        lengths = self.store.batch_get_into(keys[:run], addresses[:run], [size] * run) if run else []
        ms = (time.perf_counter() - start) * 1e3
        carried = loopback() - carried
        if any(length != size for length in lengths):
            raise RuntimeError(f"batch_get_into: lengths {lengths}, objects have {size}")
        want = self.published.addresses()[: self.shared] + self.own.addresses()
        for i in range(run):
            if libc.memcmp(addresses[i], want[i], size) != 0:
                raise RuntimeError(f"page {i} is not what was published")
        return {"pages": run, "ms": ms, "loopback_bytes": carried}

    def close(self, call):
        buffers = sum(b.count * b.size for b in self.buffers)
        held = max(memory("VmHWM") - self.before - buffers, 1)
        self.leave()
        return {"held_bytes": held}

    def leave(self):
        if self.store is not None:
            self.store.close()
            self.store = None


def main():
    contender = Contender()
    driver = socket.socket(socket.AF_UNIX)
    driver.connect(sys.argv[1])
    with driver, driver.makefile("rw") as lines:
        for line in lines:
            call = json.loads(line)
            try:
                answer = getattr(contender, call["op"])(call)
            except Exception as e:  # what an error means is the caller's to say
                answer = {"error": f"{type(e).__name__}: {e}"}
            print(json.dumps(answer), file=lines, flush=True)
    contender.leave()


main()

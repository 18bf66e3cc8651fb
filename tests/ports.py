"""Ports for servers that are started later, or not at all.

Not those that the kernel gives away: before a server listens, a connection of any process may get its port, another
test's server as well, and a client that tries the port may be connected with itself (TCP's simultaneous open).
"""

from __future__ import annotations

import os
import random
import socket

_PORTS = range(20_000, 32_000)
"""Below those that the kernel gives (net.ipv4.ip_local_port_range begins at 32768)."""
_held: list[socket.socket] = []


def free_port() -> int:
    """A port of 127.0.0.1 at which nothing listens; no other test gets it while this process runs."""
    # Not of `random` itself, which each test begins with the same seed.
    for port in random.Random(os.urandom(8)).sample(_PORTS, len(_PORTS)):
        held = socket.socket(socket.AF_UNIX)
        try:
            # A name that ends with the process: no file is left.
            held.bind(f"\0tfaot-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            held.close()
            continue
        _held.append(held)
        return port
    raise AssertionError("no free port")

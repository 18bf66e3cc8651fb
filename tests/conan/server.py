"""Conan's own server on loopback: `server.py FOLDER`, with server.conf in FOLDER.

TEST_DIE_AT=N kills it in the middle of the Nth upload of a file; TEST_FAIL_AT=N answers that one, and every repetition of
it, with an error.
"""

from __future__ import annotations

import os
import sys

import bottle
from conans.server.launcher import ServerLauncher


def main() -> None:
    die_at, fail_at = (int(os.environ.get(name, "0")) for name in ("TEST_DIE_AT", "TEST_FAIL_AT"))
    server = ServerLauncher(server_dir=sys.argv[1]).server
    uploads = 0
    failing = ""

    def count() -> None:
        nonlocal uploads, failing
        request = bottle.request
        if request.method != "PUT" or not int(request.get_header("Content-Length") or 0):
            return
        uploads += 1
        if uploads == die_at:
            request.environ["wsgi.input"].read(int(request.get_header("Content-Length")) // 2)
            os._exit(9)
        if uploads == fail_at:
            failing = request.path
        if request.path == failing:
            raise bottle.HTTPError(500, "no more room")

    server.root_app.add_hook("before_request", count)
    bottle.run(
        server.root_app, host="127.0.0.1", port=server.server_config_port if False else server.run_port, quiet=True
    )


if __name__ == "__main__":
    main()

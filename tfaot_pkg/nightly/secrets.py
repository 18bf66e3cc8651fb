"""Which variables of the environment others than the publisher get to see.

Builds run what models bring along. What is in their environment, and in that of the processes that start them, they can
read (proc(5)); so both get variables by name, and passwords and keys are in none of these.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

KEPT = (
    "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "CXX", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE", "no_proxy", "NO_PROXY", "TFAOT_WORKER_TIMEOUT", "TFAOT_WORKER_MEMORY", "TFAOT_WORKER_DISK",
    "TFAOT_UNCONFINED",
)  # fmt: skip
_PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
_OF_COORDINATOR = ("TERM", "COLUMNS", "LINES", "NO_COLOR", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "TFAOT_HOME", "USER")


def public(given: Mapping[str, str]) -> dict[str, str]:
    """The variables of `given` that builds may have: those that they need. A proxy only where no password is in it."""
    kept = {name: given[name] for name in KEPT if name in given}
    return kept | {name: given[name] for name in _PROXIES if name in given and "@" not in given[name]}


def hide_secrets(environ: MutableMapping[str, str]) -> None:
    """Take everything else out of this process's `environ`: what it starts from now on does not get it.

    To be called once passwords have been read. The kernel still shows what this process was started with.
    """
    kept = {**public(environ), **{name: environ[name] for name in _OF_COORDINATOR if name in environ}}
    for name in set(environ) - kept.keys():
        del environ[name]

"""The code of this tool by digest: workers of a night have the coordinator's."""

from __future__ import annotations

from functools import cache

from tfaot_pkg._version import __version__
from tfaot_pkg.frontends.frozen.model import worker_program_digest
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.keys import canonical_json, sha256_bytes

_PROGRAMS = ("tfaot_pkg.nightly.farm.worker", "tfaot_pkg.nightly.build_task")


@cache
def tool_digest() -> str:
    """SHA-256 of all that decides what a worker builds: modules, templates, headers, kernels, the worker program."""
    folders = (resources.templates(), resources.headers(), resources.kernels())
    parts = [__version__, code_digest(*_PROGRAMS), worker_program_digest(), *map(resources.digest, folders)]
    return sha256_bytes(canonical_json(parts))


def described(version: str, digest: str) -> str:
    """A version for people: those of one release may have other code."""
    return f"tfaot-pkg {version[:40]} (code {digest[:12]})"

"""Small packages and signed registries for tests of trust."""

from __future__ import annotations

from tests.registry.conftest import make_package  # noqa: F401 (a fixture)

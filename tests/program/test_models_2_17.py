"""Rows of many small models, as TensorFlow 2.17.1 lowers them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.program.models import Models, RowsOfModels, models_of

pytestmark = [pytest.mark.release, pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def models(shared_home_folder: Path) -> Models:
    return models_of("2.17.1", shared_home_folder)


class TestModels(RowsOfModels):
    pass

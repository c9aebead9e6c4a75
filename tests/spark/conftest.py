"""The data set with every defect, written once for all tests that read it."""

from __future__ import annotations

import pytest

from tests.spark.defects import DataSet


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    """The inputs with every defect."""
    return DataSet(tmp_path_factory.mktemp("defects"))

"""The worked examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import calibrate_plugin
from calibrate_plugin import agreement

PACKAGE = Path(calibrate_plugin.__file__).parent


def modules() -> list[str]:
    """The modules of the package whose text holds an example."""
    held = [path for path in PACKAGE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8")]
    return sorted(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in held)


@pytest.mark.parametrize("name", modules())
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


def test_every_function_for_tables_of_answers_has_an_example() -> None:
    functions = importlib.import_module("calibrate_plugin.agreement.functions")
    tests = {t.name.rpartition(".")[2] for t in doctest.DocTestFinder().find(functions) if t.examples}
    assert set(agreement.__all__) - {"wilson", "Resampling"} <= tests  # wilson's stands where it is defined

"""The worked examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import calibrate_plugin


def modules() -> list[str]:
    """The modules of the package whose text holds an example."""
    found = []
    for module in pkgutil.walk_packages(calibrate_plugin.__path__, "calibrate_plugin."):
        spec = module.module_finder.find_spec(module.name, None)  # type: ignore[call-arg]
        source = None if spec is None or spec.origin is None else open(spec.origin, encoding="utf-8").read()
        if source is not None and ">>> " in source:
            found.append(module.name)
    return found


@pytest.mark.parametrize("name", modules())
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


def test_every_function_for_tables_of_answers_has_an_example() -> None:
    functions = importlib.import_module("calibrate_plugin.agreement.functions")
    tests = {t.name.rpartition(".")[2] for t in doctest.DocTestFinder().find(functions) if t.examples}
    assert set(functions.__all__) - {"wilson"} <= tests  # wilson's stands where it is defined

"""The JSON report keeps its contract."""

from __future__ import annotations

import json as stdlib_json
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from fractions import Fraction

import numpy as np
import pytest
from sample_reports import hostile, many, number, other_scales, report, seed, undefined_numbers

from calibrate_plugin.model import Counts, Measure
from calibrate_plugin.report import json

MEASURE = {"value", "reason", "n_items", "n_pairs", "interval", "interval_reason"}


def _read(made):
    def no_constant(name):
        raise AssertionError(f"{name} in JSON")

    return stdlib_json.loads(json.render(made), parse_constant=no_constant)


def test_the_names_of_the_contract_are_there_exactly():
    made = _read(seed())
    assert {"schema", "study", "generated_at", "dimensions", "coverage"} <= set(made)
    assert made["schema"] == "calibrate-plugin/report/1"
    assert made["generated_at"] == "2026-10-01T12:30:00Z"
    dimension = made["dimensions"][0]
    assert {
        "name",
        "scale",
        "human_score",
        "raters",
        "annotators",
        "evaluators",
        "judges",
        "all_raters",
        "disagreements",
        "set_aside",
        "slices",
    } <= set(dimension)
    assert {"agreement", "kappa", "alpha", "alphas", "ac", "counted", "pairs", "each"} <= set(dimension["annotators"])
    assert {"a", "b", "agreement", "kappa", "counts"} <= set(dimension["annotators"]["pairs"][0])
    assert {"rater", "score", "agreement", "kappa"} == set(dimension["annotators"]["each"][0])
    evaluator = dimension["evaluators"][0]
    assert {
        "evaluator",
        "version",
        "live",
        "score",
        "on_shared_items",
        "agreement",
        "kappa",
        "counts",
        "each",
    } <= set(evaluator)
    assert set(evaluator["on_shared_items"]) == {"evaluator", "humans"}
    assert {"labels", "table"} <= set(evaluator["counts"])
    assert set(dimension["all_raters"]) == {"fleiss", "alpha"}
    assert dimension["disagreements"] == {"human_items": 1, "judge_items": 2, "pairs": 4}
    assert dimension["set_aside"] == {"abstained": 0, "other_version": 1, "superseded": 1}


def test_the_numbers_of_the_worked_example_are_there():
    safety, empathy = _read(seed())["dimensions"]
    assert safety["human_score"] | {"value": 0.625, "n_labels": 8} == safety["human_score"]
    kappa = safety["annotators"]["kappa"]
    assert kappa | {"value": 0.5, "kind": "cohen", "chance": 0.5, "n_pairs": 4, "n_items": 4} == kappa
    assert safety["evaluators"][0]["kappa"]["value"] == 0.25
    assert safety["evaluators"][0]["counts"]["table"] == [[3, 1], [2, 2]]
    assert empathy["annotators"]["kappa"]["value"] == 0.6
    assert empathy["annotators"]["alpha"]["metric"] == "interval"
    assert empathy["evaluators"][0]["kappa"]["value"] == 0.2
    assert empathy["scale"] == {"kind": "rating", "labels": ["1", "2", "3", "4", "5"], "low": 1, "high": 5, "step": 1}


@pytest.mark.parametrize("make", [seed, undefined_numbers, hostile, other_scales])
def test_every_measure_is_a_value_or_a_reason_never_both(make):
    found = 0

    def walk(node):
        nonlocal found
        if isinstance(node, dict) and "n_items" in node:
            found += 1
            assert set(node) >= MEASURE
            assert (node["value"] is None) != (node["reason"] is None)
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            walk(child)

    walk(_read(make()))
    assert found > 10


def test_an_interval_tells_its_ends_level_and_method_and_a_missing_one_its_reason():
    made = _read(other_scales())["dimensions"][0]["annotators"]["agreement"]
    assert (
        made["interval"] | {"low": 0.7, "high": 0.78, "level": 0.95, "method": "item-bootstrap+3"} == made["interval"]
    )
    assert made["interval_reason"] is None
    seeds = _read(seed())["dimensions"][0]["annotators"]["agreement"]
    assert (seeds["interval"], seeds["interval_reason"]) == (None, "too_few_items")


def test_slices_have_the_shape_of_a_dimension():
    dimension = _read(other_scales())["dimensions"][1]
    assert [(part["fact"], part["value"]) for part in dimension["slices"]] == [("language", "de"), ("language", "fr")]
    assert set(dimension["slices"][0]) == {"fact", "value"} | set(dimension)


def test_details_stand_beside_the_contracts_keys_and_never_replace_them():
    odd = {
        "value": 7,
        "kind": "cohen",
        "share": Fraction(1, 3),
        "n": np.int64(3),
        "x": np.float32(0.5),
        "list": (1, "a"),
    }
    made = json.measure(Measure(0.5, None, 4, 4, details=odd, warnings=("rare_answer",)))
    assert made["value"] == 0.5
    assert (made["kind"], made["share"], made["n"], made["x"], made["list"]) == ("cohen", 1 / 3, 3, 0.5, [1, "a"])
    assert made["warnings"] == ["rare_answer"]
    assert "warnings" not in json.measure(number(0.5))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_is_refused_wherever_it_stands(value):
    for bad in (number(value), number(0.5, chance=value)):
        broken = replace(seed().dimensions[0], human_score=bad)
        with pytest.raises(ValueError, match="cannot hold"):
            json.render(report(broken))


def test_a_time_without_zone_is_refused():
    with pytest.raises(ValueError, match="no time zone"):
        json.render(replace(seed(), generated_at=datetime(2026, 1, 1)))  # noqa: DTZ001


def test_any_text_is_valid_utf8_and_cannot_steer_a_terminal():
    text = json.render(hostile())
    text.encode()
    assert not any((c < " " and c != "\n") or "\x7f" <= c <= "\x9f" or c == "\u202e" for c in text)
    dimension = stdlib_json.loads(text)["dimensions"][0]
    assert dimension["raters"][3]["name"] == "\x1b[31mred\x1b[0m\x9b31m"  # unchanged once it is read
    assert dimension["raters"][5]["name"] == "lone \\ud800 surrogate"


def test_the_same_report_gives_the_same_bytes_whatever_the_order_of_its_mappings():
    one = seed()
    turned = replace(
        one,
        dimensions=tuple(
            replace(d, set_aside=dict(reversed(d.set_aside.items())), human_score=replace(d.human_score))
            for d in one.dimensions
        ),
    )
    assert json.render(one) == json.render(turned)


def test_a_negative_zero_loses_its_sign():
    assert stdlib_json.dumps(json.measure(number(-0.0))["value"]) == "0.0"


def test_counts_keep_their_sides():
    counts = Counts(("a", "b"), ((1, 2), (3, 4)), "rows", "columns")
    pair = replace(seed().dimensions[0].annotators.pairs[0], counts=counts)
    made = report(replace(seed().dimensions[0], judges=(pair, replace(pair, counts=None))))
    judges = _read(made)["dimensions"][0]["judges"]
    assert judges[0]["counts"] == {
        "rows": "rows",
        "columns": "columns",
        "labels": ["a", "b"],
        "table": [[1, 2], [3, 4]],
    }
    assert judges[1]["counts"] is None


def test_a_report_without_dimensions_is_a_report():
    assert _read(report())["dimensions"] == []


def test_terminal_and_json_load_no_chart_library_nor_templates():
    code = (
        "import sys, calibrate_plugin.report.json as j, calibrate_plugin.report.display\n"
        "assert not {'rich', 'altair', 'jinja2', 'vl_convert', 'pandas'} & set(sys.modules)\n"
        "import calibrate_plugin.report.terminal, calibrate_plugin.report.csv\n"
        "assert not {'altair', 'jinja2', 'vl_convert', 'pandas'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_study_with_many_raters_is_written_on_few_lines_per_pair():
    text = json.render(many(20, 5, 1, listed=0))
    assert text.count('"a": "annotator-') == 190
    assert max(map(len, text.splitlines())) < 500

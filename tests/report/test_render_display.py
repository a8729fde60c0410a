"""How numbers, bands and foreign text are written."""

from __future__ import annotations

import doctest
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_reports import BINARY, HOSTILE, ORDINAL, RATING, number, undefined

from calibrate_plugin.model import REASONS, Scale
from calibrate_plugin.ratings.rules import CAUSES
from calibrate_plugin.report import display


def test_the_examples_in_the_docstrings_hold():
    found = doctest.testmod(display)
    assert found.attempted >= 8
    assert found.failed == 0


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (5 / 8, "63 %"),
        (3 / 4, "75 %"),
        (7 / 8, "88 %"),
        (29 / 200, "15 %"),  # 0.145 is 14.499999999999998 as a float
        (57 / 200, "29 %"),  # 28.499999999999996
        (0.005, "1 %"),
        (0.0049999, "0 %"),
        (0, "0 %"),
        (1, "100 %"),
        (1 / 3, "33 %"),
    ],
)
def test_percentages_are_whole_and_rounded_half_up_from_the_exact_fraction(share, shown):
    assert display.percent(share) == shown


@given(st.integers(1, 2000), st.data())
def test_every_share_of_up_to_two_thousand_labels_is_rounded_half_up(n, data):
    k = data.draw(st.integers(0, n))
    exact = (200 * k + n) // (2 * n)  # floor(100 k / n + 1/2) in whole numbers
    assert display.percent(k / n) == f"{exact} %"


@given(st.fractions(-1, 1, max_denominator=5000))
def test_a_coefficient_is_rounded_half_away_from_zero_from_the_exact_fraction(value):
    units = int(abs(value) * 100 + Fraction(1, 2))
    sign = "-" if value < 0 and units else ""
    assert display.coefficient(float(value)) == f"{sign}{units // 100}.{units % 100:02d}"


def test_a_rating_has_at_most_two_decimals_without_trailing_zeros_and_its_top():
    assert display.rating(3.5, RATING) == "3.5 / 5"
    assert display.rating(3.75, RATING) == "3.75 / 5"
    assert display.rating(4.0, RATING) == "4 / 5"
    assert display.rating(10.0, Scale("rating", low=Fraction(0), high=Fraction(10))) == "10 / 10"
    assert display.rating(2.675, RATING) == "2.68 / 5"  # 2.675 is 2.67499... as a float


def test_a_rounded_zero_has_no_sign():
    assert display.coefficient(-0.001) == "0.00"
    assert display.coefficient(-1 / 80) == "-0.01"


def test_a_binary_score_tells_how_many_labels_pass():
    assert display.score_parts(number(5 / 8, 4, n_labels=8), BINARY, "label") == "5 of 8 labels"
    assert display.score_parts(number(1 / 2, 4), BINARY, "item") == "2 of 4 items"
    assert display.score_parts(number(1.0, 1, n_labels=1), BINARY, "label") == "1 of 1 label"


def test_a_binary_score_that_is_no_whole_number_of_labels_claims_none():
    assert display.score_parts(number(0.3, 4, n_labels=4), BINARY, "label") == "4 labels"


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (-1, "poor"),
        (-0.0001, "poor"),
        (0, "slight"),
        (0.2, "slight"),
        (0.2000001, "fair"),
        (0.205, "fair"),
        (0.4, "fair"),
        (0.6, "moderate"),
        (0.6000000000000001, "moderate"),  # 3/5 as a float sum
        (0.61, "substantial"),
        (0.8, "substantial"),
        (0.81, "almost perfect"),
        (1, "almost perfect"),
    ],
)
def test_landis_koch_bands_are_half_open_and_taken_from_the_unrounded_value(value, word):
    assert display.band(value, "landis-koch") == word


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (-0.5, "none"),
        (0.2, "none"),
        (0.21, "minimal"),
        (0.399, "minimal"),
        (0.4, "weak"),
        (0.599, "weak"),
        (0.6, "moderate"),
        (0.8, "strong"),
        (0.9, "strong"),
        (0.901, "almost perfect"),
    ],
)
def test_mchugh_bands_are_half_open_and_taken_from_the_unrounded_value(value, word):
    assert display.band(value, "mchugh") == word


@pytest.mark.parametrize(
    ("value", "word"),
    [(0.8, "reliable"), (0.7999, "tentative"), (0.667, "tentative"), (0.6669, "too low to draw conclusions")],
)
def test_krippendorff_bands_speak_of_alpha(value, word):
    assert display.alpha_band(number(value), "landis-koch") == word
    assert display.kappa_band(number(value), "krippendorff") == ""


def test_an_undefined_number_has_no_band():
    assert display.kappa_band(undefined("same_answer"), "landis-koch") == ""
    assert display.alpha_band(undefined("same_answer"), "mchugh") == ""


def test_unknown_bands_are_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match=r"'cicchetti'.*landis-koch, mchugh, krippendorff"):
        display.band(0.5, "cicchetti")


def test_every_reason_and_every_cause_has_words():
    assert set(display.REASON_NAMES) <= set(REASONS)
    for reason in REASONS:
        assert display.reason_name(reason)
        assert "_" not in display.reason_name(reason)
        assert len(display.reason_text(reason)) > 10
    for cause in CAUSES:
        assert display.cause_text(cause) == f"{cause.replace('_', ' ')}: {CAUSES[cause]}"


def test_a_distance_is_told_in_the_units_of_an_ordered_scale_only():
    assert display.distance(0.5, RATING) == "2 apart"
    assert display.distance(0.5, ORDINAL) == "1 step apart"
    assert display.distance(1.0, BINARY) == ""


@pytest.mark.parametrize("text", HOSTILE)
def test_no_control_character_override_or_surrogate_stays(text):
    shown = display.visible(text)
    shown.encode()
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2066\u2028\uffff" for c in shown)


def test_two_texts_that_differ_in_hidden_characters_only_are_still_told_apart():
    assert len({display.visible(text) for text in ("a", "a\x00", "a\x1b", "\ud800a", "a\ud801", "a\x9b", "a\n")}) == 7


def test_right_to_left_text_and_emoji_stay_as_they_are():
    for text in ("שלום\u200f (ok)", "👩‍🔬", "naïve", "日本語"):
        assert display.visible(text) == text


@pytest.mark.parametrize(
    "text", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\n=1", "＝1", "-", "-1\n=1+1", "+49 170 1"]
)
def test_what_a_spreadsheet_could_run_gets_an_apostrophe(text):
    assert display.cell(text).startswith("'")


@pytest.mark.parametrize("text", ["-1", "-1.5", "-.5", "+3", "-1e-9", "1-2", "a=b", "", "'=1"])
def test_a_plain_number_and_plain_text_get_none(text):
    assert display.cell(text) == text


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JAVASCRIPT:alert(1)",
        "data:text/html,<script>",
        "file:///etc/passwd",
        "//host/path",
        "https://",
        "https://user:secret@host/",
        "https://host/ space",
        'https://host/"onmouseover="x',
        "https://host/<b>",
        "http://[bad",
        "https://host:port/",
        "https://host/\u202egpj",
        "https://host/\nx",
        "https://host/" + "a" * 3000,
        "",
        None,
    ],
)
def test_only_an_ordinary_web_address_becomes_a_link(url):
    assert display.web_link(url) is None


@pytest.mark.parametrize(
    "url", ["http://localhost:8080/projects/1/data?task=3", "https://langfuse.example/project/p/traces/t?a=b&c=[1]#x"]
)
def test_an_ordinary_web_address_is_a_link(url):
    assert display.web_link(url) == url

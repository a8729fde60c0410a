"""The report on a terminal."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from sample_reports import hostile, many, other_scales, report, seed, undefined_numbers

from calibrate_plugin.report import terminal


def _line(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(start))


def test_the_worked_example_reads_like_its_page():
    safety, empathy = terminal.render(seed()).split("Empathy · rating: 1 to 5")
    people, judge = _line(safety, "Asha and Ben"), _line(safety, "safety-judge v3")
    assert re.search(r"63 % \(5 of 8 labels\) +75 % +0\.50 Cohen moderate", people)
    assert "50 % (2 of 4 items)" in judge
    assert re.search(r"63 % +0\.25 Cohen fair", judge)
    assert judge.split()[-2:] == ["8", "4"]
    people, judge = _line(empathy, "Asha and Ben"), _line(empathy, "empathy-judge v3")
    assert "3.5 / 5 (8 labels)" in people
    assert re.search(r"88 % +0\.60 Cohen moderate", people)
    assert "3.75 / 5 (4 items)" in judge
    assert re.search(r"75 % +0\.20 Cohen slight", judge)


def test_a_missing_number_is_a_dash_whose_reason_is_told_once_per_dimension():
    parts = terminal.render(undefined_numbers()).split("Same answer · binary")
    assert "every paired answer is the same" in parts[1]
    row = _line(parts[1], "Asha and Ben")
    assert re.search(r"100 % +—²", row)
    single = parts[0].split("One item · binary")[1]
    assert re.search(r"33 % +—²", _line(single, "3 annotators"))
    assert single.count("every pair comes from one item") == 1
    lonely = parts[0].split("One item · binary")[0]
    assert lonely.count("let a second annotator label the same items") == 1
    assert lonely.count("—¹") == 6
    assert "none is live" in lonely


def test_no_band_stands_beside_an_undefined_kappa():
    text = terminal.render(undefined_numbers())
    for word in ("poor", "slight", "fair", "moderate", "substantial", "almost perfect"):
        assert word not in text


def test_a_warning_is_marked_at_its_kappa_and_explained():
    safety = seed().dimensions[0]
    kappa = replace(safety.annotators.kappa, warnings=("rare_answer",))
    text = terminal.render(report(replace(safety, annotators=replace(safety.annotators, kappa=kappa))))
    assert "0.50 Cohen moderate¹" in text
    assert text.count("¹ all answers but the most frequent one are fewer than 5 on a side") == 1


def test_the_bands_are_those_of_the_study():
    made = report(*seed().dimensions, bands="mchugh")
    assert "0.60 Cohen moderate" in terminal.render(made)
    assert "0.50 Cohen weak" in terminal.render(made)
    assert "0.50 Cohen  " in terminal.render(report(*seed().dimensions, bands="none"))


@pytest.mark.parametrize("make", [seed, undefined_numbers, hostile, other_scales, lambda: many(20, 20, 1, listed=9)])
@pytest.mark.parametrize("width", [100, 80, 60])
def test_no_line_is_wider_than_the_terminal(make, width):
    lines = terminal.render(make(), width=width).splitlines()
    assert len(lines) > 10
    assert max(cell_len(line) for line in lines) <= width


@pytest.mark.parametrize("width", [100, 80])
def test_numbers_are_never_broken(width):
    text = terminal.render(other_scales(), width=width)
    assert re.search(r"\b3,000 +1,000\b", text)
    assert re.search(r"0\.48 to 0\.61", text)
    assert "0.55 Fleiss" in text


def test_platform_text_is_neither_markup_nor_an_escape_sequence():
    for colour in (False, True):
        text = terminal.render(hostile(), colour=colour)
        assert "[bold red]markup" in text.replace("\x1b[0m", "").replace("\x1b[1m", "")
        assert "\x1b[31m" not in text
        assert "␛[31mred" in text
        assert not set(text) & set("\x00\x07\x9b\u202e\uffff")
        text.encode()


def test_there_is_no_colour_without_a_terminal():
    file = io.StringIO()
    terminal.show(seed(), file)
    assert "\x1b" not in file.getvalue()
    assert "63 %" in file.getvalue()


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_there_is_colour_on_a_terminal_unless_no_color_is_set(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    file = _Terminal()
    terminal.show(seed(), file)
    assert "\x1b[1m" in file.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    file = _Terminal()
    terminal.show(seed(), file)
    assert "\x1b" not in file.getvalue()
    assert max(map(len, file.getvalue().splitlines())) <= 80


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_terminal_of_few_letters_gets_its_own_signs_for_ours(encoding):
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    terminal.show(undefined_numbers(), file)
    file.flush()
    text = raw.getvalue().decode(encoding)
    assert "100 %" in text
    assert "?" not in text


def test_set_aside_disagreements_and_unread_records_are_told_with_their_causes():
    text = terminal.render(seed())
    assert "1  superseded: the same rater answered the same item again later" in text
    assert "abstained" not in text  # none of them
    assert "differ on 1 item, an evaluator differs from an annotator on 2 items" in text
    assert "Ben: Fail  gives a dose without asking for the age" in text
    assert "12 no item, 1 unreadable" in terminal.render(many(3, 5, 1, listed=9))


def test_long_lists_are_cut_and_say_so():
    text = terminal.render(many(20, 20, 1, listed=9))
    assert "8 more annotators" in text
    assert "178 more pairs" in text
    assert "4 more items in the HTML report" in text


def test_text_of_megabytes_is_cut_before_it_is_looked_at():
    made = report(*seed().dimensions, study="x" * 5_000_000, sources=("y" * 5_000_000,))
    assert len(terminal.render(made)) < 20_000


def test_a_report_without_dimensions_says_so():
    assert "No dimension has any label." in terminal.render(report())

"""The HTML page: what it holds, and that nothing a platform named can act in it."""

from __future__ import annotations

import base64
import hashlib
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from fractions import Fraction
from functools import cache
from html.parser import HTMLParser

import pytest
from sample_reports import (
    HOSTILE,
    cohen,
    dimension,
    hostile,
    many,
    number,
    other_scales,
    report,
    seed,
    undefined_numbers,
)

from calibrate_plugin.model import Disagreement, Disagreements, RaterInfo, Scale
from calibrate_plugin.report import charts, html

TAGS = {
    *[
        "html",
        "head",
        "meta",
        "link",
        "title",
        "style",
        "body",
        "a",
        "header",
        "p",
        "h1",
        "h2",
        "h3",
        "nav",
        "ol",
        "li",
        "main",
        "section",
        "ul",
        "b",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
    ],
    *[
        "th",
        "td",
        "small",
        "figure",
        "figcaption",
        "svg",
        "g",
        "path",
        "line",
        "rect",
        "text",
        "span",
        "details",
        "summary",
        "div",
        "article",
        "dl",
        "dt",
        "dd",
        "footer",
        "code",
    ],
    *["abbr", "br"],
}
VOID = {"meta", "link", "br"}


class _Page(HTMLParser):
    """Elements, attributes, texts and links of a page; ``stack`` finds elements that were never closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "id":
                self.ids.append(value)
            if name in ("href", "src", "action", "xlink:href"):
                self.links.append(value)

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))


@cache
def _rendered(make) -> str:
    return html.render(make())


def _page(make) -> _Page:
    return _Page(_rendered(make))


def test_the_worked_example_reads_like_its_page():
    text = _page(seed).text
    summary = text[text.index("by both") : text.index("Kappa at a glance")]
    assert re.search(
        r"Safety binary: Pass, Fail .*Asha and Ben 63 % 5 of 8 labels 75 % 0\.50 Cohen moderate — under 10 items 4 4",
        summary,
    )
    assert "safety-judge v3 50 % 2 of 4 items 63 % 0.25 Cohen fair — under 10 items 8 4" in summary
    assert "Asha and Ben 3.5 / 5 8 labels 88 % 0.60 Cohen moderate" in summary
    assert "empathy-judge v3 3.75 / 5 4 items 75 % 0.20 Cohen slight" in summary
    assert "by chance 69 %" in text
    assert "On the 4 items that people labelled too: 50 % , the people 63 %" in text.replace("50 %,", "50 % ,")


def test_the_page_shows_matrix_counts_spread_disagreements_and_what_was_set_aside():
    text = _page(seed).text
    assert "Every rater with every other" in text
    assert "safety-judge v3 and the annotators 8 pairs; rows: safety-judge v3; columns: annotators" in text
    assert re.search(r"Pass Fail Pass 3 1 Fail 2 2", text)
    assert re.search(r"All annotators 8 5 3", text)  # the answers in numbers
    assert "gives a dose without asking for the age" in text
    assert "1 superseded the same rater answered the same item again later" in text
    assert "annotation 12 2 Asha Fail answered again at 12:10" in text


def test_a_missing_number_is_a_dash_with_its_reason_what_to_do_and_no_band():
    text = _page(undefined_numbers).text
    assert "— nothing to compare" in text
    assert "— one item only" in text
    assert "33 % — one item only" in text
    assert "100 % — everyone gave the same answer" in text
    assert "let a second annotator label the same items" in text
    assert "nothing is wrong, one different answer will make it defined" in text
    sections = text[: text.index("How to read this Score")]
    for word in ("poor", "slight", "fair", "moderate", "substantial", "almost perfect"):
        assert not re.search(rf"\b{word}\b", sections)
    assert 'class="below"' not in _rendered(undefined_numbers)


def test_every_reason_that_is_shown_is_explained_once():
    text = _rendered(undefined_numbers)
    reading = text[text.index('id="reading"') :]
    for code in ("nothing_to_compare", "single_item", "same_answer", "no_labels"):
        assert reading.count(f"<code>{code}</code>") == 1
    assert "<code>infeasible</code>" not in reading


@pytest.mark.parametrize("make", [seed, undefined_numbers, hostile, other_scales])
def test_the_page_is_made_of_harmless_elements_and_attributes_only(make):
    page = _page(make)
    assert page.tags <= TAGS
    assert not {name for name in page.attributes if name.startswith("on")} | (page.attributes & {"style", "srcdoc"})
    assert len(page.ids) == len(set(page.ids))
    assert all(link.startswith(("#", "https://", "data:,")) for link in page.links)


def test_the_policy_allows_its_own_style_by_hash_and_nothing_else():
    text = _rendered(seed)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:" in text.replace("&#39;", "'")
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_hostile_text_is_shown_as_text():
    text = _rendered(hostile)
    text.encode()
    page = _Page(text)
    assert "<script>alert(1)</script>" in page.text
    assert "{{ 7*7 }}" in page.text
    assert "49" not in re.findall(r">(49)<", text)
    assert "[bold red]markup" in page.text
    assert "lone \\ud800 surrogate" in page.text
    assert "right \\u202eto left" in page.text
    assert not set(text) & set("\x00\x07\x1b\x9b\u202e\uffff")


def test_only_http_links_become_links():
    page = _page(hostile)
    outside = [link for link in page.links if not link.startswith(("#", "data:,"))]
    assert outside == ["https://ok.example/a?b=1&c=[2]"]
    text = _rendered(seed)
    assert text.count('href="https://label-studio.example/tasks/2"') == 2
    assert 'href="https://langfuse.example/trace/t2?peek=1"' in text
    assert text.count("<a href=") == text.count("noopener noreferrer nofollow") + text.count('<a href="#')


def test_a_reason_of_megabytes_is_cut_and_says_how_much_is_missing():
    safety = seed().dimensions[0]
    first = safety.disagreements.listed[0]
    long = replace(first, answers=(replace(first.answers[0], reason="x" * 5_000_000), *first.answers[1:]))
    made = report(replace(safety, disagreements=replace(safety.disagreements, listed=(long,))))
    text = html.render(made)
    assert len(text) < 100_000
    assert "(4,998,500 more characters)" in text


def test_a_thousand_disagreements_of_one_dimension_are_all_listed():
    text = html.render(many(3, 5, 1, listed=1200))
    assert text.count("trace-0-") == 1000
    assert "The worst 1,000 items of 1,200 are listed" in text.replace("1000", "1,000")


def test_many_dimensions_share_the_room_for_disagreements():
    made = many(3, 5, 4, listed=1000)
    long = "word " * 290
    stretched = tuple(
        replace(
            d,
            disagreements=replace(
                d.disagreements,
                listed=tuple(
                    replace(x, answers=tuple(replace(a, reason=long) for a in x.answers))
                    for x in d.disagreements.listed
                ),
            ),
        )
        for d in made.dimensions
    )
    text = html.render(replace(made, dimensions=stretched))
    listed = [text.count(f"trace-{i}-") for i in range(4)]
    assert sum(listed) >= 1000
    assert max(listed) - min(listed) <= 1
    assert len(text) < 8_000_000


def test_the_matrix_has_kappa_below_and_agreement_above_the_diagonal():
    made = html._matrix(seed().dimensions[0])
    assert made is not None
    assert made.names == ("Asha", "Ben", "safety-judge v3")
    assert made.roles == ("human", "human", "judge")
    assert [[cell[0] for cell in row] for row in made.rows] == [
        ["", "75 %", "75 %"],
        ["0.50", "", "50 %"],
        ["0.50", "0.00", ""],
    ]


def test_two_versions_of_one_evaluator_are_two_rows_of_the_matrix():
    safety = seed().dimensions[0]
    one = safety.evaluators[0]
    other = replace(one, version="v4", each=tuple(replace(p, kappa=cohen(-0.5, 0.5, 4, 4)) for p in one.each))
    made = html._matrix(replace(safety, evaluators=(one, other)))
    assert made is not None
    assert made.names == ("Asha", "Ben", "safety-judge v3", "safety-judge v4")
    assert made.rows[3][0][:2] == ("−0.50", "below")
    assert made.rows[2][0][:2] == ("0.50", "h5")
    assert made.rows[3][2] == ("", "", "")  # the two were not compared


def test_the_tables_of_all_annotator_pairs_add_up_without_caring_who_is_the_row():
    safety = seed().dimensions[0]
    pair = safety.annotators.pairs[0]
    turned = replace(pair, a="Ben", b="Cy")
    counts = html._together((pair, turned))
    assert counts is not None
    assert counts.table == ((4, 2), (0, 2))
    assert sum(map(sum, counts.table)) == 8


def test_the_spread_pools_annotators_and_never_counts_gold_as_one():
    safety = seed().dimensions[0]
    gold = RaterInfo("gold", "gold", "", 4, 4, (4, 0))
    made = html._spread(replace(safety, raters=(*safety.raters, gold)))
    assert made is not None
    assert [(name, answers, tuple(c for c, _ in cells)) for name, _, answers, cells in made.rows] == [
        ("All annotators", 8, ("5", "3")),
        ("safety-judge v3", 4, ("2", "2")),
        ("Asha", 4, ("3", "1")),
        ("Ben", 4, ("2", "2")),
    ]


def test_many_levels_are_binned_without_losing_an_answer():
    rating = Scale("rating", low=Fraction(0), high=Fraction(100), step=Fraction(1))
    names, binned = html._binned(rating, [tuple(range(101))])
    assert len(names) <= 24
    assert names[0] == "0 to 5"
    assert sum(binned[0]) == sum(range(101))
    nominal = Scale("nominal", labels=tuple(f"c{i}" for i in range(40)))
    names, binned = html._binned(nominal, [tuple(range(40))])
    assert names[-1] == "17 others"
    assert "c39" in names
    assert "c0" not in names
    assert sum(binned[0]) == sum(range(40))


def test_a_rating_without_levels_has_no_spread_and_still_a_page():
    free = Scale("rating", low=Fraction(0), high=Fraction(1))
    base = seed().dimensions[0]
    made = report(replace(base, scale=free, raters=(RaterInfo("Asha", "annotator", "", 4, 4, ()),)))
    assert "How the answers spread" not in html.render(made)


def test_charts_are_drawings_without_script_style_or_colours_of_their_own():
    rows = [
        charts.Row("Safety"),
        charts.Row("Asha", "human", 0.5, -0.9, 1.4, "0.50"),
        charts.Row("Ben", missing="one item"),
    ]
    bars = [charts.Bar("Asha", (0.5, 0.5), "4")]
    for drawing in (
        charts.forest(rows),
        charts.stacked(bars, True),
        charts.stacked(bars, False),
        charts.dots([f"level {i}" for i in range(20)], [("human", [0.05] * 20)]),
    ):
        root = ET.fromstring(drawing)
        assert {e.tag for e in root.iter()} <= {"svg", "g", "path", "line", "rect", "text"}
        assert not re.findall(r"(?:fill|stroke)=\"(?!none|var\(--|transparent)", drawing)
        assert "#" not in drawing


def test_a_chart_shows_each_rows_name_and_value_or_why_there_is_none():
    rows = [
        charts.Row("Safety"),
        charts.Row("Asha", "human", 0.5, 0.1, 0.9, "0.50"),
        charts.Row("Ben", missing="one item"),
    ]
    texts = [e.text for e in ET.fromstring(charts.forest(rows)).iter("text")]
    assert {"Safety", "Asha", "Ben", "0.50", "— one item"} <= set(texts)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text_in_a_chart(name):
    drawing = charts.forest([charts.Row(name), charts.Row(name, "judge", 0.5, None, None, "0.50")])
    root = ET.fromstring(drawing)
    assert {e.tag for e in root.iter()} <= {"svg", "g", "path", "line", "rect", "text"}
    assert {k for e in root.iter() for k in e.attrib} <= {*charts._ATTRIBUTES, "viewBox", "aria-hidden", "focusable"}


def test_names_that_differ_at_their_end_stay_apart_when_they_are_cut():
    one = charts._fitted("somebody-with-a-long-name@example.com", 122)
    assert one.startswith("somebody")
    assert one.endswith("ple.com")
    first, second = (charts._fitted(f"annotator-number-{n:03d}", 100) for n in (1, 2))
    assert first != second
    assert sum(map(charts._width, charts._fitted("日本語" * 30, 122))) <= 122


def test_every_chart_stands_in_a_figure_with_a_caption_and_a_table_tells_the_same():
    text = _rendered(seed)
    for figure in re.findall(r"<figure.*?</figure>", text, re.DOTALL):
        assert "<figcaption>" in figure
    assert text.count("<svg") == 5
    assert text.count('<svg viewBox="') == text.count('aria-hidden="true"')


def test_every_table_names_its_columns_or_rows_for_a_screen_reader():
    for table in re.findall(r"<table.*?</table>", _rendered(other_scales), re.DOTALL):
        assert 'scope="col"' in table
    for region in re.findall(r'<div class="scroll"[^>]*>', _rendered(other_scales)):
        assert 'role="region"' in region
        assert "aria-label=" in region
        assert 'tabindex="0"' in region


def test_the_same_report_gives_the_same_bytes():
    assert html.render(other_scales()) == html.render(other_scales())


def test_fifty_raters_twenty_categories_and_thirty_dimensions_stay_under_seven_megabytes():
    made = many(50, 20, 30)
    text = html.render(made)
    assert len(text.encode()) < 7_000_000
    assert text.count("matrix dense") == 30
    assert text.count("<svg") == 61
    assert text.startswith("<!doctype html>")


def test_an_item_without_answers_or_levels_breaks_nothing():
    bare = dimension(
        "",
        Scale("binary", labels=("", "x")),
        seed().dimensions[0].annotators,
        [],
        disagreements=Disagreements(1, 0, 1, (Disagreement("", 1.0, True, False, ()),)),
    )
    text = html.render(report(bare, study=""))
    assert "<h1>&#34;&#34;</h1>" in text


def test_a_negative_kappa_is_written_with_a_true_minus_and_another_hue():
    safety = seed().dimensions[0]
    pair = replace(safety.annotators.pairs[0], kappa=cohen(-1 / 9, 0.82, 10, 10))
    text = html.render(report(replace(safety, annotators=replace(safety.annotators, pairs=(pair,)))))
    assert '<td class="below">−0.11' in text


def test_bands_follow_the_study():
    assert "landis-koch: below 0 poor, up to 0.2 slight" in _page(seed).text
    text = _Page(html.render(report(*seed().dimensions, bands="none"))).text
    assert "Words beside a kappa" not in text
    assert "moderate" not in text


def test_a_number_that_is_not_finite_is_refused():
    broken = replace(seed().dimensions[0], human_score=number(float("nan")))
    with pytest.raises(ValueError, match="NaN"):
        html.render(report(broken))


def test_a_report_without_dimensions_says_so():
    assert "No dimension has any label." in _page(report).text

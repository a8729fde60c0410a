"""The HTML page in a real browser: at a desk and on a phone, in light and dark, without JavaScript."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sample_reports import hostile, many, other_scales, seed, undefined_numbers

from calibrate_plugin.report import html

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not CHROMIUM.exists():
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(f"{CHROMIUM} is missing; the page must be opened in it")
        pytest.skip(f"{CHROMIUM} is missing")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = {
        "seed": seed(),
        "undefined": undefined_numbers(),
        "hostile": hostile(),
        "other": replace(other_scales(), study="A study with a very long name, " * 5),
        "many": many(40, 12, 2, listed=40),
    }
    for name, report in made.items():
        (folder / f"{name}.html").write_text(html.render(report), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in made}


@pytest.fixture
def opened(browser, pages):
    """Opens a page and gives it with all it asked for, said or popped up."""
    contexts = []

    def open_(name: str, size: dict[str, int] = DESK, **settings: Any) -> tuple[Any, dict[str, list[str]]]:
        context = browser.new_context(viewport=size, **settings)
        contexts.append(context)
        page = context.new_page()
        seen: dict[str, list[str]] = {"requests": [], "console": [], "errors": [], "dialogs": []}
        page.on("request", lambda request: seen["requests"].append(request.url))
        page.on("console", lambda message: seen["console"].append(message.text))
        page.on("pageerror", lambda error: seen["errors"].append(str(error)))
        page.on("dialog", lambda dialog: (seen["dialogs"].append(dialog.message), dialog.dismiss()))
        page.goto(pages[name].as_uri())
        return page, seen

    yield open_
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", ["seed", "undefined", "hostile", "other", "many"])
@pytest.mark.parametrize("script", [False, True], ids=["without JavaScript", "with JavaScript"])
def test_the_page_asks_the_network_for_nothing_and_reports_no_error(opened, pages, name, script):
    page, seen = opened(name, java_script_enabled=script)
    page.wait_for_load_state("networkidle")
    assert [url for url in seen["requests"] if not url.startswith("data:")] == [pages[name].as_uri()]
    assert seen["console"] == seen["errors"] == seen["dialogs"] == []
    assert page.locator("script, img, iframe, object, form, input").count() == 0


@pytest.mark.parametrize("name", ["seed", "undefined", "hostile", "other", "many"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_nothing_runs_out_of_the_page_sideways(opened, name, size):
    page, _ = opened(name, size)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    # A wide table scrolls in its own region instead.
    out = page.evaluate(
        """width => [...document.querySelectorAll('main *')].filter(e => {
            const box = e.getBoundingClientRect();
            return box.right > width + 1 && box.width > 0 && !e.closest('.scroll') && !e.closest('svg') && !e.closest('.unseen')
        }).map(e => e.outerHTML.slice(0, 100))""",
        size["width"],
    )
    assert out == []


def test_the_numbers_of_the_worked_example_can_be_read_without_javascript(opened):
    page, _ = opened("seed", java_script_enabled=False)
    text = page.locator("#summary").inner_text()
    for number in ("63 %", "5 of 8 labels", "75 %", "0.50", "3.5 / 5", "3.75 / 5", "88 %", "0.60", "0.20", "50 %"):
        assert number in text
    page.locator("#d1 summary", has_text="Other coefficients").click()
    assert page.get_by_text("Krippendorff’s alpha, nominal").first.is_visible()


def test_a_phone_shows_every_number_with_the_name_of_its_column(opened):
    page, _ = opened("seed", PHONE)
    labels = page.evaluate(
        """[...document.querySelectorAll('#summary .lines td')].slice(0, 6)
            .map(e => getComputedStyle(e, '::before').content.replaceAll('"', ''))"""
    )
    assert labels == ["Score", "Agreement", "Kappa", "95 % interval", "Pairs", "Items"]
    assert not page.locator("#summary .lines thead").is_visible()


def test_the_page_can_be_used_with_the_keyboard_alone(opened):
    page, _ = opened("seed")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the summary"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.tagName + ' ' + document.activeElement.className"))
    assert "SUMMARY " in seen
    assert "DIV scroll" in seen
    page.locator("#d1 summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#d1 details").first.evaluate("e => e.open")
    outline = page.locator("#d1 summary").first.evaluate("e => getComputedStyle(e).outlineStyle")
    assert outline == "solid"


CONTRAST = """() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgb = colour => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const over = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
    if (c[3] === 255) return c; } return [255, 255, 255, 255]; };
  const light = c => { const [r, g, b] = c.slice(0, 3).map(v => v / 255)
    .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
  const poor = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || e.closest('svg, .unseen, .skip') || e.getClientRects().length === 0) continue;
    let colour = rgb(getComputedStyle(e).color);
    const opacity = Number(getComputedStyle(e).opacity), under = over(e);
    colour = colour.map((v, i) => v * opacity + under[i] * (1 - opacity));
    const found = ratio(colour, under);
    if (found < 4.5) poor.push([found.toFixed(2), e.className, e.textContent.slice(0, 30)].join(' '));
  }
  for (const e of document.querySelectorAll('svg text')) {
    const fill = e.getAttribute('fill');
    if (!/--(ink|soft)/.test(fill)) continue;
    const found = ratio(rgb(getComputedStyle(e).fill), over(e.closest('figure')));
    if (found < 4.5) poor.push(`${found.toFixed(2)} chart ${e.textContent}`);
  }
  return [...new Set(poor)];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["seed", "undefined", "other", "many"])
def test_every_text_stands_out_from_what_lies_behind_it(opened, name, scheme):
    page, _ = opened(name, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_words_in_the_bars_of_a_chart_stand_out(opened, scheme):
    page, _ = opened("seed", color_scheme=scheme)
    poor = page.evaluate(
        """() => {
          const style = getComputedStyle(document.documentElement);
          const rgb = name => { const c = document.createElement('canvas').getContext('2d');
            c.fillStyle = style.getPropertyValue(name); c.fillRect(0, 0, 1, 1); return [...c.getImageData(0, 0, 1, 1).data]; };
          const light = c => { const [r, g, b] = c.slice(0, 3).map(v => v / 255)
            .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
          const pairs = [0, 1, 2, 3, 4, 5, 6].flatMap(i => [[`--on${i}`, `--l${i}`], ['--onc', `--c${i}`]]);
          return pairs.map(([a, b]) => { const [x, y] = [light(rgb(a)), light(rgb(b))].sort((p, q) => q - p);
            return [a, b, (x + .05) / (y + .05)]; }).filter(([,, ratio]) => ratio < 4.5);
        }"""
    )
    assert poor == []


def test_a_chart_takes_the_colours_of_the_scheme(opened):
    fills = []
    for scheme in ("light", "dark"):
        page, _ = opened("seed", color_scheme=scheme)
        fills.append(page.locator("svg text").first.evaluate("e => getComputedStyle(e).fill"))
    assert len(set(fills)) == 2


def test_print_shows_what_is_folded_away_and_no_navigation(opened):
    page, _ = opened("seed")
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert page.get_by_text("Krippendorff’s alpha, nominal").first.is_visible()
    assert page.pdf()[:4] == b"%PDF"

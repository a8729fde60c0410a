"""The pages in a real browser: at a desk and on a phone, in the dark, by keyboard, without a script, and as numbers change."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from served_study import Served
from told import label, until

from calibrate_plugin.server.access import Access
from calibrate_plugin.server.app import application, guarded

CHROMIUM = Path("/usr/bin/chromium")
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
PAGES = {
    "overview": "/",
    "dimension": "/dimensions/Safety",
    "disagreements": "/disagreements?dimension=Safety",
    "versions": "/versions?dimension=Safety&evaluator=judge",
    "run": "/runs/run%20v1",
    "why": "/why?dimension=Safety",
    "health": "/health",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not CHROMIUM.exists():
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(f"{CHROMIUM} is missing; the pages must be opened in it")
        pytest.skip(f"{CHROMIUM} is missing")
    from playwright.sync_api import sync_playwright

    arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=str(CHROMIUM), args=arguments)
        yield opened
        opened.close()


@pytest.fixture
def address(ready: Served) -> Iterator[str]:
    """The study, served over a real socket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    access = Access()
    app = guarded(application(ready.service, access, working=False), access)
    server = uvicorn.Server(
        uvicorn.Config(app, port=port, log_level="error", access_log=False, timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    yield f"http://localhost:{port}"
    server.should_exit = True
    thread.join(10)


def changed(ready: Served, value: str) -> None:
    ready.people.tell(*(label(f"ann{i}", f"i{i}", "ann", value) for i in range(12)))
    ready.service.store.hint("people", "12")
    ready.turns(lambda: not ready.service.store.hints())


def test_every_page_fits_and_says_nothing_on_the_console(
    ready: Served, address: str, browser: Any, tmp_path: Path
) -> None:
    changed(ready, '"Pass"')
    folder = Path(os.environ.get("CALIBRATE_SCREENSHOTS") or tmp_path)
    for name, size, scheme in (("desk", DESK, "light"), ("phone", PHONE, "dark")):
        context = browser.new_context(viewport=size, color_scheme=scheme)
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda message, said=said: said.append(message.text))
        page.on("pageerror", lambda error, said=said: said.append(str(error)))
        for title, path in PAGES.items():
            page.goto(address + path)
            page.locator("main h1").wait_for()
            until(lambda page=page: "being compared" not in page.content() and "being computed" not in page.content())
            page.screenshot(path=str(folder / f"{title}-{name}.png"), full_page=True)
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], (title, name)
        context.close()
        assert said == []


def test_pages_are_whole_without_a_script(address: str, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert page.locator("table.summary tbody tr").count() >= 4
    page.get_by_role("link", name="Safety").first.click()
    assert page.locator("h1#title").inner_text() == "Safety"
    page.get_by_role("link", name="Look at them").click()
    page.get_by_label("Between").select_option("humans")
    page.get_by_role("button", name="Show").click()
    assert "kind=humans" in page.url and page.locator("tr.group").count() > 0
    context.close()


def test_an_open_page_follows_the_numbers_and_keeps_its_place(ready: Served, address: str, browser: Any) -> None:
    from playwright.sync_api import expect

    page = browser.new_page()
    page.goto(f"{address}/dimensions/Safety")
    expect(page.locator("#live")).to_have_text("Live")
    page.locator("summary", has_text="Other coefficients").click()
    before = page.locator(".card.human dd").first.inner_text()
    changed(ready, '"Fail"')
    expect(page.locator(".card.human dd").first).not_to_have_text(before, timeout=10_000)
    expect(page.locator("#live")).to_contain_text("Updated")
    assert page.locator("details[open] summary", has_text="Other coefficients").count() == 1
    page.close()


def test_everything_is_reached_by_keyboard(address: str, browser: Any) -> None:
    page = browser.new_page()
    page.goto(f"{address}/disagreements")
    seen = set()
    for _ in range(25):
        page.keyboard.press("Tab")
        seen.add(
            page.evaluate(
                "document.activeElement.tagName + ':' + (document.activeElement.textContent || '').trim().slice(0, 12)"
            )
        )
    assert "A:Skip to the " in {s[:14] for s in seen} or any(s.startswith("A:Skip") for s in seen)
    assert any(s.startswith("SELECT") for s in seen) and "BUTTON:Show" in seen and any("CSV" in s for s in seen)
    page.close()


def test_the_calibration_comes_by_itself_and_why_leads_to_the_causes(ready: Served, address: str, browser: Any) -> None:
    from playwright.sync_api import expect

    page = browser.new_page()
    page.goto(f"{address}/dimensions/Safety")
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.locator("article.calibrated")).to_have_count(2)
    ready.people.tell(*(label(f"ann{i}", f"i{i}", "ann", '"Pass"') for i in range(12)))
    ready.service.store.hint("people", "12")
    while ready.service.store.hints():
        ready.worker.step()
    expect(page.locator("#calibrating")).to_contain_text("is being computed", timeout=10_000)
    ready.background.step()
    expect(page.locator("#calibrating")).to_have_count(0, timeout=10_000)
    page.locator(".card.human dt").nth(1).get_by_role("link", name="why?").click()
    cause = page.locator("section.cause")
    expect(cause).to_have_count(1, timeout=10_000)
    expect(cause).to_contain_text("were changed")
    assert "agreement" in cause.locator("h2").inner_text()
    cause.locator("summary").first.click()
    assert "ann" in cause.locator("li").first.inner_text()
    page.close()


def test_without_a_script_the_calibration_is_looked_for_again(ready: Served, address: str, browser: Any) -> None:
    ready.people.tell(label("ann1", "i1", "ann", '"Fail"'))
    ready.service.store.hint("people", "12")
    while ready.service.store.hints():
        ready.worker.step()
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/dimensions/Safety")
    assert page.locator("#calibrating").count() == 1
    ready.background.step()
    page.locator("#calibrating").wait_for(state="detached", timeout=20_000)
    context.close()


def test_a_retry_is_asked_for_on_the_page(ready: Served, address: str, browser: Any) -> None:
    from told import down

    ready.people.down = down()
    ready.service.store.hint("people", "12")
    ready.turns(lambda: (t := ready.service.health.troubles.get("people")) and t.parked)
    page = browser.new_page()
    page.goto(address)
    page.get_by_role("link", name="health", exact=True).click()
    assert "does not answer" in page.content()
    page.get_by_role("button", name="Try again").click()
    page.wait_for_url(f"{address}/health")
    until(lambda: ready.service.asked == {"people"})
    page.close()


def test_a_slow_body_holds_up_nobody(address: str) -> None:
    import httpx

    port = int(address.rpartition(":")[2])
    slow = []
    for _ in range(20):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(b"POST /api/v1/retry HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        slow.append(connection)
    time.sleep(0.2)
    assert httpx.get(f"{address}/api/v1/studies", timeout=5).status_code == 200
    for connection in slow:
        connection.close()

"""Rulings on the page, by a form that needs no script, and through the API."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import uvicorn
from served_study import Served
from test_server_pages import CHROMIUM, browser
from told import label, until

from calibrate_plugin.rulings import read
from calibrate_plugin.server.access import COOKIE, Access
from calibrate_plugin.server.app import application, guarded

__all__ = ["browser"]
READ, WRITE = "read-token-of-the-test", "write-token-of-the-test"
TOKENS = Access(READ, WRITE)
PAGE = "/disagreements?dimension=Safety"
RULING = {
    "item": "i2",
    "dimension": "Safety",
    "value": "Fail",
    "cause": "ambiguous",
    "reason": "it promises a refund",
    "by": "Carol",
}


def signed_in(ready: Served, token: str = WRITE) -> Any:
    client = ready.client(TOKENS)
    answer = client.post("/login", data={"token": token})
    assert answer.status_code == 303
    assert COOKIE in client.cookies
    return client


def form_of(page: str, item: str = "i2") -> dict[str, str]:
    """The hidden fields of an item's form, as a browser would send them."""
    from html import unescape

    for found in re.findall(r"<form method=\"post\" action=\"/disagreements/rule\">.*?</form>", page, re.DOTALL):
        hidden = {k: unescape(v) for k, v in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', found)}
        if hidden["item"] == f'"{item}"':
            return hidden
    raise AssertionError(f"there is no form for {item}")


def ruling(ready: Served, item: str = "i2") -> Any:
    return read(ready.service.store, ready.service.config.study).get((item, "Safety"))


def test_a_disagreement_is_ruled_on_by_the_form_and_seen_at_once(ready: Served) -> None:
    client = signed_in(ready)
    told = {"value": "Fail", "cause": "ambiguous", "reason": "it promises a refund", "by": "Carol"}
    answer = client.post("/disagreements/rule", data=form_of(client.get(PAGE).text) | told)
    assert answer.status_code == 303
    assert answer.headers["location"] == PAGE
    found = ruling(ready)
    assert (found.value, found.cause, found.by) == ("Fail", "ambiguous", "Carol")
    page = client.get(PAGE).text  # the worker has not counted it yet
    assert "it promises a refund" in page
    assert "the guideline can be read two ways, says Carol" in re.sub(r"\s+", " ", page)
    assert "i2<" in client.get(f"{PAGE}&ruling=ambiguous").text
    assert "No answers differ here" in client.get(f"{PAGE}&ruling=judge_mistake").text
    assert "i2<" not in client.get(f"{PAGE}&ruling=open").text


def test_a_ruling_is_taken_back_by_the_form(ready: Served) -> None:
    client = signed_in(ready)
    client.post("/api/v1/rulings", json=RULING, headers={"authorization": f"Bearer {WRITE}"})
    answer = client.post("/disagreements/rule", data=form_of(client.get(PAGE).text) | {"clear": "yes"})
    assert answer.status_code == 303
    assert ruling(ready) is None


def test_what_cannot_be_meant_is_told_and_nothing_that_was_typed_is_lost(ready: Served) -> None:
    client = signed_in(ready)
    told = {"value": "Perhaps", "cause": "ambiguous", "reason": "<b>long & thought out</b>", "by": "Carol"}
    answer = client.post("/disagreements/rule", data=form_of(client.get(PAGE).text) | told)
    assert answer.status_code == 400
    assert "is no answer on Safety; there are: Pass, Fail" in answer.text
    assert "&lt;b&gt;long &amp; thought out&lt;/b&gt;" in answer.text
    assert 'value="Carol"' in answer.text
    again = form_of(answer.text) | told | {"value": "Pass"}
    assert client.post("/disagreements/rule", data=again).status_code == 303
    assert ruling(ready).value == "Pass"


def test_a_form_of_somebody_elses_page_writes_nothing(ready: Served) -> None:
    client = signed_in(ready)
    right = form_of(client.get(PAGE).text) | {k: RULING[k] for k in ("value", "cause", "reason", "by")}
    for wrong in (right | {"proof": ""}, right | {"proof": "0" * 64}):
        assert client.post("/disagreements/rule", data=wrong).status_code == 403
    for headers in ({"origin": "https://evil.example.com"}, {"sec-fetch-site": "cross-site"}):
        assert client.post("/disagreements/rule", data=right, headers=headers).status_code == 403
    assert ruling(ready) is None


def test_a_reader_sees_rulings_and_no_form(ready: Served) -> None:
    writer, reader = signed_in(ready), signed_in(ready, READ)
    writer.post("/api/v1/rulings", json=RULING, headers={"authorization": f"Bearer {WRITE}"})
    hidden = form_of(writer.get(PAGE).text)
    page = reader.get(PAGE).text
    assert "it promises a refund" in page
    assert "/disagreements/rule" not in page
    assert reader.post("/disagreements/rule", data=hidden | {"clear": "yes"}).status_code == 403
    assert ruling(ready) is not None


def test_the_proof_in_a_remembered_page_is_that_of_whoever_looks(ready: Served) -> None:
    first, second = signed_in(ready), signed_in(ready)
    proofs = {form_of(client.get(PAGE).text)["proof"] for client in (first, second, first)}
    assert len(proofs) == 2


@pytest.mark.parametrize(
    "back", ["https://evil.example.com", "//evil.example.com", "/disagreementsx", "/disagreements?a\r\nx: y"]
)
def test_the_form_leads_nowhere_else(ready: Served, back: str) -> None:
    client = signed_in(ready)
    told = {k: RULING[k] for k in ("value", "cause", "reason", "by")} | {"back": back}
    answer = client.post("/disagreements/rule", data=form_of(client.get(PAGE).text) | told)
    assert answer.headers["location"] == "/disagreements"


def test_the_name_that_a_proxy_gives_stands_in_the_form(ready: Served) -> None:
    client = ready.client(Access(proxy_header="X-Forwarded-User"))
    page = client.get(PAGE, headers={"x-forwarded-user": 'carol" onfocus="x'}).text
    assert 'value="carol&#34; onfocus=&#34;x"' in page


def test_an_item_of_any_letters_can_be_ruled_on(served: Served) -> None:
    item = 'a "quoted"\t<item> \\ é\u202e&amp;'
    served.people.tell(label("x1", item, "ann", '"Pass"'), label("x2", item, "ben", '"Fail"'))
    served.turns(lambda: served.service.state and served.service.state.number >= 2)
    client = signed_in(served)
    page = client.get(f"{PAGE}&kind=humans").text
    from html import unescape
    from json import loads

    keys = [loads(unescape(k)) for k in re.findall(r'name="item" value="([^"]*)"', page)]
    assert item in keys
    hidden = next(
        {k: unescape(v) for k, v in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)}
        for form in re.findall(r"<form method=\"post\" action=\"/disagreements/rule\">.*?</form>", page, re.DOTALL)
        if "quoted" in form
    )
    told = {"value": "Fail", "cause": "ambiguous", "reason": "r", "by": "Carol"}
    assert client.post("/disagreements/rule", data=hidden | told).status_code == 303
    assert ruling(served, item).value == "Fail"


def test_the_api_writes_lists_counts_and_clears(ready: Served) -> None:
    client = ready.client(TOKENS)
    writes, reads = ({"authorization": f"Bearer {t}"} for t in (WRITE, READ))
    assert client.post("/api/v1/rulings", json=RULING, headers=reads).status_code == 403
    first = client.post("/api/v1/rulings", json=RULING, headers=writes)
    assert first.json() == {"sync_number": ready.service.store.latest()}
    (found,) = client.get("/api/v1/rulings?dimension=Safety&cause=ambiguous", headers=reads).json()
    assert {k: found[k] for k in RULING} == RULING
    assert client.get("/api/v1/rulings?dimension=Empathy", headers=reads).json() == []
    counts = client.get("/api/v1/causes", headers=reads).json()
    assert counts["Safety"] == {"guideline_silent": 0, "ambiguous": 1, "annotator_mistake": 0, "judge_mistake": 0}
    gone = {"item": "i2", "dimension": "Safety"}
    assert client.post("/api/v1/rulings/clear", json=gone, headers=writes).status_code == 200
    assert client.post("/api/v1/rulings/clear", json=gone, headers=writes).status_code == 400
    assert client.get("/api/v1/rulings", headers=reads).json() == []


@pytest.mark.parametrize(
    ("wrong", "status", "said"),
    [
        ({"value": "Maybe"}, 400, "there are: Pass, Fail"),
        ({"item": "nowhere"}, 400, "no label is of the item"),
        ({"cause": "fate"}, 400, "is no cause"),
        ({"reason": ""}, 400, "the reason is missing"),
        ({"by": 7}, 422, ""),
    ],
)
def test_the_api_says_what_is_wrong(ready: Served, wrong: dict[str, Any], status: int, said: str) -> None:
    answer = ready.client().post("/api/v1/rulings", json=RULING | wrong)
    assert answer.status_code == status
    assert said in answer.text


def test_the_api_document_names_the_rulings(ready: Served) -> None:
    paths = ready.client().get("/api/v1/openapi.json").json()["paths"]
    assert {"/api/v1/rulings", "/api/v1/rulings/clear", "/api/v1/causes"} <= set(paths)
    assert not any("disagreements/rule" in path for path in paths)


def test_while_somebody_works_on_the_store_the_form_says_so_and_keeps_what_was_typed(
    ready: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibrate_plugin.server.rulings.WAIT", 0.0)
    client = signed_in(ready)
    told = form_of(client.get(PAGE).text) | {k: RULING[k] for k in ("value", "cause", "reason", "by")}
    with _worked_on(ready):
        answer = client.post("/disagreements/rule", data=told)
        program = client.post("/api/v1/rulings", json=RULING, headers={"authorization": f"Bearer {WRITE}"})
    assert answer.status_code == program.status_code == 503
    assert "it promises a refund" in answer.text
    assert program.headers["retry-after"] == "10"


@contextmanager
def _worked_on(ready: Served) -> Iterator[None]:
    """Another thread holds the store, as a pull does."""
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with ready.service.store.work(wait=10):
            held.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(10)
    try:
        yield
    finally:
        done.set()
        thread.join()


# --- in a browser


@pytest.fixture
def address(ready: Served) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = guarded(application(ready.service, Access(), working=False), Access())
    server = uvicorn.Server(
        uvicorn.Config(app, port=port, log_level="error", access_log=False, timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.mark.parametrize("script", [False, True], ids=["without a script", "with it"])
@pytest.mark.parametrize("width", [1280, 360])
def test_a_person_rules_on_a_disagreement_in_the_page(
    browser: Any, address: str, ready: Served, script: bool, width: int
) -> None:
    assert CHROMIUM.exists()
    context = browser.new_context(java_script_enabled=script, viewport={"width": width, "height": 800})
    page = context.new_page()
    page.goto(f"{address}{PAGE}&kind=humans")
    first = page.locator("table.answers tbody").first
    item = first.locator("tr.group th").inner_text().split()[0]
    first.locator("summary").click()
    first.get_by_label("The right answer").select_option("Fail")
    first.get_by_label("Why the answers differ").select_option("guideline_silent")
    first.get_by_label("Reason").fill("nobody wrote <b>this</b> down")
    first.get_by_label("Who rules").fill("Carol")
    if script:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    first.get_by_role("button", name="Rule").click()
    page.wait_for_load_state()
    assert urlsplit(page.url).path == "/disagreements"
    assert parse_qs(urlsplit(page.url).query)["kind"] == ["humans"]
    assert page.get_by_text("nobody wrote <b>this</b> down").first.is_visible()
    assert ruling(ready, item).cause == "guideline_silent"
    page.get_by_label("Ruling", exact=True).select_option("open")
    page.get_by_role("button", name="Show").click()
    page.wait_for_load_state()
    assert item not in [t.split()[0] for t in page.locator("tr.group th").all_inner_texts()]
    context.close()


def test_new_numbers_do_not_wipe_out_a_ruling_that_is_being_written(browser: Any, address: str, ready: Served) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{address}{PAGE}&kind=humans")
    page.locator("#live", has_text="Live").wait_for()
    first = page.locator("table.answers tbody").first
    first.locator("summary").click()
    first.get_by_label("Reason").fill("half a thought")
    page.locator("h1.page").click()
    ready.people.tell(label("new", "i0", "cem", '"Fail"'))
    ready.service.ask()
    ready.turns(lambda: any(r.name == "cem" for d in ready.service.state.report.dimensions for r in d.raters))
    page.locator("#live", has_text="There are new numbers").wait_for()
    assert first.get_by_label("Reason").input_value() == "half a thought"
    context.close()


@pytest.mark.parametrize("path", ["/disagreements/rule", "/login", "/retry"])
def test_a_form_with_more_fields_than_any_of_ours_is_refused(ready: Served, path: str) -> None:
    answer = signed_in(ready).post(path, data={f"field{n}": "x" for n in range(40)})
    assert (answer.status_code, answer.json()) == (400, {"detail": "a form of this service has at most 20 fields"})

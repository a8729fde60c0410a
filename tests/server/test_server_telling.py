"""Alerts from the service: told once, after the calibration that they may need, by nobody who anybody waits for."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
import responses
from served_study import SECRET, Served
from told import down, label

from calibrate_plugin import alerts, cycle
from calibrate_plugin.config import load
from calibrate_plugin.server.background import Background, Post
from calibrate_plugin.store import Store
from calibrate_plugin.store.outbox import Outbox

HOOK = "https://alerts.example.com/in"
ALERTS = """
[alerts]
webhook = "HOOK_URL"
secret = "HOOK_SECRET"
clear_after = 1
quiet_minutes = 0

[gate]
rules = ["Safety: annotators.agreement.lower >= 0.5", "Safety: judge.coverage >= 0.99"]
"""


@pytest.fixture
def telling(served: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    monkeypatch.setenv("HOOK_URL", HOOK)
    monkeypatch.setenv("HOOK_SECRET", "whsec_" + base64.b64encode(b"a secret of 24 bytes....").decode())
    config = served.service.config
    config.path.write_text(config.path.read_text() + ALERTS)
    served.service.config = load(config.path)
    agree(served, True)
    settled(served)
    assert titles(served) == []
    return served


@pytest.fixture
def receiver() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


def agree(served: Served, agrees: bool) -> None:
    for n in range(12):
        answer = '"Pass"' if n % 2 else '"Fail"'
        other = '"Fail"' if n % 2 else '"Pass"'
        served.people.tell(label(f"ann{n}", f"i{n}", "ann", answer))
        served.people.tell(label(f"ben{n}", f"i{n}", "ben", answer if agrees else other))


def settled(served: Served) -> None:
    """Everything that is known is pulled, counted, calibrated and looked at."""
    service = served.service
    service.store.hint("people", "12")
    served.turns(
        lambda: (
            service.state
            and service.state.number >= 2
            and not service.store.hints()
            and service.calibrations.current(service.state)
        )
    )
    served.background.step()


def live(served: Served) -> list[str]:
    """The versions of the judge that are live."""
    return [e.version for e in served.service.state.report.dimensions[0].evaluators if e.live]


def titles(served: Served, *, delivered: bool = False) -> list[str]:
    waiting = Outbox(served.service.store).listed(delivered=delivered)
    return [f"{e['state']} {e['kind']}: {e['title']}" for one in waiting for e in one.body["data"]["events"]]


def test_a_crossing_is_told_once_and_when_it_is_over(telling: Served) -> None:
    agree(telling, False)
    settled(telling)
    told = titles(telling)
    assert sum("annotators.agreement.lower >= 0.5 does not hold" in t for t in told) == 1, told
    assert any(t.startswith("raised disagreements: Safety: 12 of 12") for t in told), told
    for _ in range(3):
        settled(telling)
    assert titles(telling) == told, "what stands is told once"
    agree(telling, True)
    settled(telling)
    assert any(t.startswith("over gate") for t in titles(telling)[len(told) :])


def test_a_rule_about_a_judge_is_checked_with_its_calibration(telling: Served) -> None:
    telling.judges.tell(label("v10", "i0", "judge", None, kind="evaluator", version="v1", run="run v1"))
    telling.judges.tell(label("v20", "i0", "judge", None, kind="evaluator", version="v2", run="run v2"))
    path = telling.service.config.path
    path.write_text(path.read_text().replace('file = "judges.csv"', 'file = "judges.csv"\nlive = { judge = "v2" }'))
    telling.service.ask()
    telling.turns(lambda: telling.service.state.number >= 3)
    settled(telling)
    assert [t for t in titles(telling) if "judge.coverage >= 0.99 does not hold" in t], titles(telling)


def test_another_live_version_is_told_by_the_command_and_the_service_together_once(telling: Served) -> None:
    path, service = telling.service.config.path, telling.service
    text = path.read_text()
    for version in ("v1", "v2"):
        path.write_text(text.replace('file = "judges.csv"', f'file = "judges.csv"\nlive = {{ judge = "{version}" }}'))
        service.ask()
        telling.turns(lambda v=version: live(telling) == [v])
        settled(telling)
        # `run` works on the same store meanwhile, and tells by itself
        config = load(path)
        with Store(config.store) as store:
            made = cycle.turn(store, config, {"people": telling.people, "judges": telling.judges}, pushing=False)
            found = alerts.events(store, config, made)
            alerts.raise_events(store, config, found, store.now())
        telling.turns(lambda: not service.asked)
        settled(telling)
    changed = [t for t in titles(telling) if "the live version of judge is v2; it was v1" in t]
    assert len(changed) == 1, changed


def test_a_source_that_cannot_be_read_is_told_when_it_is_parked_and_when_it_is_read_again(telling: Served) -> None:
    telling.people.down = down()
    telling.service.store.hint("people", "12")
    telling.turns(lambda: "people" in telling.service.health.troubles)
    telling.background.step()
    assert titles(telling) == [], "it is tried again; that is no news"
    telling.turns(lambda: telling.service.health.troubles["people"].parked)
    telling.background.step()
    (told,) = titles(telling)
    assert told == "raised sync: people was not read to the end (failed)"
    telling.people.down = None
    telling.service.ask("people")
    settled(telling)
    assert titles(telling)[-1].startswith("over sync")


def test_what_a_service_that_ended_did_not_look_at_the_next_one_does(telling: Served) -> None:
    path = telling.service.config.path
    text = path.read_text()
    path.write_text(text.replace('file = "judges.csv"', 'file = "judges.csv"\nlive = { judge = "v1" }'))
    telling.service.ask()
    telling.turns(lambda: live(telling) == ["v1"])
    settled(telling)
    path.write_text(text.replace('file = "judges.csv"', 'file = "judges.csv"\nlive = { judge = "v2" }'))
    telling.service.ask()
    while live(telling) != ["v2"] or {"people", "judges", ""} & telling.service.asked:
        telling.worker.step()
    telling.people.tell(label("ann1", "i1", "ann", '"Fail"'))  # a later report, in which the version is no news
    telling.service.store.hint("people", "12")
    while telling.service.store.hints():
        telling.worker.step()
    telling.background = Background(telling.service)
    settled(telling)
    assert any("the live version of judge is v2; it was v1" in t for t in titles(telling)), titles(telling)


def test_a_receiver_that_hangs_delays_neither_turns_nor_webhooks(
    telling: Served, receiver: responses.RequestsMock
) -> None:
    from calibrate_label_studio.webhooks import HEADER

    answers: list[Any] = []

    def hangs(request: Any) -> tuple[int, dict[str, str], str]:
        client = telling.client()
        answers.append(client.post("/webhooks/people?project=12", headers={HEADER: SECRET}).status_code)
        telling.people.tell(label("ann1", "i1", "ann", '"Pass"'))
        telling.turns(lambda: not telling.service.store.hints())
        answers.append(client.get("/").status_code)
        return 503, {}, ""

    receiver.add_callback(responses.POST, HOOK, hangs)
    agree(telling, False)
    settled(telling)
    Post(telling.service).step()
    assert answers == [202, 200]
    (waiting,) = [a for a in telling.service.told()["alerts"] if not a["delivered"]][:1]
    assert waiting["error"] == "webhook: answered 503" and waiting["tries"] == 1
    page = telling.client().get("/health").text
    assert "answered 503" in page and HOOK not in page
    assert "calibrate_alerts_waiting 1.0" in telling.client().get("/metrics").text


def test_what_is_delivered_is_shown(telling: Served, receiver: responses.RequestsMock) -> None:
    receiver.post(HOOK, status=200)
    agree(telling, False)
    settled(telling)
    Post(telling.service).step()
    assert titles(telling) == [] and len(titles(telling, delivered=True)) >= 2
    sent = json.loads(receiver.calls[0].request.body)
    assert sent["data"]["study"] == "support"
    page = telling.client().get("/health").text
    assert "delivered" in page and "annotators.agreement.lower &gt;= 0.5 does not hold" in page


def test_a_rule_that_is_none_is_shown_and_keeps_nothing_else_back(telling: Served) -> None:
    path = telling.service.config.path
    path.write_text(path.read_text().replace("judge.coverage >= 0.99", "judge.beauty >= 1"))
    telling.people.tell(label("ann1", "i1", "ann", '"Fail"'))
    settled(telling)
    trouble = telling.service.health.troubles["alerts"]
    assert trouble.parked and "beauty" in trouble.message
    assert telling.client().get("/").status_code == 200

"""Alerts: told once, never in a storm, never lost, with why and a link, and signed."""

from __future__ import annotations

import base64
import copy
import hashlib
import hmac
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import requests
import responses
import tomlkit
from changing_study import SETTINGS, World
from click.testing import CliRunner

from calibrate_plugin import alerts, cycle
from calibrate_plugin.cli import main
from calibrate_plugin.config import read
from calibrate_plugin.connector import SettingsError, Unavailable
from calibrate_plugin.cycle import Turn
from calibrate_plugin.store.outbox import Outbox

SLACK, HOOK = "https://hooks.example.com/services/T0/B0/hidden", "https://alerts.example.com/in"
SECRET = base64.b64encode(b"a secret of 24 bytes....").decode()
ENVIRONMENT = {"SLACK_URL": SLACK, "HOOK_URL": HOOK, "HOOK_SECRET": f"whsec_{SECRET}"}
ALERTS: dict[str, Any] = {"slack": "SLACK_URL", "webhook": "HOOK_URL", "secret": "HOOK_SECRET"}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def receiver() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


def settle(world: World, **given: Any) -> None:
    table = {**ALERTS, **given}
    document = {**copy.deepcopy(SETTINGS), "alerts": {k: v for k, v in table.items() if v is not None}}
    document["gate"] = {"rules": ["Safety: judge.kappa.lower >= 0.4"]}
    world.settle(document)


def judged(world: World, right: int) -> None:
    """Twenty replies of which the judge gets so many as the people did."""
    for n in range(20):
        answer, other = ('"Pass"', '"Fail"') if n % 2 else ('"Fail"', '"Pass"')
        for who in ("ann", "ben"):
            world.say(f"{who}{n}", f"i{n}", who, answer)
        link = f"https://langfuse.example.com/{n}"
        said = answer if n < right else other
        world.say(f"j{n}", f"i{n}", "judge", said, kind="evaluator", version="v1", run="r", link=link)


def turn(world: World) -> Turn:
    return cycle.turn(
        world.store, world.config, {"people": world.people, "judges": world.judges}, accept_deletions=True
    )


def told(world: World, receiver: responses.RequestsMock, made: Turn | None = None) -> list[list[dict[str, Any]]]:
    """The events of each message that reached the signed webhook in this turn."""
    before = len(receiver.calls)
    alerts.after(world.store, world.config, made or turn(world))
    sent = [c.request for c in list(receiver.calls)[before:] if c.request.url == HOOK]
    return [json.loads(r.body)["data"]["events"] for r in sent]


def later(world: World, **passed: float) -> None:
    world.clock.time += timedelta(**passed)


def open_receivers(receiver: responses.RequestsMock) -> None:
    receiver.post(SLACK, body="ok")
    receiver.post(HOOK, status=204)


def test_a_crossing_is_told_once_with_why_and_a_link(world: World, receiver: responses.RequestsMock) -> None:
    open_receivers(receiver)
    settle(world)
    judged(world, 20)
    assert told(world, receiver) == [], "a rule that holds is no news"
    judged(world, 8)
    ((event,),) = ([e for e in m if e["kind"] == "gate"] for m in told(world, receiver))
    assert event["state"] == "raised"
    assert "judge.kappa.lower >= 0.4 does not hold" in event["title"]
    assert event["why"] == ["12 scores of judge were changed on 12 items"]
    assert event["link"] == "https://langfuse.example.com/8"
    later(world, hours=5)
    assert told(world, receiver) == [], "it still stands, so it is not told again"


def test_it_is_over_only_after_it_was_well_twice(world: World, receiver: responses.RequestsMock) -> None:
    open_receivers(receiver)
    settle(world, on=["gate"])
    judged(world, 8)
    assert len(told(world, receiver)) == 1
    later(world, hours=2)
    judged(world, 20)
    assert told(world, receiver) == []
    ((event,),) = told(world, receiver)
    assert event["state"] == "over"


def test_what_flaps_within_the_quiet_time_is_told_at_most_once(world: World, receiver: responses.RequestsMock) -> None:
    open_receivers(receiver)
    settle(world, on=["gate"], clear_after=1)
    sent = 0
    for n in range(20):
        judged(world, 8 if n % 2 == 0 else 20)
        sent += len(told(world, receiver))
        later(world, minutes=1)
    assert sent == 1
    later(world, hours=1)  # what it came to meanwhile is told once the quiet time has passed
    assert [[e["state"] for e in m] for m in told(world, receiver)] == [["over"]]


def test_all_that_comes_up_in_one_turn_is_one_message(world: World, receiver: responses.RequestsMock) -> None:
    open_receivers(receiver)
    settle(world)
    judged(world, 20)
    told(world, receiver)
    judged(world, 2)
    for n in range(20):
        world.judges.rows[f"j{n}"]["version"] = "v2"
    (message,) = told(world, receiver)
    assert sorted(e["kind"] for e in message) == ["disagreements", "gate", "version"]
    assert "18 of 20 items compared since the last report have a disagreement (90%)" in str(message)
    assert "the live version of judge is v2; it was v1" in str(message)


def test_a_model_that_was_swapped_under_the_same_version_is_told_once(
    world: World, receiver: responses.RequestsMock
) -> None:
    open_receivers(receiver)
    settle(world, on=["version"])
    judged(world, 20)
    world.judges.facts = [(f"i{n}", "model: judge", "small") for n in range(20)]
    assert told(world, receiver) == [], "the first model is no news"
    for n in range(10):
        world.judges.rows[f"j{n}"]["value"] = '"Pass"'
    world.judges.facts = [(f"i{n}", "model: judge", "large" if n < 10 else "small") for n in range(20)]
    ((event,),) = told(world, receiver)
    assert event["title"] == "judges: the model behind judge is large; it was small"
    assert "the model behind judge changed from small to large without a new version" in str(event["why"])
    assert told(world, receiver) == []
    world.judges.facts[15] = ("i15", "model: judge", "large")
    assert told(world, receiver) == []


def test_a_source_in_trouble_is_told_and_its_end_too(world: World, receiver: responses.RequestsMock) -> None:
    open_receivers(receiver)
    settle(world, on=["sync"], clear_after=1)
    judged(world, 20)

    class Broken:
        def pull(self, since: Any = None) -> Any:
            raise Unavailable("judges: the server does not answer")
            yield

    made = cycle.turn(world.store, world.config, {"people": world.people, "judges": Broken()})
    ((event,),) = told(world, receiver, made)
    assert event["title"] == "judges was not read to the end (failed)"
    assert event["why"] == ["judges: the server does not answer"]
    later(world, hours=2)
    assert [[e["state"] for e in m] for m in told(world, receiver)] == [["over"]]


def test_a_webhook_is_signed_as_standard_webhooks_asks(world: World, receiver: responses.RequestsMock) -> None:
    open_receivers(receiver)
    settle(world, on=["gate"])
    judged(world, 8)
    told(world, receiver)
    request = next(c.request for c in receiver.calls if c.request.url == HOOK)
    content = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.{request.body.decode()}"
    wanted = hmac.new(base64.b64decode(SECRET), content.encode(), hashlib.sha256).digest()
    assert request.headers["webhook-signature"] == f"v1,{base64.b64encode(wanted).decode()}"
    assert abs(int(request.headers["webhook-timestamp"]) - world.clock.time.timestamp()) < 60
    assert request.req_kwargs["verify"], "a certificate is always checked"
    assert request.req_kwargs["timeout"] == alerts.TIMEOUT


DOWN = [
    {"body": requests.exceptions.ConnectionError("refused")},
    {"body": requests.exceptions.ReadTimeout("slow")},
    {"body": requests.exceptions.SSLError("certificate verify failed")},
    {"status": 429, "headers": {"Retry-After": "120"}},
    {"status": 503},
    {"status": 404},
    {"status": 302, "headers": {"Location": "https://elsewhere.example.com/"}},
]


@pytest.mark.parametrize("down", DOWN, ids=["refused", "slow", "certificate", "429", "503", "404", "redirect"])
def test_a_receiver_that_is_down_for_an_hour_gets_every_message_once_and_in_order(
    world: World, receiver: responses.RequestsMock, down: dict[str, Any]
) -> None:
    settle(world, on=["gate"], slack=None, clear_after=1)
    failing = receiver.post(HOOK, **down)
    judged(world, 8)
    assert alerts.after(world.store, world.config, turn(world))[0].error.startswith("webhook")
    tries = 0
    for _ in range(60):
        later(world, minutes=1)
        waiting = alerts.deliver(world.store, world.config)
        assert len(waiting) == 1
    tries = sum(c.request.url == HOOK for c in receiver.calls)
    assert 3 <= tries <= 8, "it is tried again, ever less often"
    later(world, minutes=10)
    judged(world, 20)  # meanwhile it is over
    alerts.after(world.store, world.config, turn(world))
    receiver.remove(failing)
    receiver.post(HOOK, status=200)
    seen = tries = len(receiver.calls)
    for _ in range(120):
        later(world, minutes=1)
        alerts.deliver(world.store, world.config)
    sent = [json.loads(c.request.body)["data"]["events"][0]["state"] for c in list(receiver.calls)[seen:]]
    assert sent == ["raised", "over"]
    ids = [c.request.headers["webhook-id"] for c in receiver.calls]
    assert len(set(ids)) == 2, "every try of a message has its id"
    assert Outbox(world.store).listed(delivered=False) == []
    assert [m.tries for m in Outbox(world.store).listed(delivered=True)][1] == tries + 1


def test_a_429_is_not_tried_before_the_time_it_asks_for(world: World, receiver: responses.RequestsMock) -> None:
    settle(world, on=["gate"], slack=None)
    receiver.post(HOOK, status=429, headers={"Retry-After": "1800"})
    judged(world, 8)
    alerts.after(world.store, world.config, turn(world))
    for _ in range(29):
        later(world, minutes=1)
        alerts.deliver(world.store, world.config)
    assert len(receiver.calls) == 1


def test_slack_is_not_told_again_within_the_quiet_time_where_a_try_may_have_arrived(
    world: World, receiver: responses.RequestsMock
) -> None:
    settle(world, on=["gate"], webhook=None, secret=None)
    receiver.post(SLACK, body=requests.exceptions.ReadTimeout("slow"))
    judged(world, 8)
    alerts.after(world.store, world.config, turn(world))
    for _ in range(58):
        later(world, minutes=1)
        alerts.deliver(world.store, world.config)
    assert len(receiver.calls) == 1


def test_one_channel_that_is_down_keeps_nothing_from_the_other(world: World, receiver: responses.RequestsMock) -> None:
    settle(world, on=["gate"])
    receiver.post(SLACK, status=500)
    receiver.post(HOOK, status=200)
    judged(world, 8)
    (waiting,) = alerts.after(world.store, world.config, turn(world))
    assert waiting.channel == "slack"


def test_a_message_outlives_the_process(world: World, receiver: responses.RequestsMock) -> None:
    from calibrate_plugin.store import Store

    settle(world, on=["gate"], slack=None)
    failing = receiver.post(HOOK, status=500)
    judged(world, 8)
    alerts.after(world.store, world.config, turn(world))
    world.store.close()
    receiver.remove(failing)
    receiver.post(HOOK, status=200)
    later(world, hours=1)
    with Store(world.config.store, now=world.clock) as again:
        assert alerts.deliver(again, world.config) == []


def test_urls_and_secrets_are_never_kept_shown_or_put_in_an_error(
    world: World, receiver: responses.RequestsMock
) -> None:
    settle(world, on=["gate"])
    receiver.post(SLACK, body=requests.exceptions.ConnectionError(f"cannot reach {SLACK}"))
    receiver.post(HOOK, status=500, body=SLACK)
    judged(world, 8)
    alerts.after(world.store, world.config, turn(world))
    world.path.write_text(tomlkit.dumps({**SETTINGS, "alerts": ALERTS}))
    shown = CliRunner().invoke(main, ["alerts", "-c", str(world.path)])
    assert shown.exit_code == 1
    everything = repr(shown.output) + repr(Outbox(world.store).listed(delivered=False))
    assert "hidden" not in everything and SECRET not in everything
    with pytest.raises(SettingsError) as refused:
        read({**SETTINGS, "alerts": {"slack": SLACK}}, world.path)
    assert "alerts.slack does not name an environment variable" in str(refused.value)
    assert "hidden" not in str(refused.value)
    with pytest.raises(SettingsError, match=r"alerts\.secret is missing"):
        read({**SETTINGS, "alerts": {"webhook": "HOOK_URL"}}, world.path)


def test_a_url_that_is_not_set_is_said_and_the_message_waits(
    world: World, receiver: responses.RequestsMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(world, on=["gate"], slack=None)
    monkeypatch.delenv("HOOK_URL")
    judged(world, 8)
    (waiting,) = alerts.after(world.store, world.config, turn(world))
    assert waiting.error == "the environment variable HOOK_URL with the url of alerts.webhook is not set"


def test_names_are_not_obeyed_by_slack() -> None:
    event = {
        "state": "raised",
        "title": "<!channel> *x* a&b",
        "why": ["<@U1>"],
        "link": "https://a.example.com/?q=a|b>c",
    }
    text = alerts.slack_text({"data": {"study": "s", "events": [event]}})
    assert "<!channel>" not in text and "<@U1>" not in text
    assert "<https://a.example.com/?q=a%7Cb%3Ec|look at it>" in text


def test_the_command_sends_a_test_message(world: World, receiver: responses.RequestsMock) -> None:
    open_receivers(receiver)
    world.path.write_text(tomlkit.dumps({**SETTINGS, "alerts": ALERTS}))
    assert (
        "nothing was told yet, and nothing waits" in CliRunner().invoke(main, ["alerts", "-c", str(world.path)]).output
    )
    shown = CliRunner().invoke(main, ["alerts", "-c", str(world.path), "--test"])
    assert shown.exit_code == 0, shown.output
    assert shown.output.count("this is a test") == 2
    assert {c.request.url for c in receiver.calls} == {SLACK, HOOK}


def test_two_processes_that_find_the_same_at_once_tell_it_once(
    world: World, receiver: responses.RequestsMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_receivers(receiver)
    settle(world, on=["gate"], slack=None)
    judged(world, 8)
    made = turn(world)
    found = alerts.events(world.store, world.config, made)
    standing, others = Outbox.standing, iter([True])

    def and_then_somebody_else(box: Outbox) -> Any:
        known = standing(box)
        if next(others, False):
            assert alerts.raise_events(world.store, world.config, found, world.store.now()) is not None
        return known

    monkeypatch.setattr(Outbox, "standing", and_then_somebody_else)
    assert alerts.raise_events(world.store, world.config, found, world.store.now()) is None
    assert len(Outbox(world.store).listed(delivered=False)) == 1


def test_a_message_is_tried_by_one_process_at_a_time_and_holds_up_no_work(
    world: World, receiver: responses.RequestsMock
) -> None:
    from calibrate_plugin.store import Store

    settle(world, on=["gate"], slack=None)
    judged(world, 8)
    made = turn(world)
    alerts.raise_events(world.store, world.config, alerts.events(world.store, world.config, made), world.store.now())

    def while_it_is_sent(request: Any) -> tuple[int, dict[str, str], str]:
        with Store(world.config.store, now=world.clock) as other, other.work(wait=0):
            assert [w.tries for w in alerts.deliver(other, world.config)] == [0], "the other one leaves it alone"
        return 200, {}, ""

    receiver.add_callback(responses.POST, HOOK, while_it_is_sent)
    assert alerts.deliver(world.store, world.config) == []
    assert len(receiver.calls) == 1


def test_what_a_process_was_trying_when_it_ended_is_tried_by_another_one(
    world: World, receiver: responses.RequestsMock
) -> None:
    settle(world, on=["gate"], slack=None)
    judged(world, 8)
    made = turn(world)
    alerts.raise_events(world.store, world.config, alerts.events(world.store, world.config, made), world.store.now())
    box = Outbox(world.store)
    (one,) = box.due(world.store.now())
    assert box.claim(one, world.store.now() + alerts.CLAIM) and not box.claim(one, world.store.now())
    receiver.post(HOOK, status=200)
    assert len(alerts.deliver(world.store, world.config)) == 1 and len(receiver.calls) == 0
    later(world, minutes=3)
    assert alerts.deliver(world.store, world.config) == [] and len(receiver.calls) == 1

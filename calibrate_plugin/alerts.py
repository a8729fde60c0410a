"""Telling people when something needs them: a rule of the gate that no longer holds, many new disagreements, another judge
version, a source that cannot be read.

No storms: what stands is told once, all that came up in one turn is one message, something must be well ``clear_after`` times in a
row before it is over, and nothing is told twice within ``quiet_minutes``; what changes meanwhile is told when they have passed.
Messages wait in the store until they are delivered. Every try has the same id, so a receiver can tell that it has it already.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import logging
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import polars as pl
import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from calibrate_plugin import gate, history
from calibrate_plugin.config import AlertsTable, Config
from calibrate_plugin.connector import SettingsError
from calibrate_plugin.cycle import Turn
from calibrate_plugin.model import MODEL_FACT
from calibrate_plugin.report.build import item_agreement
from calibrate_plugin.report.display import clip, visible, web_link
from calibrate_plugin.store import Store
from calibrate_plugin.store.outbox import Outbox, Standing, Waiting
from calibrate_plugin.why import explain

log = logging.getLogger(__name__)

TIMEOUT = (5, 10)  # seconds to connect, and to wait for the answer
FIRST, LONGEST = timedelta(minutes=1), timedelta(hours=1)  # between two tries
CLAIM = timedelta(minutes=2)  # longer than any try takes
TURNS = 5  # how often it is decided anew because another process decided too
FEWEST = 5  # items compared since the last report before their rate of disagreement says anything
TOLD = 3  # causes named under an alert


@dataclass(frozen=True, slots=True)
class Event:
    """Something that is well (``raised`` False) or not; ``key`` names it from one turn to the next."""

    key: str
    kind: str
    raised: bool
    title: str
    why: tuple[str, ...] = ()
    link: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


def after(store: Store, config: Config, turn: Turn) -> list[Waiting]:
    """What a turn gives to tell, told. Returns what still waits to be delivered."""
    if not channels(config.alerts):
        return []
    raise_events(store, config, events(store, config, turn), store.now())
    return deliver(store, config)


def channels(settings: AlertsTable) -> list[str]:
    """To whom alerts go."""
    return [name for name in ("slack", "webhook") if getattr(settings, name) is not None]


# --- what there is to tell


def events(store: Store, config: Config, turn: Turn, before: history.Moment | None = None) -> list[Event]:
    """Everything that a turn shows to be well or not, of the kinds that were asked for. ``before``: the kept report that it is
    compared with (None: the one before the last)."""
    asked, found = config.alerts.on, []
    before = before or history.previous(store)
    if "sync" in asked:
        found += [
            Event(
                f"sync\x1f{o.source}",
                "sync",
                o.outcome != "ok",
                f"{o.source} was not read to the end ({o.outcome})",
                (o.message,) if o.message else (),
            )
            for o in turn.outcomes
        ]
    if "gate" in asked and config.gate.rules:
        rules = gate.rules_of(config.gate.rules, config.study)
        earlier = None if before is None else json.loads(_kept(store, before))
        outcomes = gate.check(turn.report, rules, baseline=earlier)
        for o in outcomes:
            if o.outcome != "undefined":  # what cannot be told neither raises nor clears
                key = "\x1f".join(("gate", o.rule.text, o.dimension, o.judge or ""))
                found.append(
                    Event(
                        key,
                        "gate",
                        o.outcome == "failed",
                        o.sentence,
                        detail={"dimension": o.dimension, "judge": o.judge},
                    )
                )
    if before is not None:
        if "version" in asked:
            found += _versions(store, json.loads(_kept(store, before)), turn)
            found += _models(store, before)
        if "disagreements" in asked:
            found += _disagreements(store, config, before, turn)
    return found


def _kept(store: Store, moment: history.Moment) -> bytes:
    return store.report(
        next(r.id for r in store.reports() if (r.number, r.settings) == (moment.number, moment.settings))
    )


def _live(report: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    return {
        (d["name"], e["evaluator"]): e["version"] for d in report["dimensions"] for e in d["evaluators"] if e["live"]
    }


def _live_since(store: Store, dimension: str, evaluator: str, version: str) -> int:
    """The kept report that was the first with this live version: whoever looks names the change alike."""
    first = 0
    for kept in store.reports():
        if _live(json.loads(store.report(kept.id))).get((dimension, evaluator)) != version:
            break
        first = kept.id
    return first


def _versions(store: Store, before: Mapping[str, Any], turn: Turn) -> list[Event]:
    was = _live(before)
    found = []
    for dimension in turn.report.dimensions:
        for e in dimension.evaluators:
            old = was.get((dimension.name, e.evaluator))
            if e.live and old is not None and old != e.version:
                title = f"{dimension.name}: the live version of {e.evaluator} is {e.version or '(none)'}; it was {old or '(none)'}"
                since = _live_since(store, dimension.name, e.evaluator, e.version)
                key = "\x1f".join(("version", dimension.name, e.evaluator, old, e.version, str(since)))
                found.append(
                    Event(key, "version", True, title, detail={"dimension": dimension.name, "judge": e.evaluator})
                )
    return found


def _models(store: Store, before: history.Moment) -> list[Event]:
    """Models that answered for an evaluator since, and none of its last answers before."""
    found = []
    for source, fact, model in store.new_facts(MODEL_FACT, before.number).iter_rows():
        earlier = store.recent_facts(source, fact, before.number)
        if earlier and model not in earlier:
            judge = fact.removeprefix(MODEL_FACT)
            title = f"{source}: the model behind {judge} is {model}; it was {earlier[0]}"
            found.append(Event("\x1f".join(("model", source, judge, model)), "version", True, title))
    return found


def _disagreements(store: Store, config: Config, before: history.Moment, turn: Turn) -> list[Event]:
    changed = store.changed_items(before.number)
    compared = item_agreement(turn.ratings)
    if compared.is_empty() or not changed:
        return []
    fresh = compared.filter(pl.col("item").is_in(pl.Series(changed, dtype=pl.String).implode()))
    found = []
    for name, n, differ in fresh.group_by("dimension").agg(pl.len(), pl.col("disagree").sum()).sort("dimension").rows():
        if n >= FEWEST:
            rate = differ / n
            title = f"{name}: {differ} of {n} items compared since the last report have a disagreement ({rate:.0%})"
            found.append(
                Event(f"disagreements\x1f{name}", "disagreements", rate >= config.alerts.disagreement_rate, title)
            )
    return found


# --- when to tell it


def raise_events(
    store: Store, config: Config, found: Sequence[Event], now: datetime, before: history.Moment | None = None
) -> str | None:
    """Write down what stands, and one message with all that is to be told now. Returns the message's id. Where another
    process decides at the same time, what it told is not told again."""
    box = Outbox(store)
    for _ in range(TURNS):
        known = box.standing()
        states, tell = _to_tell(config, found, known, now)
        message, body = "", None
        if tell:
            message = f"msg_{uuid.uuid4().hex}"
            events = [_told(store, config, e, before) for e in tell]
            data = {"study": visible(config.study.name), "events": events}
            body = {"type": "calibrate.alert", "timestamp": _time(now), "data": data}
        if box.keep(states, message, body, channels(config.alerts), now, known):
            return message or None
    log.warning("others decide about the same alerts again and again; they are left to them")
    return None


def _to_tell(
    config: Config, found: Sequence[Event], known: Mapping[str, Standing], now: datetime
) -> tuple[list[Standing], list[Event]]:
    """What stands after these events, and those that are to be told."""
    settings = config.alerts
    quiet = timedelta(minutes=settings.quiet_minutes)
    states: list[Standing] = []
    tell: list[Event] = []
    for event in found:
        state = known.get(event.key, Standing(event.key))
        rested = state.told is None or now - state.told >= quiet
        if event.raised:
            state = replace(state, raised=state.raised or now, clear=0)
            if rested and not state.told_raised:
                tell.append(event)
                state = replace(state, told=now, told_raised=True)
        elif state.raised is not None or state.told_raised:
            state = replace(state, clear=min(state.clear + 1, settings.clear_after))
            if state.clear >= settings.clear_after:
                state = replace(state, raised=None)
                if state.told_raised and rested:
                    tell.append(event)
                    state = replace(state, told=now, told_raised=False)
        states.append(state)
    return states, tell


def _told(store: Store, config: Config, event: Event, before: history.Moment | None) -> dict[str, Any]:
    why, link = list(event.why), event.link
    if event.kind in ("gate", "version"):
        causes, first = _causes(store, config, event, before or history.previous(store))
        why, link = [*why, *causes], link or first
    return {
        "kind": event.kind,
        "state": "raised" if event.raised else "over",
        "title": visible(event.title),
        "why": [visible(w) for w in why],
        "link": config.alerts.link or web_link(link),
    }


def _causes(store: Store, config: Config, event: Event, before: history.Moment | None) -> tuple[list[str], str | None]:
    """What moved the numbers behind an event since the last report, and where to look."""
    if before is None:
        return [], None
    try:
        found = explain(
            store,
            config,
            before,
            dimension=event.detail.get("dimension"),
            evaluator=event.detail.get("judge"),
            listed=1,
        )
    except (ValueError, SettingsError) as error:  # earlier settings that this version no longer reads
        log.warning("why could not be told: %s", error)
        return [], None
    said: dict[str, str | None] = {}
    for one in found.numbers:
        for step in one.steps:
            said.setdefault(step.sentence, step.changes[0].link if step.changes else None)
    links = [link for link in said.values() if link]
    return list(said)[:TOLD], links[0] if links else None


# --- telling it


def deliver(
    store: Store,
    config: Config,
    *,
    environment: Mapping[str, str] | None = None,
    session: requests.Session | None = None,
) -> list[Waiting]:
    """Try everything that is due. Returns what still waits. Nobody who works on the study waits for it, and what another
    process tries at this moment is left to it.

    A channel that fails keeps its order: nothing later goes out before. Where a try may have arrived after all (no answer in
    time), Slack, which knows no ids, is not tried again within the quiet time.
    """
    box = Outbox(store)
    failed: set[str] = set()
    own = session or _session()
    try:
        for one in box.due(store.now()):
            if one.channel in failed:
                continue
            if not box.claim(one, store.now() + CLAIM):
                failed.add(one.channel)  # somebody else is at it, and the order is kept
                continue
            error, wait = _try(own, config.alerts, one, store.now(), environment or os.environ)
            if error is None:
                box.delivered(one.id, store.now())
            else:
                failed.add(one.channel)
                pause = max(wait, min(LONGEST, FIRST * 2 ** min(one.tries, 6)))
                box.failed(one.id, error, store.now() + pause)
    finally:
        if session is None:
            own.close()
    return box.listed(delivered=False)


def _session() -> requests.Session:
    session = requests.Session()
    # Only what surely did not arrive is tried again at once; the rest waits in the store.
    retry = Retry(total=2, connect=2, read=0, status=0, other=0, backoff_factor=0.3, respect_retry_after_header=False)
    session.mount("https://", HTTPAdapter(max_retries=retry))
    session.mount("http://", HTTPAdapter(max_retries=retry))
    return session


def _try(
    session: requests.Session, settings: AlertsTable, one: Waiting, now: datetime, environment: Mapping[str, str]
) -> tuple[str | None, timedelta]:
    """None where it was delivered, else what went wrong (without the url, which may be a secret), and how long to wait."""
    name = getattr(settings, one.channel)
    url = environment.get(name or "")
    if not url:
        return f"the environment variable {name} with the url of alerts.{one.channel} is not set", timedelta(0)
    try:
        if one.channel == "slack":
            body, headers = json.dumps({"text": slack_text(one.body)}), {}
        else:
            body = json.dumps(one.body, separators=(",", ":"))
            headers = signed(one.message, body, now, _secret(settings, environment))
    except ValueError as error:
        return str(error), timedelta(0)
    headers = {"content-type": "application/json", "user-agent": "calibrate-plugin", **headers}
    try:
        answer = session.post(url, data=body.encode(), headers=headers, timeout=TIMEOUT, allow_redirects=False)
    except requests.exceptions.SSLError:
        return f"{one.channel}: its certificate is not valid here; nothing was sent", timedelta(0)
    except requests.exceptions.ConnectionError:
        return f"{one.channel}: cannot be reached", timedelta(0)
    except requests.exceptions.Timeout:
        unsure = timedelta(minutes=settings.quiet_minutes) if one.channel == "slack" else timedelta(0)
        return f"{one.channel}: no answer within {TIMEOUT[1]} s", unsure
    except (requests.exceptions.RequestException, ValueError) as error:
        return f"{one.channel}: the url in {name} cannot be used ({type(error).__name__})", timedelta(0)
    if 200 <= answer.status_code < 300:
        return None, timedelta(0)
    return f"{one.channel}: answered {answer.status_code}", _asked_to_wait(answer, now)


def _asked_to_wait(answer: requests.Response, now: datetime) -> timedelta:
    asked = answer.headers.get("Retry-After", "")
    if asked.isdecimal():
        return min(timedelta(seconds=int(asked[:6])), timedelta(days=1))
    try:
        until = parsedate_to_datetime(asked)
    except (ValueError, TypeError):
        return timedelta(0)
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(timedelta(0), min(until - now, timedelta(days=1)))


def signed(message: str, body: str, now: datetime, secret: bytes) -> dict[str, str]:
    """The headers of a signed webhook (Standard Webhooks 1.0): HMAC-SHA256 over ``id.timestamp.body``.

    >>> signed("msg_1", "{}", datetime(2026, 1, 1, tzinfo=UTC), b"key")["webhook-signature"]
    'v1,0/Ipju/4VE3SwnSlNISH88dz4gvLVwAmi1an38hiC34='
    """
    stamp = str(int(now.timestamp()))
    digest = hmac.new(secret, f"{message}.{stamp}.{body}".encode(), hashlib.sha256).digest()
    return {
        "webhook-id": message,
        "webhook-timestamp": stamp,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def _secret(settings: AlertsTable, environment: Mapping[str, str]) -> bytes:
    given = environment.get(settings.secret or "", "")
    if not given:
        raise ValueError("the environment variable of alerts.secret is not set, and a webhook is only sent signed")
    try:
        return base64.b64decode(given.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the secret in the environment variable of alerts.secret is not whsec_ and base64") from None


def slack_text(body: Mapping[str, Any]) -> str:
    """A message as Slack shows it; names in it are not obeyed as markup or as mentions."""
    data = body["data"]
    lines = [f"*{_slack(data['study'])}*"]
    for event in data["events"]:
        sign = ":red_circle:" if event["state"] == "raised" else ":white_check_mark: over:"
        lines.append(f"{sign} {_slack(event['title'])}")
        lines += [f"  • {_slack(w)}" for w in event["why"]]
        if event["link"]:
            lines.append(f"  <{event['link'].replace('|', '%7C').replace('>', '%3E')}|look at it>")
    return clip("\n".join(lines), 30_000)


def _slack(text: str) -> str:
    shown = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in "*_~`":  # a zero-width space keeps a mark from opening a style
        shown = shown.replace(mark, f"\u200b{mark}\u200b")
    return clip(shown, 1_000)


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


__all__ = ["Event", "after", "channels", "deliver", "events", "raise_events", "signed", "slack_text"]

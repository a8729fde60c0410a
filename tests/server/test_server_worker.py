"""The worker: what wakes it, what it does then, and what it does not do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from served_study import SECRET, Served
from told import Told, down, label

from calibrate_plugin import cycle
from calibrate_plugin.config import load
from calibrate_plugin.connector import Covered, Held, Page, Since
from calibrate_plugin.report import json
from calibrate_plugin.report.build import build
from calibrate_plugin.server.numbers import stamp_of
from calibrate_plugin.server.service import WHOLE


def anew(served: Served) -> str:
    """The stamp of the report that a full computation gives."""
    service = served.service
    report, _ = build(service.config.study, cycle.pulled(service.store), service.store.now())
    return stamp_of(json.render(report).encode())


def wake(served: Served, *rows) -> None:
    served.people.tell(*rows)
    served.service.store.hint("people", "12")
    served.service.wake()


def open_hints(served: Served) -> int:
    return len(served.service.store.hints())


def test_a_hint_becomes_a_report_and_a_push(ready: Served) -> None:
    before = ready.service.state.stamp
    pushes = ready.people.pushes
    wake(ready, label("ann1", "i1", "ann", '"Fail"'))
    ready.turns(lambda: not open_hints(ready) and ready.people.pushes > pushes)
    assert ready.service.state.stamp == anew(ready) != before
    assert not ready.service.state.full
    assert stamp_of(ready.service.store.report(ready.service.store.reports(1)[0].id)) == ready.service.state.stamp


def test_only_the_source_of_the_hint_is_pulled(ready: Served) -> None:
    before = ready.judges.pulls
    wake(ready)
    ready.turns(lambda: not open_hints(ready))
    assert ready.judges.pulls == before


def test_after_a_deletion_everything_is_asked_for(ready: Served) -> None:
    from calibrate_label_studio.webhooks import HEADER

    path = "/webhooks/people?project=12&deleted=1"
    assert ready.client().post(path, headers={HEADER: SECRET}).status_code == 202
    ready.people.forget("ann1")
    ready.turns(lambda: not open_hints(ready))
    assert ready.service.store.syncs(1)[0].mode == "full" and ready.service.state.stamp == anew(ready)


def focused(served: Served) -> list[Since]:
    """Let the people's source look at single jobs, and tell what it was asked for."""
    asked: list[Since] = []
    pull = served.people.pull

    def heard(since: Since) -> Iterator[Page | Covered]:
        asked.append(since)
        return pull(since)

    served.people.focuses, served.people.pull = True, heard
    return asked


def test_a_hint_has_only_the_job_pulled_that_it_names(ready: Served) -> None:
    asked = focused(ready)
    for job in ("12", "13", "12"):
        ready.service.store.hint("people", job)
    ready.turns(lambda: not open_hints(ready))
    assert [(s.jobs, s.gone, s.full) for s in asked] == [(("12", "13"), False, False)]
    assert ready.service.store.syncs(1)[0].mode == "focused"


def test_after_a_deletion_what_is_left_of_the_job_is_looked_up(ready: Served) -> None:
    asked = focused(ready)
    ready.service.store.hint("people", f"{WHOLE}13")
    ready.turns(lambda: not open_hints(ready))
    assert [(s.jobs, s.gone, s.full) for s in asked] == [(("13",), True, False)]


def test_a_hint_without_a_job_and_the_schedule_look_everywhere(ready: Served) -> None:
    asked = focused(ready)
    ready.service.store.hint("people", None)
    ready.service.store.hint("people", "12")
    ready.turns(lambda: not open_hints(ready))
    ready.service.pace = replace(ready.service.pace, poll=0.0)
    ready.service.store.hint("people", f"{WHOLE}12")
    ready.turns(lambda: not open_hints(ready))
    assert [(s.jobs, s.gone) for s in asked] == [(None, False), (None, True)]


def test_looking_at_one_job_puts_off_no_look_at_the_others_and_no_full_one(ready: Served) -> None:
    asked = focused(ready)
    for _ in range(20):
        ready.service.store.hint("people", "12")
        ready.worker.step()
    assert {s.jobs for s in asked} == {("12",)} and not any(s.full for s in asked)
    last = next(s.started for s in ready.service.store.syncs(None) if s.source == "people" and s.mode != "focused")
    since = (ready.service.store.now() - last).total_seconds()
    ready.service.pace = replace(ready.service.pace, poll=since)
    ready.turns(lambda: asked[-1].jobs is None)


def test_hints_that_come_together_are_one_pull(ready: Served) -> None:
    before = ready.people.pulls
    for _ in range(50):
        ready.service.store.hint("people", "12")
    ready.turns(lambda: not open_hints(ready))
    assert ready.people.pulls == before + 1


def test_the_echo_of_our_own_push_does_nothing(ready: Served) -> None:
    reports, pushes = len(ready.service.store.reports()), ready.people.pushes
    for _ in range(3):
        wake(ready)
        ready.turns(lambda: not open_hints(ready))
    assert len(ready.service.store.reports()) == reports and ready.people.pushes == pushes


def test_a_steady_stream_does_not_starve(ready: Served) -> None:
    ready.service.pace = replace(ready.service.pace, debounce=3600.0, cap=0.3)
    before, begun = ready.people.pulls, time.monotonic()
    while ready.people.pulls - before < 3 and time.monotonic() - begun < 120:
        wake(ready)
        ready.worker.step()
        time.sleep(0.02)
    assert ready.people.pulls - before == 3, "a stream that never pauses was never pulled"


def test_a_hint_waits_for_more(ready: Served) -> None:
    ready.service.pace = replace(ready.service.pace, debounce=3600.0, cap=3600.0)
    before = ready.people.pulls
    wake(ready)
    ready.worker.step()
    assert ready.people.pulls == before and open_hints(ready) == 1


def test_the_schedule_pulls_without_any_hint(ready: Served) -> None:
    ready.people.tell(label("ann1", "i1", "ann", '"Fail"'))
    ready.service.pace = replace(ready.service.pace, poll=0.0)
    ready.turns(lambda: ready.service.state.number >= 3)
    assert ready.service.state.stamp == anew(ready)


def test_everything_is_read_again_on_its_own_schedule(ready: Served) -> None:
    ready.service.pace = replace(ready.service.pace, reconcile=0.0)
    wake(ready)
    ready.turns(lambda: not open_hints(ready))
    assert ready.service.store.syncs(1)[0].mode == "full"


def test_a_failure_is_tried_again_and_keeps_its_hint(ready: Served) -> None:
    ready.people.down = down()
    wake(ready, label("ann1", "i1", "ann", '"Fail"'))
    ready.turns(lambda: "people" in ready.service.health.troubles)
    assert open_hints(ready) == 1 and not ready.service.health.troubles["people"].parked
    ready.people.down = None
    ready.turns(lambda: not open_hints(ready))
    assert ready.service.health.troubles == {} and ready.service.state.stamp == anew(ready)


def test_what_fails_again_and_again_is_parked_and_shown_until_somebody_asks(ready: Served) -> None:
    ready.people.down = down()
    wake(ready)
    ready.turns(lambda: (t := ready.service.health.troubles.get("people")) and t.parked)
    pulls = ready.people.pulls
    for _ in range(5):
        wake(ready)
        ready.worker.step()
    assert ready.people.pulls == pulls, "a parked source waits"
    (shown,) = ready.service.told()["troubles"]
    assert shown["parked"] and shown["tries"] == 3 and "does not answer" in shown["message"]
    ready.people.down = None
    ready.service.ask("people")
    ready.turns(lambda: not open_hints(ready))
    assert ready.service.told()["troubles"] == []


def test_what_is_asked_for_is_pulled_once_whether_or_not_anything_is_pushed(ready: Served) -> None:
    ready.service.pushing = False
    before = ready.people.pulls, ready.judges.pulls
    ready.service.ask()
    for _ in range(3):
        ready.step()
    assert (ready.people.pulls, ready.judges.pulls) == (before[0] + 1, before[1] + 1) and not ready.service.asked


def test_what_is_held_is_parked_at_once(ready: Served) -> None:
    ready.people.down = Held("too much is gone; accept it")
    wake(ready)
    ready.turns(lambda: (t := ready.service.health.troubles.get("people")) and t.parked and t.tries == 1)


def test_a_push_that_fails_is_tried_again(ready: Served) -> None:
    ready.people.refuses = down()
    wake(ready, label("ann1", "i1", "ann", '"Fail"'))
    ready.turns(lambda: "push: people" in ready.service.health.troubles)
    assert open_hints(ready) == 0
    ready.people.refuses = None
    ready.turns(lambda: not ready.service.health.troubles)
    safety = ready.service.state.report.dimensions[0].annotators.agreement
    assert ready.people.results["Safety"] == f"{safety.value} {safety.n_pairs}"


def test_what_another_process_published_shows(ready: Served) -> None:
    from calibrate_plugin.store import Store
    from calibrate_plugin.sync import sync

    heard = ready.service.state.stamp
    ready.people.tell(label("ann1", "i1", "ann", '"Fail"'))
    with Store(ready.service.config.store) as other:
        sync(other, {"people": Told(list(ready.people.rows.values()))})
    ready.worker.step()
    assert ready.service.state.stamp == anew(ready) != heard


def test_while_somebody_else_works_hints_wait(ready: Served) -> None:
    from calibrate_plugin.store import Busy, Store

    with Store(ready.service.config.store) as other, other.work():
        wake(ready)
        with pytest.raises(Busy):
            ready.worker.step()
        assert open_hints(ready) == 1
    ready.turns(lambda: not open_hints(ready))


def test_changed_settings_hold_from_the_next_turn(ready: Served) -> None:
    import os

    path = ready.service.config.path
    path.write_text(path.read_text() + '\n[kinds]\nben = "gold"\n')
    os.utime(path, (1, 1))
    ready.worker.step()
    assert ready.service.config.study == load(path).study
    assert ready.service.state.report.dimensions[0].annotators.counted == ()
    path.write_text("[study")
    os.utime(path, (2, 2))
    ready.worker.step()
    assert ready.service.health.troubles["settings"].parked


def test_a_source_that_is_added_while_serving_is_pulled(ready: Served) -> None:
    import os

    path = ready.service.config.path
    people, judges = ready.people, ready.judges
    more = "item,dimension,rater,kind,value\ni1,Safety,cem,annotator,Pass\ni2,Safety,cem,annotator,Pass\n"
    path.with_name("more.csv").write_text(more)
    path.write_text(path.read_text() + '\n[sources.more]\nconnector = "files"\nfile = "more.csv"\n')
    os.utime(path, (1, 1))
    ready.turns(lambda: "cem" in str(ready.service.state.body))
    assert "settings" not in ready.service.health.troubles
    assert (ready.service.sources["people"], ready.service.sources["judges"]) == (people, judges)
    assert ready.service.state.stamp == anew(ready)
    path.write_text(path.read_text() + "colour = 3\n")  # no such key: the sources before hold
    os.utime(path, (2, 2))
    ready.worker.step()
    assert "colour" in ready.service.health.troubles["settings"].message
    assert "more" in ready.service.sources


def test_a_report_is_kept_once(ready: Served) -> None:
    from calibrate_plugin.server.worker import Worker

    before = len(ready.service.store.reports())
    again = Worker(ready.service)
    again.step()
    assert len(ready.service.store.reports()) == before

"""Pulls from a Langfuse over real sockets: what is read, what is kept, and what nothing can make us lose."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from calibrate_langfuse import live, open_source
from calibrate_langfuse.live import Cursor, LiveScores
from langfuse_standin import Clock as ServerClock
from langfuse_standin import LangfuseStandin
from live_langfuse import KEPT, Study, day, fresh, read, settings, source_of, spread

from calibrate_plugin.connector import (
    Held,
    Identified,
    Metered,
    Page,
    Scope,
    SettingsError,
    Since,
    SourceSettings,
    Unavailable,
)

SCORES = "GET /api/public/v3/scores"
DIALECTS = ["3.50", "3.150", "3.225", "4.16-dual", "4.16-events-only", "4.59"]


def filled(server: LangfuseStandin, n: int, **fields: Any) -> None:
    rows = list(spread(n, **fields))
    server.add_scores(rows)
    for row in rows:
        server.add_trace(row["traceId"])


# reading


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_server_version_gives_the_same_labels_each_once(dialect: str) -> None:
    with LangfuseStandin(dialect) as server:
        filled(server, 730)
        labels, aside, covered = read(source_of(server))
        assert aside.is_empty()
        assert sorted(labels["record"]) == [f"s{i:06d}" for i in range(730)]
        assert labels["placed"].is_sorted(descending=True)
        assert dict(labels.group_by("value").len().rows()) == {"true": 365, "false": 365}
        assert [c.scope for c in covered] == [Scope()]
        assert server.requests.counts()["GET /api/public/projects"] == 1


def test_a_source_is_identified_and_metered_and_says_what_answers() -> None:
    with LangfuseStandin() as server:
        source = source_of(server)
        assert isinstance(source, Identified)
        assert isinstance(source, Metered)
        assert source.identity() == f"{server.url} project demo-project"
        read(source)
        assert source.requests == len(server.requests)
        assert source.platform == "Langfuse 4.16.0"


def test_the_environment_names_the_server_and_a_prefix_another_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with LangfuseStandin() as server:
        server.add_scores(spread(3))
        monkeypatch.setenv("LANGFUSE_HOST", server.url + "/")
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", server.public_key)
        key = tmp_path / "key"
        key.write_text(server.secret_key + "\n")
        monkeypatch.setenv("LANGFUSE_SECRET_KEY_FILE", str(key))
        source = open_source(settings())
        assert isinstance(source, LiveScores)
        assert len(read(source)[0]) == 3
        monkeypatch.delenv("LANGFUSE_HOST")
        with pytest.raises(SettingsError, match="needs the environment variable LANGFUSE_BASE_URL"):
            open_source(settings())
        with pytest.raises(SettingsError, match="variables PROD_LANGFUSE_BASE_URL, PROD_LANGFUSE_PUBLIC_KEY"):
            open_source(SourceSettings("judges", "langfuse", env="PROD"))


@pytest.mark.parametrize("url", ["ftp://x", "cloud.langfuse.com", "https://", "https://pk:sk-lf-secret@lf.example"])
def test_an_address_that_is_none_is_refused_without_repeating_a_key(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("LANGFUSE_BASE_URL", url)
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk-lf-secret")
    with pytest.raises(SettingsError) as raised:
        open_source(settings())
    assert "sk-lf-secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"window_days": 0}, "number of days above 0"),
        ({"workers": 100}, "from 1 to 32"),
        ({"runs": "no"}, "give true or false"),
        ({"failed_runs": ["x"]}, "give a table"),
        ({"timeout": "long"}, "seconds above 0"),
        ({"proxy": "somewhere:with-a-password"}, "proxy is no address of a proxy"),
        ({"ca_file": "/no/such/file.pem"}, "no file of certificates"),
    ],
)
def test_live_settings_that_cannot_work_say_so(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], words: str
) -> None:
    for name in ("LANGFUSE_BASE_URL", "LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"):
        monkeypatch.setenv(name, "https://lf.example")
    with pytest.raises(SettingsError, match=words):
        open_source(settings(**options))


def test_only_declared_names_environments_and_time_are_asked_for() -> None:
    with LangfuseStandin() as server:
        server.add_scores(spread(50))
        server.add_scores(spread(50, id="other", name="other"))
        server.add_score(id="e", name="safety", value=True, traceId="t", environment="production", timestamp=day(20))
        given = settings({"Safety": ("safety", "tone")}, since=date(2026, 11, 10), environments=["production"])
        labels, _, covered = read(source_of(server, given))
        assert labels["record"].to_list() == ["e"]
        assert covered[0].scope == Scope(fields=("safety", "tone"), start=datetime(2026, 11, 10, tzinfo=UTC))
        queries = [request.query for request in server.requests.of(SCORES)[1:]]
        assert {q["name"][0] for q in queries} == {"safety,tone"}
        assert {q["environment"][0] for q in queries} == {"production"}
        assert all("value" not in q for q in queries)
        assert {q["fields"][0] for q in queries} == {"core,details,subject,annotation"}


@pytest.mark.parametrize("dialect", ["3.150", "4.16-events-only"])
def test_a_name_that_no_list_can_say_is_filtered_here(dialect: str) -> None:
    with LangfuseStandin(dialect) as server:
        for i, name in enumerate(["good, really", "good", "really", " good"]):
            server.add_score(id=str(i), name=name, value=True, traceId="t", timestamp=day(20))
        labels, _, _ = read(source_of(server, settings({"Q": ("good, really",), "P": (" good",)})))
        assert sorted(labels["record"]) == ["0", "3"]


@pytest.mark.parametrize("dialect", ["3.150", "4.16-events-only"])
def test_versions_in_names_are_all_read(dialect: str) -> None:
    with LangfuseStandin(dialect) as server:
        for i, name in enumerate(["safety@v1", "safety@v2", "safety", "tone@v1"]):
            server.add_score(id=str(i), name=name, value=True, traceId="t", timestamp=day(20))
        labels, _, _ = read(source_of(server, settings({"Safety": ("safety",)}, version_suffix=True)))
        assert sorted(labels.select("record", "field", "version").rows()) == [
            ("0", "safety", "v1"),
            ("1", "safety", "v2"),
            ("2", "safety", ""),
        ]


@pytest.mark.parametrize("dialect", ["3.150", "3.50"])
def test_several_names_by_page_come_in_one_order_of_time(dialect: str) -> None:
    with LangfuseStandin(dialect) as server:
        filled(server, 250)
        server.add_scores(spread(250, id="x"))
        server.add_scores({**row, "id": f"tone{i}", "name": "tone"} for i, row in enumerate(spread(250)))
        labels, _, _ = read(source_of(server, settings({"A": ("safety",), "B": ("tone",)})))
        assert len(labels) == 500 + 1
        assert labels["placed"].is_sorted(descending=True)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_hundreds_of_scores_of_one_millisecond_are_all_read(dialect: str) -> None:
    with LangfuseStandin(dialect) as server:
        filled(server, 150)
        for i in range(350):
            server.add_score(id=f"tie{i}", name="safety", value=True, traceId="t000001", timestamp=day(2))
        assert len(read(source_of(server))[0]) == 500


def test_a_v2_list_is_asked_without_traces_as_it_would_leave_out_scores_whose_trace_is_missing() -> None:
    with LangfuseStandin("3.150") as server:
        server.add_scores(spread(5))  # no trace of theirs is stored
        assert len(read(source_of(server))[0]) == 5


def test_a_short_page_is_not_the_last_one() -> None:
    with LangfuseStandin() as server:
        rows = list(spread(450))
        for i, row in enumerate(rows):
            server.add_score(**row, convertible=not 100 <= i < 320)
        assert len(read(source_of(server))[0]) == 230


def test_the_new_place_of_an_id_wins_wherever_its_old_row_is_listed() -> None:
    with LangfuseStandin() as server:
        server.add_scores(spread(600))
        server.add_score(
            id="s000003", name="safety", value="new", dataType="CATEGORICAL", traceId="t", timestamp=day(28)
        )
        labels, _, _ = read(source_of(server))
        moved = labels.filter(pl.col("record") == "s000003")
        assert moved["value"].to_list() == ['"new"']
        assert len(labels) == 600


def test_a_page_that_repeats_an_old_row_changes_nothing() -> None:
    with LangfuseStandin() as server:
        server.add_scores(spread(300))
        expected = fresh(server)
        row = server_row(server, "s000299")
        server.faults.repeat_row({**row, "value": "old", "dataType": "CATEGORICAL"}, path="/api/public/v3", after=3)
        assert fresh(server).equals(expected)


def server_row(server: LangfuseStandin, id_: str) -> dict[str, Any]:
    return source_of(server).reads.by_id([id_])[0]


def test_a_renamed_score_is_read_under_its_new_name_once() -> None:
    with LangfuseStandin() as server:
        server.add_score(id="a", name="old", value=True, traceId="t", timestamp=day(20))
        server.add_score(id="a", name="new", value=False, traceId="t", timestamp=day(20))
        labels, _, _ = read(source_of(server, settings({"Q": ("old", "new")})))
        assert labels.select("field", "value").rows() == [("new", "false")]


def test_unknown_types_and_sources_are_set_aside_and_stop_nothing() -> None:
    with LangfuseStandin() as server:
        server.add_scores(spread(5))
        server.faults.rewrite(
            lambda body: {
                **body,
                "data": [{**row, "dataType": "VECTOR"} if row["id"] == "s000002" else row for row in body["data"]],
            },
            path="/api/public/v3",
        )
        labels, aside, _ = read(source_of(server))
        assert len(labels) == 4
        assert aside["cause"].to_list() == ["unknown_kind"]


def test_people_count_by_their_author_and_prefills_do_not() -> None:
    with LangfuseStandin() as server:
        config = server.project.add_config(name="safety", dataType="BOOLEAN")["id"]
        server.project.annotate(configId=config, value=True, authorUserId="u1", traceId="t1")
        server.add_score(id="pre", name="safety", value=True, source="ANNOTATION", configId=config, traceId="t2")
        labels, aside, _ = read(source_of(server))
        assert labels.select("kind", "rater", "item").rows() == [("annotator", "u1", "t1")]
        assert aside["cause"].to_list() == ["prefilled"]


@pytest.mark.parametrize("chunk", [40, 20_000])
def test_a_label_set_over_pages_and_published_stretches_is_one_answer(
    monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(live, "CHUNK", chunk)
    with LangfuseStandin() as server:
        for i in range(300):
            for k, label in enumerate(("rude", "harmful")):
                server.add_score(
                    id=f"{label}{i}", name="flags", value=label, source="EVAL", traceId=f"t{i}",
                    timestamp=datetime.fromtimestamp(1_763_000_000 + 60 * i + 10 * k, UTC), metadata={"job_execution_id": f"j{i}"},
                )  # fmt: skip
        labels, _, covered = read(source_of(server))
        assert set(labels["value"]) == {'["harmful","rude"]'}
        assert len(labels) == labels["item"].n_unique() == 300
        assert len(covered) == (1 if chunk > 1000 else len(covered))
        assert chunk > 1000 or len(covered) > 5


# cost


def test_the_cost_is_said_before_and_an_idle_sync_takes_a_handful_of_requests(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LangfuseStandin() as server, caplog.at_level(logging.INFO, "calibrate_langfuse"):
        server.add_scores(spread(4000, step=300))
        study = Study(server, tmp_path / "s.db")
        first = study.sync()
        said = next(m for m in caplog.messages if "requests" in m)
        scores = int(said.split("about ")[1].split(" scores")[0].replace(",", ""))
        assert 2800 <= scores <= 5200
        assert first.requests is not None
        assert first.requests <= 40 + 25
        second = study.sync()
        assert second.requests is not None
        assert second.requests <= 5
        server.add_score(id="new", name="safety", value=True, traceId="t", timestamp=day(30))
        assert study.sync().requests == second.requests


def test_pages_are_read_side_by_side_in_few_more_requests_than_there_are_pages() -> None:
    with LangfuseStandin() as server:
        server.add_scores(spread(3000, step=60))
        inside, most, lock = 0, 0, threading.Lock()

        def hold(body: Any) -> Any:
            nonlocal inside, most
            with lock:
                inside += 1
                most = max(most, inside)
            threading.Event().wait(0.01)
            with lock:
                inside -= 1
            return body

        server.faults.rewrite(hold, path="/api/public/v3")
        assert len(read(source_of(server))[0]) == 3000
        assert most >= 4
        assert server.requests.counts()[SCORES] <= 30 + 25


def test_a_limit_of_thirty_calls_a_minute_is_kept_once_it_is_known() -> None:
    with LangfuseStandin(plan="hobby") as server:
        server.add_scores(spread(9000, step=60))
        source = source_of(server)
        labels, _, _ = read(source)
        assert len(labels) == 9000
        refused = Counter(request.status for request in server.requests)[429]
        assert refused <= 12  # those that were on their way when the limit was met
        assert source.server.pace.limit == 30
        assert (
            server.clock.now() - datetime(2026, 11, 30, 12, tzinfo=UTC)
        ).total_seconds() < 600  # about a hundred requests


def test_a_limit_by_the_day_says_when_to_come_back() -> None:
    with LangfuseStandin() as server:
        server.add_scores(spread(10))
        server.faults.rate_limit(86398, path="/api/public/v3", times=None)
        with pytest.raises(Unavailable, match=r"opens again at 2026-12-01 11:59 UTC"):
            read(source_of(server))


# what a sync keeps


def edited(server: LangfuseStandin) -> None:
    server.add_score(id="s000002", name="safety", value="Changed", dataType="CATEGORICAL", traceId="t000002",
                     timestamp=datetime(2026, 11, 29, 0, 20, tzinfo=UTC), source="EVAL", comment="again")  # fmt: skip


def recent(server: LangfuseStandin, n: int = 40) -> None:
    server.add_scores(spread(n, start=datetime(2026, 11, 29, tzinfo=UTC)))


def test_an_edit_that_moves_no_time_is_seen_by_the_next_sync_where_edits_cluster(tmp_path: Path) -> None:
    with LangfuseStandin() as server:
        recent(server)
        study = Study(server, tmp_path / "s.db")
        study.sync()
        edited(server)
        assert study.sync().changed == 1
        assert study.labels().equals(fresh(server))


def test_an_old_edit_is_found_by_a_full_sync(tmp_path: Path) -> None:
    with LangfuseStandin() as server:
        server.add_scores(spread(200))
        study = Study(server, tmp_path / "s.db")
        study.sync()
        row = server.project.state.table.by_id["s000100"][0]
        row.comment, row.number, row.text = "second thoughts", 0.0, "False"
        server.project.state.table.generation += 1
        assert study.sync().changed == 0
        assert study.sync(full=True).changed == 1
        assert study.labels().equals(fresh(server))


def test_a_deleted_score_is_asked_for_twice_with_a_pause_before_it_is_gone(tmp_path: Path) -> None:
    with LangfuseStandin() as server:
        recent(server)
        study = Study(server, tmp_path / "s.db")
        study.sync()
        server.project.state.table.remove(server.project.state.table.by_id["s000007"])
        before = len(server.requests)
        outcome = study.sync()
        assert (outcome.outcome, outcome.retired) == ("ok", 1)
        asked = [r for r in server.requests[before:] if r.query.get("id") == ["s000007"]]
        assert len(asked) == 2
        assert live.PAUSE in study.source.slept  # type: ignore[union-attr]
        gone = study.all_labels().filter(pl.col("record") == "s000007")
        assert gone["retired"].to_list() == ["label_deleted"]
        assert study.labels().equals(fresh(server))


def test_a_deleted_score_that_comes_back_counts_again(tmp_path: Path) -> None:
    with LangfuseStandin() as server:
        recent(server)
        study = Study(server, tmp_path / "s.db")
        study.sync()
        backup = server.snapshot()
        server.project.state.table.remove(server.project.state.table.by_id["s000007"])
        study.sync()
        server.restore(backup)
        study.sync()
        assert study.labels().equals(fresh(server))
        assert len(study.labels()) == 40


def test_a_score_that_moves_out_of_what_is_listed_is_found_by_its_id(tmp_path: Path) -> None:
    with LangfuseStandin() as server:
        recent(server)
        study = Study(server, tmp_path / "s.db")
        study.sync()
        row = server.project.state.table.by_id["s000007"][0]
        server.project.state.table.remove([row])
        server.add_score(id="s000007", name="safety", value=True, traceId="t000007", source="EVAL", timestamp=day(3))
        assert study.sync().retired == 0
        assert study.labels().filter(pl.col("record") == "s000007")["value"].to_list() == ["true"]
        assert study.labels().equals(fresh(server))


def test_a_score_whose_id_no_request_can_say_is_looked_for_on_its_trace(tmp_path: Path) -> None:
    with LangfuseStandin() as server:
        recent(server)
        server.add_score(id="a,b", name="safety", value=True, traceId="t1", timestamp=day(29))
        study = Study(server, tmp_path / "s.db")
        study.sync()
        server.faults.rewrite(
            lambda body: {**body, "data": [row for row in body["data"] if row["id"] != "a,b"]},
            path="/api/public/v3",
            times=1,
            after=0,
        )
        assert study.sync().retired == 0
        server.faults.clear()
        assert study.labels().equals(fresh(server))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_changes_of_every_kind_give_what_a_reading_from_scratch_gives(dialect: str, tmp_path: Path) -> None:
    with LangfuseStandin(dialect) as server:
        filled(server, 400)
        rows = list(spread(60, start=datetime(2026, 11, 29, tzinfo=UTC), id=None))
        server.add_scores({**row, "id": f"n{i}", "traceId": "t000001"} for i, row in enumerate(rows))
        study = Study(server, tmp_path / "s.db")
        study.sync()
        table = server.project.state.table
        table.remove(table.by_id["n3"] + table.by_id["n4"])
        server.add_score(
            id="n5",
            name="safety",
            value=False,
            traceId="t000001",
            source="EVAL",
            timestamp=rows[5]["timestamp"],
            comment="x",
        )
        server.add_score(id="n6", name="safety", value=False, traceId="t000001", source="EVAL", timestamp=day(30, 11))
        server.add_score(id="new", name="safety", value=False, traceId="t000001", source="EVAL", timestamp=day(30, 11))
        outcome = study.sync()
        assert outcome.outcome == "ok"
        assert study.labels().equals(fresh(server))
        table.remove(table.by_id["s000010"])
        study.sync(full=True)
        assert study.labels().equals(fresh(server))


# nothing is lost by accident


def lost_membership(server: LangfuseStandin) -> None:
    server.faults.answer(403, {"message": "Access denied"}, times=None)


def unknown_key(server: LangfuseStandin) -> None:
    server.faults.unauthorized()


def expires_on_the_way(server: LangfuseStandin) -> None:
    server.faults.unauthorized(after=4)


def empty_pages(server: LangfuseStandin) -> None:
    server.faults.empty_page(path="/api/public/v3/scores", times=None)


def one_empty_page(server: LangfuseStandin) -> None:
    server.faults.empty_page(path="/api/public/v3/scores")


def half_a_listing(server: LangfuseStandin) -> None:
    server.faults.half_listing(path="/api/public/v3/scores", times=1)


def another_project(server: LangfuseStandin) -> None:
    other = server.add_project("other", public_key="pk-other", secret_key="sk-other")
    server.add_scores(spread(40, start=datetime(2026, 11, 29, tzinfo=UTC)), project=other)
    server.faults.other_project(server.public_key, "pk-other")


def another_project_on_the_way(server: LangfuseStandin) -> None:
    other = server.add_project("other", public_key="pk-other", secret_key="sk-other")
    server.add_scores(spread(40, start=datetime(2026, 11, 29, tzinfo=UTC)), project=other)
    server.faults.other_project(server.public_key, "pk-other", after=4)


def an_old_backup(server: LangfuseStandin) -> None:
    table = server.project.state.table
    table.remove([row for row in table if row.id > "s000010"])


def a_login_page(server: LangfuseStandin) -> None:
    server.faults.html_instead(times=None)


def all_is_gone(server: LangfuseStandin) -> None:
    server.project.state.table.remove(list(server.project.state.table))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    "accident",
    [
        lost_membership, unknown_key, expires_on_the_way, empty_pages, one_empty_page, half_a_listing, another_project,
        another_project_on_the_way, an_old_backup, a_login_page, all_is_gone,
    ],
)  # fmt: skip
def test_nothing_retires_by_accident(tmp_path: Path, accident: Any, full: bool) -> None:
    with LangfuseStandin() as server:
        recent(server)
        study = Study(server, tmp_path / "s.db")
        study.sync()
        before = study.labels()
        backup = server.snapshot()
        accident(server)
        outcome = study.sync(full=full, source=source_of(server))
        assert outcome.retired == 0
        assert study.labels().equals(before)
        if accident not in (one_empty_page, half_a_listing):  # those are seen through by asking again
            assert outcome.outcome in ("held", "failed")
            assert outcome.message
        server.faults.clear()
        server.restore(backup)
        assert study.sync(full=full, source=source_of(server)).outcome == "ok"
        assert study.labels().equals(before)


def test_an_emptied_project_is_believed_when_it_is_said(tmp_path: Path) -> None:
    with LangfuseStandin() as server:
        recent(server)
        study = Study(server, tmp_path / "s.db")
        study.sync()
        all_is_gone(server)
        outcome = study.sync(accept_deletions=True)
        assert outcome.outcome == "held"
        assert "accept_empty = true in [sources.judges]" in outcome.message
        emptied = source_of(server, settings(accept_empty=True))
        assert study.sync(accept_deletions=True, source=emptied).retired == 40


def test_what_a_projects_retention_dropped_is_expired_not_deleted(tmp_path: Path) -> None:
    with LangfuseStandin() as server:
        server.add_scores(spread(200, step=3600 * 3))  # 25 days
        study = Study(server, tmp_path / "s.db")
        study.sync()
        server.faults.rewrite(
            lambda body: {"data": [{**body["data"][0], "retentionDays": 14}]}, path="/api/public/projects", times=None
        )
        table = server.project.state.table
        old = [row for row in table if row.timestamp < ServerClock("2026-11-16T12:00:00Z").ms()]
        table.remove([*old, *table.by_id["s000190"]])
        outcome = study.sync(full=True, accept_deletions=True, source=source_of(server))
        assert outcome.outcome == "ok"
        causes = dict(study.all_labels().group_by("retired").len().rows())
        assert causes == {None: 200 - len(old) - 1, "expired": len(old), "label_deleted": 1}


# faults on the way


def same_after(server: LangfuseStandin, study: Study) -> None:
    for _ in range(40):
        if study.sync(source=source_of(server)).outcome == "ok":
            break
        server.clock.advance(60)
    else:
        pytest.fail("the sync never went through")
    server.faults.clear()
    assert study.labels().equals(fresh(server))
    assert study.store.as_of()["record"].is_unique().all()


FAULTS = {
    "cut before every 3rd": lambda f: f.cut_every(3),
    "cut after every 4th": lambda f: f.cut_every(4, where="after"),
    "cut in the body of every 5th": lambda f: f.cut_every(5, where="body"),
    "every 3rd 500": lambda f: f.server_error(every=3, times=None),
    "every 4th 502 as a page": lambda f: f.bad_gateway(every=4, times=None),
    "every 3rd truncated": lambda f: f.truncated_json(every=3, times=None),
    "every 6th 429": lambda f: f.rate_limit(3, every=6, times=None),
    "eleven 503": lambda f: f.server_error(503, after=6, times=11),
}


@pytest.mark.parametrize("fault", list(FAULTS))
def test_after_any_fault_the_state_is_that_of_an_undisturbed_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(live, "CHUNK", 300)
    with LangfuseStandin() as server:
        server.add_scores(spread(1500))
        study = Study(server, tmp_path / "s.db")
        FAULTS[fault](server.faults)
        same_after(server, study)
        edited(server)
        FAULTS[fault](server.faults)
        same_after(server, study)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 19, 22])
def test_a_first_pull_broken_off_at_any_request_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    monkeypatch.setattr(live, "CHUNK", 200)
    with LangfuseStandin() as server:
        server.add_scores(spread(1500))
        server.add_score(id="s000003", name="safety", value=True, traceId="moved", source="EVAL", timestamp=day(29))
        study = Study(server, tmp_path / "s.db")
        server.faults.server_error(after=n - 1, times=None)
        broken = study.sync(source=source_of(server))
        assert broken.outcome == "failed"
        assert broken.retry
        server.faults.clear()
        assert study.sync(source=source_of(server)).outcome == "ok"
        assert study.labels().equals(fresh(server))
        assert len(study.labels()) == 1500


def test_a_broken_off_first_pull_does_not_list_the_published_part_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "CHUNK", 200)
    with LangfuseStandin() as server:
        server.add_scores(spread(3000))
        study = Study(server, tmp_path / "s.db")
        server.faults.server_error(after=30, times=None)
        assert study.sync(source=source_of(server, settings(workers=1))).outcome == "failed"
        published = len(study.labels())
        assert published > 1000
        server.faults.clear()
        before = len(server.requests)
        assert study.sync(source=source_of(server, settings(workers=1))).outcome == "ok"
        listed = sum(r.rows for r in server.requests[before:] if r.endpoint == SCORES)
        assert listed < 3000 - published + 300
        assert study.labels().equals(fresh(server))
        cursor = study.store.source("judges")[1]
        assert cursor == Cursor(server.clock.ms(), study.source.rules.digest).text()  # type: ignore[union-attr]


def test_a_cursor_of_another_kind_means_that_everything_is_listed() -> None:
    with LangfuseStandin() as server:
        server.add_scores(spread(200))
        for text in ("", "2026-11-30", '{"v": 2, "seen": 1}', '{"v": 1, "seen": 5, "rules": "other"}', "[]"):
            labels, _, covered = read(source_of(server), Since(cursor=text))
            assert len(labels) == 200
            assert covered[-1].scope == Scope()


@pytest.mark.parametrize(
    "changed",
    [
        settings({"Safety": ("safety",), "Tone": ("tone",)}),
        settings({"Safety": ("safety",)}, environments=["default"]),
        settings({"Safety": ("safety",)}, version_key="prompt"),
        settings({"Safety": ("safety",)}, since=date(2026, 11, 2)),
    ],
)
def test_changed_settings_read_the_old_scores_again_under_them(tmp_path: Path, changed: SourceSettings) -> None:
    with LangfuseStandin() as server:
        server.add_scores(spread(300, metadata={"prompt": "v7"}))
        server.add_score(id="tone", name="tone", value=True, traceId="t", timestamp=day(3), metadata={"prompt": "v7"})
        study = Study(server, tmp_path / "s.db", settings({"Safety": ("safety",)}))
        study.sync()
        assert study.sync(source=source_of(server, changed)).outcome == "ok"
        begin = datetime(2026, 11, 2, tzinfo=UTC) if changed.since else datetime(2026, 1, 1, tzinfo=UTC)
        stored = study.store.as_of().filter(pl.col("retired").is_null() & (pl.col("placed") >= begin))
        assert stored.select(KEPT).sort("record").equals(fresh(server, changed))
        requests = len(server.requests)
        study.sync(source=source_of(server, changed))
        assert len(server.requests) - requests <= 6


def test_closing_a_pull_ends_its_threads_and_its_requests() -> None:
    with LangfuseStandin() as server:
        server.add_scores(spread(20_000, step=15))
        server.faults.latency = 0.01
        threads = threading.active_count()
        pull = source_of(server).pull()
        live_chunk, live.CHUNK = live.CHUNK, 100
        try:
            next(pull)
            pull.close()  # type: ignore[attr-defined]
        finally:
            live.CHUNK = live_chunk
        sent = len(server.requests)
        threading.Event().wait(0.1)
        assert len(server.requests) <= sent + 1
        assert sent < 190  # of 200 pages
        assert threading.active_count() <= threads + 12  # the server's own threads for open connections


def test_neither_log_nor_error_nor_cursor_holds_a_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with LangfuseStandin(secret_key="sk-lf-very-secret") as server, caplog.at_level(logging.DEBUG):
        recent(server)
        study = Study(server, tmp_path / "s.db")
        study.sync()
        messages = []
        for accident in (lost_membership, unknown_key, a_login_page):
            accident(server)
            messages.append(study.sync(source=source_of(server)).message)
            server.faults.clear()
        messages += [str(study.store.source("judges")), *caplog.messages]
        assert all("very-secret" not in m for m in messages)


# runs


def run_items(server: LangfuseStandin, run: str = "run-1", n: int = 3, **experiment: Any) -> None:
    """Items of an experiment with a score each, as the SDK makes them: the score hangs on the item's observation."""
    for i in range(n):
        server.add_observation(f"{run}-o{i}", f"{run}-t{i}", start=day(29), experiment={"id": run, **experiment})
        server.add_score(id=f"{run}-{i}", name="safety", value=True, traceId=f"{run}-t{i}", observationId=f"{run}-o{i}",
                         timestamp=day(29), source="EVAL")  # fmt: skip


def test_scores_on_the_items_of_an_experiment_name_it(tmp_path: Path) -> None:
    with LangfuseStandin() as server:
        run_items(server)
        server.add_score(id="lone", name="safety", value=True, traceId="t9", timestamp=day(29))
        server.add_score(id="whole", name="safety", value=True, datasetRunId="run-1", timestamp=day(29))
        labels, aside, _ = read(source_of(server, settings(lift=True)))
        assert dict(labels.select("record", "run").rows()) == {
            "run-1-0": "run-1", "run-1-1": "run-1", "run-1-2": "run-1", "lone": None,
        }  # fmt: skip
        assert aside["cause"].to_list() == ["other_level"]
        labels, _, _ = read(source_of(server, settings(item="experiment")))
        assert labels.select("record", "run", "item").rows() == [("whole", "run-1", "run-1")]
        labels, _, _ = read(source_of(server, settings(lift=True, runs=False)))
        assert set(labels["run"]) == {None}


def test_scores_on_the_items_of_a_dataset_run_name_it() -> None:
    with LangfuseStandin("3.225") as server:
        client = source_of(server).server
        client.request("POST", "/v2/datasets", body={"name": "a/b c"})
        item = client.request("POST", "/dataset-items", body={"datasetName": "a/b c", "input": 1})
        body = {"runName": "run A", "datasetItemId": item["id"], "traceId": "t1", "metadata": {"state": "broken"}}
        run = client.request("POST", "/dataset-run-items", body=body)["datasetRunId"]
        server.add_score(id="a", name="safety", value=True, traceId="t1", timestamp=day(29))
        labels, _, _ = read(source_of(server))
        assert labels.select("record", "run", "retired").rows() == [("a", run, None)]
        labels, _, _ = read(source_of(server, settings(failed_runs={"state": ["broken", "aborted"]})))
        assert labels.select("record", "run", "retired").rows() == [("a", run, "run_failed")]


def test_a_run_whose_metadata_says_that_it_failed_retires_its_scores(tmp_path: Path) -> None:
    with LangfuseStandin() as server:
        run_items(server, "good")
        run_items(server, "bad", metadata={"status": "failed"})
        given = settings(lift=True, failed_runs={"status": "failed"})
        study = Study(server, tmp_path / "s.db", given)
        study.sync()
        expected = {f"good-{i}": None for i in range(3)} | {f"bad-{i}": "run_failed" for i in range(3)}
        assert dict(study.all_labels().select("record", "retired").rows()) == expected
        server.clock.advance(days=2)
        server.add_score(id="good-0", name="safety", value=False, traceId="good-t0", observationId="good-o0", timestamp=day(29),
                         source="EVAL")  # fmt: skip
        assert study.sync(source=source_of(server, settings(lift=True, failed_runs={"status": "failed"}))).changed == 1
        assert dict(study.all_labels().select("record", "retired").rows()) == expected


def test_a_run_too_old_to_be_listed_again_keeps_what_was_known_of_it(tmp_path: Path) -> None:
    with LangfuseStandin() as server:
        run_items(server, "bad", metadata={"status": "failed"})
        for observation in server.project.state.observations.values():
            observation["start"] -= 20 * live.DAY
        given = settings(lift=True, failed_runs={"status": "failed"})
        study = Study(server, tmp_path / "s.db", given)
        study.sync()
        before = study.all_labels()
        assert set(before["retired"]) == {"run_failed"}
        assert study.sync(source=source_of(server, given)).changed == 0
        assert study.all_labels().equals(before)


def test_the_scores_of_a_deleted_run_retire_with_it_once_it_is_asked_for(tmp_path: Path) -> None:
    with LangfuseStandin() as server:
        run_items(server, "kept")
        run_items(server, "deleted")
        study = Study(server, tmp_path / "s.db", settings(lift=True))
        study.sync()
        assert set(study.labels()["run"]) == {"kept", "deleted"}
        observations = server.project.state.observations
        for name in [name for name in observations if name.startswith("deleted")]:
            del observations[name]
        server.project.state.table.generation += 1
        study.sync(source=source_of(server, settings(lift=True)))
        retired = dict(study.all_labels().select("record", "retired").rows())
        assert retired == {f"kept-{i}": None for i in range(3)} | {f"deleted-{i}": "run_deleted" for i in range(3)}
        assert set(study.all_labels()["run"]) == {"kept", "deleted"}
        assert study.sync(source=source_of(server, settings(lift=True))).changed == 0


def test_a_deleted_runs_scores_go_with_it_even_where_another_run_looked_at_the_same_traces(tmp_path: Path) -> None:
    with LangfuseStandin() as server:
        for run in ("first", "second"):
            server.add_observation(f"{run}-o", "shared", start=day(29), experiment={"id": run})
            server.add_score(
                id=run, name="safety", value=True, traceId="shared", observationId=f"{run}-o", timestamp=day(29),
                source="EVAL",
            )  # fmt: skip
        study = Study(server, tmp_path / "s.db", settings(lift=True))
        study.sync()
        assert dict(study.labels().select("record", "run").rows()) == {"first": "first", "second": "second"}
        del server.project.state.observations["second-o"]
        server.project.state.table.generation += 1
        study.sync(source=source_of(server, settings(lift=True)))
        found = {
            record: (run, retired)
            for record, run, retired in study.all_labels().select("record", "run", "retired").rows()
        }
        assert found == {"first": ("first", None), "second": ("second", "run_deleted")}


@pytest.mark.parametrize("dialect", ["3.150", "3.225", "4.16-dual", "4.16-events-only"])
def test_the_model_behind_an_answer_is_a_fact_of_its_item(dialect: str) -> None:
    with LangfuseStandin(dialect) as server:
        for n, model in enumerate(["old", "new", None]):
            execution = f"execution-{n}"
            # facts/langfuse_api.md 4: the trace of an execution is the first half of the digest of its id
            trace = hashlib.sha256(execution.encode()).hexdigest()[:32]
            if model is not None:
                for call, name in (("first", "another"), ("last", model)):
                    server.add_observation(f"{call}-{n}", trace, start=day(29, 10 if call == "first" else 11),
                                           type="GENERATION", environment="langfuse-llm-as-a-judge", model=name)  # fmt: skip
            server.add_score(id=f"s{n}", name="safety", value=True, traceId=f"t{n}", timestamp=day(29), source="EVAL",
                             metadata={"job_execution_id": execution})  # fmt: skip
        pages = [one for one in source_of(server).pull() if isinstance(one, Page)]
        told = [row for page in pages for row in page.items.iter_rows() if row[1].startswith("model")]
        assert sorted(told) == [("t0", "model: safety", "old"), ("t1", "model: safety", "new")]
        asked = len([r for r in server.requests if "observations" in r.path])
        assert asked >= 1
        assert not [
            row
            for page in source_of(server, settings(models=False)).pull()
            if isinstance(page, Page)
            for row in page.items.iter_rows()
            if row[1].startswith("model")
        ]
        assert len([r for r in server.requests if "observations" in r.path]) == asked


def test_scores_that_were_all_written_at_once_are_not_taken_for_a_steady_stream() -> None:
    with LangfuseStandin() as server:
        server.add_scores(spread(2000, step=0.02))
        expected = source_of(server).expected()
        assert 1000 < expected.scores < 4000
        assert len(server.requests) < 40


def test_a_label_keeps_the_columns_that_a_store_compares() -> None:
    assert set(KEPT) <= set(read_columns())


def read_columns() -> list[str]:
    with LangfuseStandin() as server:
        return read(source_of(server))[0].columns


def test_a_held_pull_says_which_project_answers_now() -> None:
    with LangfuseStandin() as server:
        recent(server)
        another_project_on_the_way(server)
        with pytest.raises(Held, match=r"the key now shows scores of project other; nothing was changed"):
            read(source_of(server))

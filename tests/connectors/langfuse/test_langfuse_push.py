"""Results pushed to a Langfuse over real sockets: written once, proven by reading back, and taken back whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from calibrate_langfuse import push
from calibrate_langfuse.numbers import numbers
from calibrate_langfuse.push import Mark, batches, first_time
from langfuse_standin import LangfuseStandin
from langfuse_standin.table import Row
from live_langfuse import Study, day, read, settings, source_of

from calibrate_plugin import model
from calibrate_plugin.connector import Pushed, Results, SettingsError, Sink
from calibrate_plugin.model import LABELS, Dimension, Report, Scale, frame
from calibrate_plugin.report.build import Pulled, build

DIALECTS = ["3.50", "3.150", "3.225", "4.16-dual", "4.16-events-only", "4.35", "4.59"]
INGESTION = "POST /api/public/ingestion"
SCORES = "POST /api/public/scores"

#: Asha and Ben, Safety, of the worked example: agreement 3/4, chance 1/2, kappa 1/2; the judge 5/8, 1/2, 1/4.
ANSWERS = {"asha": "PPFF", "ben": "PPFP", "judge": "PFFP"}
ALIKE = {"asha": "PPPP", "ben": "PPPP", "judge": "PPPP"}


def report_of(answers: Mapping[str, str] = ANSWERS, *, dimension: str = "Safety", version: str = "v1") -> Report:
    rows = [
        {"item": f"t{i}", "field": dimension, "value": json.dumps({"P": "Pass", "F": "Fail"}[letter]), "rater": rater,
         "record": f"{rater}{i}", "kind": "evaluator" if rater == "judge" else "annotator", "state": "answered",
         "version": version if rater == "judge" else None}
        for rater, letters in answers.items() for i, letter in enumerate(letters)
    ]  # fmt: skip
    labels = frame(LABELS, pl.DataFrame(rows))
    scale = Scale("binary", labels=("Pass", "Fail"))
    study = model.Study("support", (Dimension(dimension, scale, values=("Pass", "Fail")),), resamples=50)
    return build(study, Pulled({"s": labels}), datetime(2026, 11, 30, tzinfo=UTC))[0]


def items(n: int = 3, agreement: float = 0.5, start: int = 0, dimension: str = "Safety") -> pl.DataFrame:
    return pl.DataFrame(
        {
            "item": [f"t{i}" for i in range(start, start + n)],
            "dimension": [dimension] * n,
            "agreement": [agreement] * n,
            "n_pairs": [2] * n,
            "disagree": [agreement < 1] * n,
        }
    )


NOTHING = items(0)


class Pusher:
    """What the store does around a push: keep what was written, and hand it to the next one."""

    def __init__(self, server: LangfuseStandin, *, push: dict[str, Any] | None = None, **options: Any) -> None:
        self.server = server
        self.source = source_of(server, settings(push={} if push is None else push, **options))
        self.written: dict[str, str] = {}

    def __call__(
        self, report: Report | None = None, of: pl.DataFrame = NOTHING, dry_run: bool = False, **more: Any
    ) -> Pushed:
        results = Results(report or report_of(), of, written=dict(self.written), **more)
        pushed = self.source.push(results, dry_run=dry_run)
        for write in pushed.writes:
            if write.outcome in ("written", "unchanged", "pending"):
                self.written[write.target] = write.digest
        return pushed

    def rows(self) -> list[Row]:
        self.server.settle()
        return list(self.server.project.state.table)


def outcomes(pushed: Pushed) -> dict[str, int]:
    found: dict[str, int] = {}
    for write in pushed.writes:
        found[write.outcome] = found.get(write.outcome, 0) + 1
    return found


ITEMS_ONLY = {"runs": False, "report": False}
REPORT_ONLY = {"runs": False, "items": False}


def test_a_source_without_a_push_table_writes_nothing() -> None:
    with LangfuseStandin() as server:
        source = source_of(server, settings())
        assert isinstance(source, Sink)
        assert source.push(Results(report_of(), items())) == Pushed(())
        assert len(server.requests) == 0


def test_a_push_table_takes_its_own_keys_only() -> None:
    with LangfuseStandin() as server:
        with pytest.raises(SettingsError, match=r"push\.judges\.item is not a setting"):
            Pusher(server, push={"item": True})()
        with pytest.raises(SettingsError, match="give true or false"):
            Pusher(server, push={"items": "yes"})()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_item_carries_its_agreement_and_whether_anybody_disagrees(dialect: str) -> None:
    with LangfuseStandin(dialect) as server:
        pusher = Pusher(server, push=ITEMS_ONLY)
        assert outcomes(pusher(of=items(3))) == {"written": 6}
        rows = sorted(pusher.rows(), key=lambda row: (row.trace_id or "", row.name))
        assert [(r.trace_id, r.name, r.data_type, r.number) for r in rows[:2]] == [
            ("t0", "calibrate.Safety.agreement", "NUMERIC", 0.5),
            ("t0", "calibrate.Safety.disagree", "BOOLEAN", 1.0),
        ]
        assert {row.environment for row in rows} == {"calibrate"}
        assert all(row.metadata["n_pairs"] == 2 and "calibrate_plugin" in row.metadata for row in rows)
        assert server.requests.counts()[SCORES if dialect == "4.59" else INGESTION] == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_same_results_again_write_nothing_and_ask_nothing(dialect: str) -> None:
    with LangfuseStandin(dialect) as server:
        pusher = Pusher(server)
        pusher(of=items(3))
        sent = len(server.requests)
        assert set(outcomes(pusher(of=items(3)))) == {"unchanged"}
        assert len(server.requests) == sent


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("later", [{"minutes": 5}, {"days": 3}])
def test_an_update_changes_the_one_row_and_never_makes_a_second(dialect: str, later: dict[str, float]) -> None:
    with LangfuseStandin(dialect) as server:
        pusher = Pusher(server, push=ITEMS_ONLY)
        pusher(of=items(3, 0.5))
        first = {row.id: row.timestamp for row in pusher.rows()}
        for agreement in (0.75, 1.0, 0.25):
            server.clock.advance(**later)
            assert set(outcomes(pusher(of=items(3, agreement)))) <= {"written", "unchanged"}
        server.project.state.table.merge_parts()
        rows = pusher.rows()
        assert {row.id: row.timestamp for row in rows} == first
        assert len(rows) == 6
        assert {row.number for row in rows if row.data_type == "NUMERIC"} == {0.25}


@pytest.mark.parametrize("dialect", ["3.225", "4.16-events-only", "4.59"])
def test_an_update_of_a_score_whose_events_are_no_longer_kept_stays_one_row(dialect: str) -> None:
    with LangfuseStandin(dialect) as server:
        pusher = Pusher(server, push=ITEMS_ONLY)
        pusher(of=items(3, 0.5))
        server.clock.advance(days=40)
        server.project.expire_event_store()
        assert outcomes(pusher(of=items(3, 0.75)))["written"] == 3
        server.project.state.table.merge_parts()
        rows = [row for row in pusher.rows() if row.data_type == "NUMERIC"]
        assert len(rows) == 3
        assert {row.number for row in rows} == {0.75}
        shown = source_of(server).reads.by_id([row.id for row in rows])
        assert {row["value"] for row in shown} == {0.75}


def test_a_score_first_written_before_midnight_keeps_to_its_day() -> None:
    before = int(datetime(2026, 11, 30, 23, 59, 59, 999_000, tzinfo=UTC).timestamp() * 1000)
    assert (first_time(before) + 500_000) // 86_400_000 == before // 86_400_000
    noon = int(datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp() * 1000)
    assert first_time(noon) == noon
    with LangfuseStandin() as server:
        server.clock.set("2026-11-30T23:59:58Z")
        pusher = Pusher(server, push=ITEMS_ONLY)
        for agreement in (0.5, 0.75, 1.0, 0.0):
            pusher(of=items(1, agreement))
        server.project.state.table.merge_parts()
        assert len(pusher.rows()) == 2


def test_a_lost_store_writes_nothing_twice() -> None:
    with LangfuseStandin() as server:
        pusher = Pusher(server, push=ITEMS_ONLY)
        pusher(of=items(5))
        before = {row.id: row.written for row in pusher.rows()}
        server.clock.advance(days=2)
        pusher.written.clear()
        assert outcomes(pusher(of=items(5))) == {"written": 10}
        assert {row.id: row.written for row in pusher.rows()} == before
        assert set(outcomes(pusher(of=items(5)))) == {"unchanged"}
        pusher.written.clear()
        pusher(of=items(5, 1.0))
        server.project.state.table.merge_parts()
        assert len(pusher.rows()) == 10


def test_ids_and_names_do_not_depend_on_when_or_in_what_company_a_score_is_written() -> None:
    with LangfuseStandin() as one, LangfuseStandin() as other:
        other.clock.advance(days=1)
        Pusher(one, push=ITEMS_ONLY)(of=items(2))
        Pusher(other, push=ITEMS_ONLY)(of=items(9))
        assert set(one.project.state.table.by_id) < set(other.project.state.table.by_id)


def test_an_item_that_has_no_pairs_any_more_loses_its_scores() -> None:
    with LangfuseStandin() as server:
        pusher = Pusher(server, push=ITEMS_ONLY)
        pusher(of=items(2))
        server.clock.advance(minutes=5)
        pushed = pusher(of=items(1))
        assert {w.target.split(" ", 2)[2]: w.outcome for w in pushed.writes} == {
            "trace t0 calibrate.Safety.agreement": "unchanged",
            "trace t0 calibrate.Safety.disagree": "unchanged",
            "trace t1 calibrate.Safety.agreement": "written",
            "trace t1 calibrate.Safety.disagree": "pending",
        }
        assert "one score every two minutes" in next(w.detail for w in pushed.writes if w.outcome == "pending")
        server.clock.advance(minutes=5)
        assert {row.trace_id for row in pusher.rows()} == {"t0"}
        assert set(outcomes(pusher(of=items(1)))) == {"unchanged"}
        assert outcomes(pusher(of=items(2))) == {"unchanged": 2, "written": 2}


def test_only_items_that_this_source_knows_are_written_to() -> None:
    with LangfuseStandin() as server:
        pusher = Pusher(server, push=ITEMS_ONLY)
        known = frame(LABELS, {"item": ["t1", "t9"]})
        pusher(of=items(5), known=lambda scope: known)
        assert {row.trace_id for row in pusher.rows()} == {"t1"}


@pytest.mark.parametrize(
    ("level", "column"), [("session", "session_id"), ("experiment", "run_id"), ("observation", "observation_id")]
)
def test_scores_hang_on_what_the_items_are(level: str, column: str) -> None:
    with LangfuseStandin() as server:
        pusher = Pusher(server, push=ITEMS_ONLY, item=level)
        known = frame(LABELS, {"item": ["t0", "t1"], "task": ["trace-a", None]})
        pusher(of=items(2), known=lambda scope: known)
        rows = pusher.rows()
        if level == "observation":  # an observation is named within its trace
            assert {(row.observation_id, row.trace_id) for row in rows} == {("t0", "trace-a")}
        else:
            assert {getattr(row, column) for row in rows} == {"t0", "t1"}


# what is proven


def test_what_is_accepted_and_never_stored_is_pending_and_sent_again() -> None:
    with LangfuseStandin() as server:
        pusher = Pusher(server, push=ITEMS_ONLY)
        poisoned = server.project.state.lost
        server.project._poisoned = lambda row: True  # type: ignore[method-assign]
        pushed = pusher(of=items(2))
        assert outcomes(pushed) == {"pending": 4}
        assert all("not stored or not yet visible" in w.detail for w in pushed.writes)
        assert len(poisoned) == 4
        del server.project._poisoned  # type: ignore[method-assign]
        assert outcomes(pusher(of=items(2))) == {"written": 4}
        assert set(outcomes(pusher(of=items(2)))) == {"unchanged"}


def test_what_shows_up_after_the_deadline_is_written_by_the_next_push_without_sending_it_again() -> None:
    with LangfuseStandin(visible_after=600) as server:
        pusher = Pusher(server, push=ITEMS_ONLY)
        assert outcomes(pusher(of=items(2))) == {"pending": 4}
        server.clock.advance(minutes=10)
        posts = server.requests.counts()[INGESTION]
        assert outcomes(pusher(of=items(2))) == {"written": 4}
        assert server.requests.counts()[INGESTION] == posts


def test_refused_and_pending_are_told_apart() -> None:
    with LangfuseStandin("3.50") as server:  # which has no scores on runs
        pusher = Pusher(server, push={"items": True, "runs": True, "report": False})
        pushed = pusher(of=items(1), runs={"run-1": report_of()})
        assert {w.outcome for w in pushed.writes if " run run-1 " in w.target} == {"refused"}
        assert {w.outcome for w in pushed.writes if " trace t0 " in w.target} == {"written"}
        assert all("traceId" in w.detail for w in pushed.writes if w.outcome == "refused")
        assert not any(" run " in target for target in pusher.written)


def test_a_list_of_which_some_are_rejected_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    with LangfuseStandin("4.59") as server:
        pusher = Pusher(server, push=ITEMS_ONLY)
        real = push.Score.body

        def spoiled(self: push.Score, times: int) -> dict[str, Any]:
            body = real(self, times)
            return {**body, "value": "often"} if self.name.endswith("disagree") else body

        monkeypatch.setattr(push.Score, "body", spoiled)
        pushed = pusher(of=items(2))
        assert outcomes(pushed) == {"written": 2, "refused": 2}
        assert all(w.target.endswith("disagree") for w in pushed.writes if w.outcome == "refused")


def test_a_server_that_goes_away_in_the_middle_leaves_the_truth_behind() -> None:
    with LangfuseStandin() as server:
        pusher = Pusher(server, push=ITEMS_ONLY)
        server.faults.server_error(method="POST", after=1, times=None)
        pushed = pusher(of=items(250))
        assert outcomes(pushed) == {"written": 200, "refused": 300}
        server.faults.clear()
        assert outcomes(pusher(of=items(250))) == {"unchanged": 200, "written": 300}
        assert len(pusher.rows()) == 500


@pytest.mark.parametrize("where", ["before", "after", "body"])
def test_a_write_whose_connection_breaks_is_tried_again_and_written_once(where: str) -> None:
    with LangfuseStandin() as server:
        pusher = Pusher(server, push=ITEMS_ONLY)
        server.faults.cut_at(1, where=where, method="POST")
        assert outcomes(pusher(of=items(20))) == {"written": 40}
        server.project.state.table.merge_parts()
        assert len(pusher.rows()) == 40


def test_batches_stay_below_what_a_server_takes() -> None:
    with LangfuseStandin("4.59") as server:
        server.project.clock.advance(1)
        big = report_of(dimension="D" * 3000)
        pusher = Pusher(server, push=ITEMS_ONLY)
        pushed = pusher(big, items(400, dimension="D" * 3000))
        assert outcomes(pushed) == {"written": 800}
        posts = server.requests.of(SCORES)
        assert all(len(post.body) < 1024 * 1024 for post in posts)
        assert all(len(post.json()) <= push.BATCH for post in posts)
    assert list(batches([])) == []


def test_no_lone_surrogate_ever_leaves() -> None:
    with LangfuseStandin() as server:
        report = report_of()
        dimension = report.dimensions[0]
        judge = replace(dimension.evaluators[0], evaluator="ju\ud800dge", version="v\udfff")
        hostile = replace(
            report, study="st\ud800udy", dimensions=(replace(dimension, name="Sa\ud800fe", evaluators=(judge,)),)
        )
        pusher = Pusher(server)
        pushed = pusher(hostile)
        assert outcomes(pushed) == {"written": 1}
        assert not server.project.state.lost
        assert any("Sa\ufffdfe.evaluators.ju\ufffddge" in row.name for row in pusher.rows())


# runs and reports


@pytest.mark.parametrize("dialect", ["3.150", "3.225", "4.16-dual", "4.16-events-only", "4.59"])
def test_a_run_carries_its_own_numbers(dialect: str) -> None:
    with LangfuseStandin(dialect) as server:
        pusher = Pusher(server, push={"items": False, "report": False})
        pusher(runs={"run-1": report_of(), "run-2": report_of(ALIKE)})
        rows = {(row.run_id, row.name): row for row in pusher.rows()}
        kappa = rows["run-1", "calibrate.Safety.evaluators.judge.kappa"]
        assert kappa.number == 0.25
        assert kappa.metadata["evaluator"] == {"name": "judge", "version": "v1"}
        assert (kappa.metadata["n_items"], kappa.metadata["n_pairs"], kappa.metadata["kind"]) == (4, 8, "cohen")
        status = rows["run-2", "calibrate.Safety.evaluators.judge.kappa.status"]
        assert (status.data_type, status.text) == ("CATEGORICAL", "same_answer")
        assert ("run-2", "calibrate.Safety.evaluators.judge.kappa") not in rows


def test_a_number_that_becomes_undefined_takes_its_old_value_with_it() -> None:
    with LangfuseStandin() as server:
        pusher = Pusher(server, push={"items": False, "report": False})
        pusher(runs={"run-1": report_of()})
        server.clock.advance(hours=1)
        pusher(runs={"run-1": report_of(ALIKE)})
        server.clock.advance(hours=2)
        names = {row.name for row in pusher.rows()}
        assert "calibrate.Safety.annotators.kappa.status" in names
        assert "calibrate.Safety.annotators.kappa" not in names


def test_only_runs_of_this_source_are_written_to() -> None:
    with LangfuseStandin() as server:
        pusher = Pusher(server, push={"items": False, "report": False})
        known = frame(LABELS, {"run": ["run-1", None]})
        pusher(runs={"run-1": report_of(), "another": report_of()}, known=lambda scope: known)
        assert {row.run_id for row in pusher.rows()} == {"run-1"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_report_is_a_small_trace_with_every_number(dialect: str) -> None:
    with LangfuseStandin(dialect) as server:
        pusher = Pusher(server, push=REPORT_ONLY)
        report = report_of()
        pushed = pusher(report)
        assert outcomes(pushed) == {"written": 1}
        [trace] = server.project.state.traces.values()
        assert (trace["name"], trace["environment"]) == ("calibrate report: support", "calibrate")
        rows = pusher.rows()
        assert {row.trace_id for row in rows} == {trace["id"]}
        assert {row.name for row in rows} == {number.name for number in numbers(report)}
        by = {row.name: row.number for row in rows}
        assert by["calibrate.Safety.annotators.kappa"] == 0.5
        assert by["calibrate.Safety.evaluators.judge.agreement"] == 0.625
        assert by["calibrate.Safety.disagreements.human_items"] == 1


def test_a_report_is_written_on_change_only_and_at_most_once_an_hour() -> None:
    with LangfuseStandin() as server:
        pusher = Pusher(server, push=REPORT_ONLY)
        pusher()
        server.clock.advance(hours=5)
        pushed = pusher(replace(report_of(), generated_at=datetime(2026, 12, 1, tzinfo=UTC)))
        assert (outcomes(pushed), len(server.project.state.traces)) == ({"unchanged": 1}, 1)
        pusher(report_of(ALIKE))
        assert len(server.project.state.traces) == 2
        server.clock.advance(minutes=30)
        pushed = pusher()
        assert outcomes(pushed) == {"unchanged": 1}
        assert "the next report trace is due at 18:" in pushed.writes[0].detail
        assert len(server.project.state.traces) == 2
        server.clock.advance(minutes=31)
        pusher()
        assert len(server.project.state.traces) == 3
        assert len({row.id for row in pusher.rows()}) == len(pusher.rows())


def test_a_report_that_was_not_proven_is_written_again_on_the_same_trace() -> None:
    with LangfuseStandin(visible_after=600) as server:
        pusher = Pusher(server, push=REPORT_ONLY)
        assert outcomes(pusher()) == {"pending": 1}
        server.clock.advance(minutes=3)
        assert len(pusher.written) == 1
        pusher()
        server.clock.advance(minutes=20)
        assert outcomes(pusher()) == {"written": 1}
        assert len(pusher.written) == 1
        assert len({row.trace_id for row in pusher.rows()}) == 1
        server.project.state.table.merge_parts()
        assert len(pusher.rows()) == len({row.name for row in pusher.rows()})


def test_an_evaluator_without_a_live_version_has_no_number() -> None:
    report = report_of()
    judge = report.dimensions[0].evaluators[0]
    undecided = replace(report.dimensions[0], evaluators=(replace(judge, live=None),))
    names = [number.name for number in numbers(replace(report, dimensions=(undecided,)))]
    assert not any(".evaluators." in name for name in names)


def test_two_versions_of_a_run_report_do_not_share_a_name() -> None:
    report = report_of()
    judge = report.dimensions[0].evaluators[0]
    both = replace(report.dimensions[0], evaluators=(judge, replace(judge, version="v0", live=False)))
    names = [number.name for number in numbers(replace(report, dimensions=(both,)))]
    assert len(names) == len(set(names))


def test_no_number_names_an_annotator() -> None:
    assert not any("asha" in json.dumps([n.name, n.comment, dict(n.beside)]) for n in numbers(report_of()))


# our own scores are not labels


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_was_pushed_never_comes_back_as_a_label(dialect: str, tmp_path: Path) -> None:
    with LangfuseStandin(dialect) as server:
        for i in range(3):
            server.add_score(id=f"s{i}", name="safety", value=True, traceId=f"t{i}", timestamp=day(29))
            server.add_trace(f"t{i}")
        study = Study(server, tmp_path / "s.db")
        study.sync()
        before = study.labels()
        pusher = Pusher(server)
        pusher(of=items(3))
        server.clock.advance(minutes=10)
        outcome = study.sync()
        assert (outcome.added, outcome.changed, outcome.quarantined) == (0, 0, 0)
        assert study.labels().equals(before)
        for level in ("trace", "experiment"):
            labels, _, _ = read(source_of(server, settings(item=level)))
            assert not any(field.startswith("calibrate.") for field in labels["field"])


# a dry run, and taking back


def test_a_dry_run_shows_what_a_push_would_write_and_writes_nothing() -> None:
    with LangfuseStandin() as server:
        pusher = Pusher(server)
        planned = pusher(of=items(2), runs={"run-1": report_of()}, dry_run=True)
        assert set(outcomes(planned)) == {"planned"}
        assert {r.method for r in server.requests} <= {"GET"}
        written = pusher(of=items(2), runs={"run-1": report_of()})
        targets = {w.target for w in written.writes}
        assert targets <= {w.target for w in planned.writes}
        report = [w for w in planned.writes if w.target not in targets]
        assert {w.target.split(" ")[2] for w in report} == {"report"}
        server.clock.advance(minutes=5)
        again = pusher(of=items(1), runs={"run-1": report_of()}, dry_run=True)
        assert [w.detail for w in again.writes if w.outcome == "planned"] == ["to be deleted"] * 2


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("store", ["kept", "lost"])
def test_unpush_removes_everything_of_ours_and_nothing_else(dialect: str, store: str) -> None:
    with LangfuseStandin(dialect, delete_interval=1) as server:
        server.add_score(id="theirs", name="safety", value=True, traceId="t0", timestamp=day(29))
        for name in ("t0", "t1", "t2"):
            server.add_trace(name)
        pusher = Pusher(server, push={"runs": dialect != "3.50"})
        pusher(of=items(3), runs={"run-1": report_of()} if dialect != "3.50" else {})
        server.clock.advance(hours=2)
        pusher(report_of(ALIKE), items(3))
        server.clock.advance(minutes=10)
        pushed = pusher.source.unpush(pusher.written if store == "kept" else {})
        assert set(outcomes(pushed)) <= {"written", "pending"}
        server.clock.advance(minutes=10)
        assert [row.id for row in pusher.rows()] == ["theirs"]
        assert set(server.project.state.traces) == {"t0", "t1", "t2"}
        assert pusher.source.unpush({}) == Pushed(())


def test_report_traces_go_in_one_job_and_single_scores_say_how_long_they_take(caplog: pytest.LogCaptureFixture) -> None:
    with LangfuseStandin() as server:
        pusher = Pusher(server)
        pusher(of=items(20))
        server.clock.advance(minutes=10)
        with caplog.at_level("INFO"):
            pushed = pusher.source.unpush(pusher.written)
        assert server.requests.counts()["DELETE /api/public/traces"] == 1
        assert server.requests.counts()["DELETE /api/public/scores/{id}"] == 40
        traces = [w for w in pushed.writes if w.target.startswith("trace ")]
        assert [w.outcome for w in traces] == ["written"]
        pending = [w for w in pushed.writes if w.outcome == "pending"]
        assert len(pending) > 30
        assert "Langfuse deletes one score every two minutes, about 7" in pending[0].detail
        assert any("40 scores to delete" in message and "80 min" in message for message in caplog.messages)
        server.clock.advance(hours=2)
        assert pusher.rows() == []


def test_a_daily_limit_of_deletions_is_told_and_the_rest_waits_for_another_day() -> None:
    with LangfuseStandin(plan="hobby") as server:
        pusher = Pusher(server, push=ITEMS_ONLY)
        pusher(of=items(40))
        pushed = pusher.source.unpush(pusher.written)
        assert outcomes(pushed)["refused"] == 80 - 49
        assert "opens again at 2026-12-01" in next(w.detail for w in pushed.writes if w.outcome == "refused")


def test_a_mark_is_read_as_it_was_written() -> None:
    for mark in (Mark("0" * 16, 5), Mark("f" * 16, 1_764_504_000_000, 7, True)):
        assert Mark.read(str(mark)) == mark
    assert Mark.read("gone") is None
    assert Mark.read(None) is None

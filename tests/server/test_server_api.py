"""The API says what the pages show, as its description promises, whatever it is asked."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from served_study import Served
from told import label, until

from calibrate_plugin.config import TargetTable, load
from calibrate_plugin.report import json as report_json


def get(served: Served, path: str) -> Any:
    answer = served.client().get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_report_is_the_one_of_the_contract(ready: Served) -> None:
    report = get(ready, "/api/v1/report")
    assert report["schema"] == report_json.SCHEMA
    assert ready.client().get("/api/v1/report").content == ready.service.state.body
    assert get(ready, "/api/v1/dimensions/Safety") == report["dimensions"][0]
    (study,) = get(ready, "/api/v1/studies")
    assert study["dimensions"] == ["Safety", "Empathy"] and study["runs"] == ["run v1", "run v2"]


def test_the_calibration_is_that_of_a_full_computation(ready: Served) -> None:
    from calibrate_plugin import cycle

    told = get(ready, "/api/v1/calibration")
    assert told["schema"] == report_json.SCHEMA
    store, state = ready.service.store, ready.service.state
    made, _ratings = cycle.report_now(store, ready.service.config, state.report.generated_at)
    anew = json.loads(report_json.render(made))
    for dimension, expected in zip(told["dimensions"], anew["dimensions"], strict=True):
        for judge, other in zip(dimension["evaluators"], expected["evaluators"], strict=True):
            assert judge == other and "verdict" in str(judge)
        assert {k: dimension[k] for k in ("gold", "icc", "judges_compared")} == {
            k: expected[k] for k in ("gold", "icc", "judges_compared")
        }


def test_a_page_tells_how_far_the_labels_are_from_their_target(ready: Served) -> None:
    assert "How the labels came to be" not in ready.client().get("/dimensions/Safety").text
    ready.service.config = replace(ready.service.config, target={"Safety": TargetTable(items=40)})
    ready.people.tell(label("ann1", "i1", "ann", '"Fail"'))
    ready.service.store.hint("people", "12")
    while ready.service.store.hints():
        ready.worker.step()
    ready.background.step()
    page = ready.client().get("/dimensions/Safety").text
    assert "How the labels came to be" in page and "12 of 40" in page
    told = {d["name"]: d for d in get(ready, "/api/v1/calibration")["dimensions"]}
    assert told["Safety"]["labelling"]["goals"][0]["asked"] == 40


def test_the_overview_says_where_numbers_are_of_items_chosen_by_their_labels(ready: Served) -> None:
    import os

    path = ready.service.config.path
    path.write_text(path.read_text() + '\n[design]\nkind = "stratified"\ndimension = "Safety"\njudge = "judge v1"\n')
    os.utime(path, (1, 1))
    ready.worker.step()
    ready.background.step()
    assert "describes the labelled items (chosen in strata of what judge v1 said)" in ready.client().get("/").text


def test_before_the_first_calibration_it_says_so(served: Served) -> None:
    while served.service.state is None:
        served.worker.step()
    answer = served.client().get("/api/v1/calibration")
    assert answer.status_code == 503 and answer.headers["retry-after"]


def test_why_names_the_cause_and_its_steps_add_up(ready: Served) -> None:
    assert ready.client().get("/api/v1/why?dimension=Safety").json() is None
    ready.people.tell(label("ann1", "i1", "ann", '"Fail"'))
    ready.service.store.hint("people", None)
    ready.turns(lambda: len(ready.service.store.reports()) == 2)
    told = get(ready, "/api/v1/why?dimension=Safety")
    assert told == get(ready, "/api/v1/why?dimension=Safety&since=%231")
    for one in told["numbers"]:
        assert [s["cause"] for s in one["steps"]] == ["changed"]
        assert sum(s["step"] for s in one["steps"]) == pytest.approx(one["difference"], abs=1e-12)
        (change,) = one["steps"][0]["changes"]
        assert (change["item"], change["rater"], change["after"]) == ("i1", "ann", '"Fail"')
    assert {n["statistic"] for n in told["numbers"]} >= {"human_score", "annotators.agreement", "annotators.kappa"}
    for wrong in ("tomorrow", "#999", "99999999"):
        assert ready.client().get("/api/v1/why", params={"dimension": "Safety", "since": wrong}).status_code == 422


def test_a_run_is_reported_with_its_own_version(ready: Served) -> None:
    (judge,) = get(ready, "/api/v1/runs/run%20v1")["dimensions"][0]["evaluators"]
    assert (judge["evaluator"], judge["version"]) == ("judge", "v1")


def test_before_the_first_computation_it_says_so(served: Served) -> None:
    client = served.client()
    assert client.get("/readyz").status_code == 503 and client.get("/healthz").status_code == 200
    assert client.get("/api/v1/report").status_code == 503
    assert client.get("/").status_code == 503


@pytest.mark.parametrize(
    "path", ["dimensions/None", "runs/none", "disagreements?dimension=None", "disagreements.csv?dimension=None"]
)
def test_what_is_not_there_is_not_found(ready: Served, path: str) -> None:
    assert ready.client().get(f"/api/v1/{path}").status_code == 404


def test_disagreements_are_filtered_and_paged(ready: Served) -> None:
    every = get(ready, "/api/v1/disagreements?dimension=Safety&size=200")
    assert every["total"] == len(every["items"]) > 5
    pages = [get(ready, f"/api/v1/disagreements?dimension=Safety&size=5&page={n}")["items"] for n in (1, 2, 3)]
    assert [one for page in pages for one in page] == every["items"][:15]
    humans = get(ready, "/api/v1/disagreements?dimension=Safety&kind=humans&size=200")
    assert all(one["among_humans"] for one in humans["items"])
    assert humans["total"] == ready.service.state.report.dimensions[0].disagreements.human_items
    judged = get(ready, "/api/v1/disagreements?dimension=Safety&evaluator=judge&version=v1&size=200")
    for one in judged["items"]:
        said = {a["rater"] + a["version"]: a["value"] for a in one["answers"]}
        assert said["judgev1"] != said["ann"] or said["judgev1"] != said["ben"]
    both = one["answers"]
    assert {a["reason"] for a in both} >= {"ann said so", "ben said so"}
    assert any((a["link"] or "").startswith("https://langfuse.example.com/trace/") for a in both)
    assert get(ready, "/api/v1/disagreements?dimension=Safety&annotator=nobody")["total"] == 0
    widest = get(ready, "/api/v1/disagreements?dimension=Empathy&size=200")["items"]
    assert [one["distance"] for one in widest] == sorted((one["distance"] for one in widest), reverse=True)


def test_disagreements_of_a_version_that_is_not_live(ready: Served) -> None:
    path = ready.service.config.path
    path.write_text(path.read_text().replace('file = "judges.csv"', 'file = "judges.csv"\nlive = { judge = "v2" }'))
    config = load(path)
    ready.service.config = replace(config, sources=ready.service.config.sources)
    ready.turns(lambda: ready.service.state.report.dimensions[0].evaluators[0].live)
    assert [e.version for e in ready.service.state.report.dimensions[0].evaluators] == ["v2"]
    found = get(ready, "/api/v1/disagreements?dimension=Safety&evaluator=judge&version=v1&size=200")
    assert found["total"] > 3
    people, judges = ready.people.rows, ready.judges.rows
    for one in found["items"]:
        n = one["item"].removeprefix("i")
        said = json.loads(judges[f"v1{n}", "Safety"]["value"])
        (judge,) = (a for a in one["answers"] if a["kind"] == "evaluator")
        assert (judge["version"], judge["value"]) == ("v1", said)
        assert any(json.loads(people[f"{p}{n}", "Safety"]["value"]) != said for p in ("ann", "ben"))
    page = "/disagreements?dimension=Safety&evaluator=judge&version=v1"
    until(lambda: f"{found['total']} items" in ready.client().get(page).text)
    assert '<option value="v1">' in ready.client().get("/disagreements?dimension=Safety").text


def test_the_csv_has_what_is_shown(ready: Served) -> None:
    table = ready.client().get("/api/v1/disagreements.csv?dimension=Safety&kind=humans").text
    items = get(ready, "/api/v1/disagreements?dimension=Safety&kind=humans&size=200")["items"]
    assert len(table.splitlines()) == 1 + sum(len(one["answers"]) for one in items)


def test_history_has_every_report(ready: Served) -> None:
    ready.people.tell(label("ann1", "i1", "ann", '"Fail"'))
    ready.service.store.hint("people", None)
    ready.turns(lambda: len(ready.service.history.points) >= 2)
    points = get(ready, "/api/v1/history?dimension=Safety&statistic=agreement")
    assert points[-1]["value"] == ready.service.state.report.dimensions[0].annotators.agreement.value
    assert [p["report"] for p in points] == sorted(p["report"] for p in points)


def test_metrics_have_the_numbers_themselves(ready: Served) -> None:
    text = ready.client().get("/metrics").text
    kappa = ready.service.state.report.dimensions[0].annotators.kappa.value
    assert f'calibrate_measure{{dimension="Safety",statistic="kappa",subject="annotators"}} {kappa}' in text
    verdict = r'calibrate_calibration{dimension="Safety",evaluator="judge",statistic="verdict: '
    assert verdict in text and 'statistic="beside_humans.difference",version="v1"}' in text
    for name in ("calibrate_hints_open", "calibrate_lag_seconds", "calibrate_sync_seconds_count", "calibrate_parked"):
        assert name in text


def test_health_and_syncs(ready: Served) -> None:
    health = get(ready, "/api/v1/health")
    assert health["status"] == "ok" and [s["outcome"] for s in health["sources"]] == ["ok", "ok"]
    assert {s["source"] for s in get(ready, "/api/v1/syncs")} == {"people", "judges"}


def test_no_request_that_the_description_allows_breaks_it(ready: Served) -> None:
    import schemathesis
    from hypothesis import given
    from schemathesis import GenerationMode
    from schemathesis.generation.case import Case  # noqa: F401  the type that the strategy gives

    client = ready.client()
    described = client.get("/api/v1/openapi.json").json()
    schema = schemathesis.openapi.from_dict(described)
    asked = 0
    statuses: dict[int, int] = {}
    for result in schema.get_all_operations():
        operation = result.ok()

        @settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(
            operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
            | operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
        )
        def ask(case: Any) -> None:
            nonlocal asked
            told = case.as_transport_kwargs(base_url="http://localhost")
            answer = client.request(
                told["method"], told["url"], params=told.get("params"), json=told.get("json"), content=told.get("data")
            )
            assert answer.status_code < 500, (case.method, case.formatted_path, answer.text)
            asked += 1
            statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1

        ask()
    assert asked > 100 and {200, 202, 404, 422} <= statuses.keys(), statuses
    assert json.dumps(described).count('"get"') >= 9

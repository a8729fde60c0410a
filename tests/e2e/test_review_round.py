"""Where two people disagree a third is asked, blind, in a real Label Studio; the answer is gold and moves no agreement."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from test_sample_round import GUIDELINE, SECRET, World, answer, call, fill, number_of, ran, world

__all__ = ["world"]


def test_disagreements_go_to_a_third_person_whose_answers_are_gold(world: World) -> None:
    fill(world.langfuse, 60)
    Path("guideline.md").write_text(GUIDELINE)
    ran("run", "--no-push")
    ran("sample", "--n", "12", "--floor", "1", "--people", "2")
    project = world.project()
    first, second, third = world.label_studio.people
    tasks = world.tasks(project)
    for place, task in enumerate(tasks):
        answer(world, task["id"], first, True, "nothing in it harms")
        answer(world, task["id"], second, place >= 3, "it might")
    before = json.loads(ran("run", "--no-push", "--format", "json").stdout)["dimensions"][0]
    assert before["disagreements"]["human_items"] == 3
    assert "3 items to send (--dry-run" in ran("disagreements", "send", "--dry-run").output
    assert "review" not in tomllib.loads(Path("calibrate.toml").read_text())

    sent = ran("disagreements", "send")
    assert "3 tasks made, 0 were there already; their answers are gold" in sent.output
    (job,) = tomllib.loads(Path("calibrate.toml").read_text())["review"]["jobs"]
    assert "# keep me" in Path("calibrate.toml").read_text()
    assert f"/projects/{job}" in sent.output
    reviewed = world.tasks(job)
    differing = {number_of(t) for t in tasks[:3]}
    assert {number_of(t) for t in reviewed} == differing
    assert {t["overlap"] for t in reviewed} == {1}
    # neither the judge's answer nor those of the two people are anywhere in them
    assert not re.search(f"{SECRET}|it might|nothing in it harms|ann[12]@", json.dumps([t["data"] for t in reviewed]))
    assert "0 tasks made, 3 were there already" in ran("disagreements", "send").output
    assert f"people, project {job}: 3 tasks, one annotator each, as it was made for" in call("check").output

    for task in reviewed:
        answer(world, task["id"], third, False, "it names a dose")
    after = json.loads(ran("run", "--no-push", "--format", "json").stdout)["dimensions"][0]
    assert after["annotators"] == before["annotators"]
    assert {r["name"] for r in after["raters"] if r["kind"] == "annotator"} == {first.email, second.email}
    listed = json.loads(ran("disagreements", "list", "--between", "humans", "--format", "json").stdout)["Safety"][
        "items"
    ]
    gold = {(a["rater"], a["value"], a["reason"]) for one in listed for a in one["answers"] if a["kind"] == "gold"}
    assert gold == {(third.email, "Fail", "it names a dose")}
    assert (after["gold"]["rule"], after["gold"]["decided"], after["gold"]["resolved"]) == ("majority", 12, 3)

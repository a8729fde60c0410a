"""Makes the two exports of this example: 60 answered questions, three annotators, two judges, one of them in two versions.

What it plays is what real projects look like: annotators who skip, are unsure, miss items and change their minds; a draft;
an answer given after seeing a prediction; an expert's ground truth; a judge that sometimes gives nothing to read.

    python make.py
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

HERE = Path(__file__).parent
START = datetime(2026, 11, 2, 9, tzinfo=UTC)
PEOPLE = {11: "mara@example.com", 12: "jonas@example.com", 13: "yuki@example.com"}
EXPERT = 14
TOPICS = ("refund", "delivery", "account", "warranty", "invoice")
ISSUES = ("tone", "facts", "format")
HELP = ("not helpful", "partly", "helpful")
#: How often each rater sees what is there, and how lenient they are where they do not.
SIGHT = {11: 0.92, 12: 0.86, 13: 0.80}


def main() -> None:
    """Write both files beside this script."""
    rng = random.Random(20261102)
    items = [_item(rng, n) for n in range(1, 61)]
    (HERE / "label-studio-project-7.json").write_text(
        json.dumps(_tasks(rng, items), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    rows = _scores(rng, items)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (HERE / "langfuse-scores.jsonl").write_text(lines, encoding="utf-8")


def _item(rng: random.Random, n: int) -> dict:
    resolved = rng.random() < 0.7
    tone = min(5, max(1, round(rng.gauss(3.9 if resolved else 2.6, 0.9))))
    return {
        "n": n,
        "trace": f"tr-{n:03d}",
        "topic": rng.choice(TOPICS),
        "language": rng.choice(("en", "en", "de")),
        "resolved": resolved,
        "tone": tone,
        "issues": [i for i in ISSUES if rng.random() < (0.12 if resolved else 0.4)],
        "help": 2 if resolved and tone > 2 else 0 if not resolved and tone < 4 else 1,
        "better": rng.choices(("left", "right"), (0.6, 0.4))[0],
    }


def _seen(rng: random.Random, item: dict, sight: float) -> dict:
    """What a rater who sees ``sight`` of what is there answers."""
    clear = rng.random() < sight
    return {
        "resolved": item["resolved"] if clear else rng.random() < 0.75,
        "tone": min(5, max(1, item["tone"] + (0 if rng.random() < sight - 0.25 else rng.choice((-1, 1))))),
        "issues": [i for i in ISSUES if (i in item["issues"]) == (rng.random() < sight)],
        "help": item["help"] if clear else rng.randrange(3),
        "better": item["better"] if rng.random() < sight - 0.1 else rng.choice(("left", "right")),
    }


def _tasks(rng: random.Random, items: list[dict]) -> list[dict]:
    tasks, ids = [], iter(range(1, 10_000))
    for item in items:
        annotations, drafts = [], []
        for person, sight in SIGHT.items():
            draw = rng.random()
            if draw < 0.08:
                continue  # a gap: this person never saw the task
            at = START + timedelta(minutes=3 * item["n"] + (person - 10) * 400)
            if draw < 0.12:
                annotations.append(_annotation(next(ids), person, [], at, item, skipped=True))
                continue
            seen = _seen(rng, item, sight)
            unsure = draw < 0.17
            annotations.append(_annotation(next(ids), person, _results(seen, unsure), at, item))
            if draw > 0.93:  # a change of mind, as a second annotation
                later = _annotation(
                    next(ids), person, _results(_seen(rng, item, 0.97), False), at + timedelta(days=1), item
                )
                annotations.append(later)
            elif draw > 0.90:  # an answer that began as the judge's own
                annotations[-1]["parent_prediction"] = 500 + item["n"]
        if item["n"] % 6 == 0:
            truth = _annotation(next(ids), EXPERT, _results(item, False), START + timedelta(days=5), item)
            truth["ground_truth"] = True
            annotations.append(truth)
        if item["n"] == 17:
            drafts = [{"id": 1, "user": "mara@example.com", "result": _results(item, False), "task": 17}]
        tasks.append(
            {
                "id": item["n"],
                "annotations": annotations,
                "drafts": drafts,
                "predictions": [],
                "data": {
                    "trace_id": item["trace"],
                    "question": f"A customer asks about: {item['topic']}.",
                    "topic": item["topic"],
                    "language": item["language"],
                },
                "project": 7,
                "created_at": _time(START),
                "updated_at": _time(START + timedelta(days=6)),
            }
        )
    return tasks


def _annotation(
    ident: int, person: int, result: list[dict], at: datetime, item: dict, *, skipped: bool = False
) -> dict:
    return {
        "id": ident,
        "completed_by": {
            "id": person,
            "email": PEOPLE.get(person, "expert@example.com"),
            "first_name": "",
            "last_name": "",
        },
        "result": result,
        "was_cancelled": skipped,
        "ground_truth": False,
        "created_at": _time(at),
        "updated_at": _time(at),
        "lead_time": 20.0 + ident % 30,
        "task": item["n"],
        "project": 7,
        "parent_prediction": None,
        "updated_by": person,
    }


def _results(seen: dict, unsure: bool) -> list[dict]:
    verdict = "unsure" if unsure else "resolved" if seen["resolved"] else "open"
    parts = [
        ("verdict", "choices", {"choices": [verdict]}),
        ("tone", "rating", {"rating": seen["tone"]}),
        ("help", "choices", {"choices": [HELP[seen["help"]]]}),
        ("better", "pairwise", {"selected": seen["better"]}),
        (
            "why",
            "textarea",
            {"text": ["The customer can act on it." if seen["resolved"] else "The question stays open."]},
        ),
    ]
    if seen["issues"]:
        parts.append(("issues", "choices", {"choices": seen["issues"]}))
    return [
        {"id": f"{name}1", "from_name": name, "to_name": "reply", "type": kind, "origin": "manual", "value": value}
        for name, kind, value in parts
    ]


def _scores(rng: random.Random, items: list[dict]) -> list[dict]:
    rows: list[dict] = []
    judges = (("strict-judge", "v1", 0.70, 0), ("strict-judge", "v2", 0.88, 2), ("mild-judge", "v5", 0.74, 1))
    for judge, version, sight, day in judges:
        for item in items:
            if judge == "mild-judge" and item["n"] > 50:
                continue  # it was switched off before the last ten
            seen = _seen(rng, item, sight)
            if judge == "mild-judge" and not seen["resolved"] and rng.random() < 0.5:
                seen["resolved"] = True
            verdict = "resolved" if seen["resolved"] else "open"
            if version == "v2" and item["n"] in (8, 31):
                verdict = "I'm sorry, but I can't judge that."
            at = START + timedelta(days=day, minutes=item["n"])
            answers = {"verdict": verdict, "tone": seen["tone"], "help": HELP[seen["help"]]}
            for name, value in answers.items():
                rows.append(_score(f"{judge}-{name}", version, item, value, at))
    for item in items:
        tagged = _seen(rng, item, 0.85)
        rows += [_score("issue-tagger-issues", "v1", item, tag, START, execution=True) for tag in tagged["issues"]]
        rows.append(_score("picker-better", "v1", item, tagged["better"], START))
    return rows


def _score(name: str, version: str, item: dict, value: object, at: datetime, *, execution: bool = False) -> dict:
    metadata: dict = {"evaluator_id": name, "evaluator_version_id": version}
    if execution:
        metadata["job_execution_id"] = f"job-{name}-{item['n']}"
    return {
        "id": f"{name}-{version}-{item['n']}" + (f"-{value}" if execution else ""),
        "projectId": "support",
        "name": name,
        "dataType": "NUMERIC" if isinstance(value, int) else "CATEGORICAL",
        "value": value,
        "source": "EVAL",
        "timestamp": at.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "environment": "production",
        "comment": f"{name} {version}: {value}",
        "metadata": metadata,
        "subject": {"kind": "trace", "id": item["trace"]},
    }


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.000000Z")


if __name__ == "__main__":
    main()

"""Reports made by hand: the numbers of the worked example (two annotators, one judge, four replies) and harder ones."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from calibrate_plugin.model import (
    AnnotatorsReport,
    Answer,
    Counts,
    Coverage,
    DimensionReport,
    Disagreement,
    Disagreements,
    EvaluatorReport,
    Interval,
    Measure,
    PairReport,
    RaterInfo,
    RaterReport,
    Reason,
    Report,
    Scale,
    SetAside,
    Slice,
)

AT = datetime(2026, 10, 1, 12, 30, tzinfo=UTC)
BINARY = Scale("binary", labels=("Pass", "Fail"))
RATING = Scale("rating", low=Fraction(1), high=Fraction(5), step=Fraction(1))
ORDINAL = Scale("ordinal", labels=("low", "mid", "high"))
PREFERENCE = Scale("preference", labels=("A", "B", "tie"), fixed=False)


def number(
    value: float | Fraction,
    n_items: int = 4,
    n_pairs: int | None = None,
    ends: tuple[float, float] | None = None,
    warnings: tuple[str, ...] = (),
    **details: Any,
) -> Measure:
    """A defined measure; with ``ends`` it has an interval, without it has too few items for one."""
    return Measure(
        float(value),
        None,
        n_items,
        n_pairs,
        interval=Interval(*ends, 0.95, "item-bootstrap+3", 2000, 3) if ends else None,
        interval_reason=None if ends else "too_few_items",
        details=details,
        warnings=warnings,
    )


def undefined(reason: Reason, n_items: int = 0, n_pairs: int | None = 0, **details: Any) -> Measure:
    return Measure(None, reason, n_items, n_pairs, interval_reason="not_applicable", details=details)


def cohen(value: float | Fraction, chance: float | Fraction, n_items: int, n_pairs: int, **more: Any) -> Measure:
    return number(value, n_items, n_pairs, kind="cohen", chance=float(chance), form="pairs", **more)


def annotators(
    agreement: Measure,
    kappa: Measure,
    *,
    counted: tuple[str, ...] = ("Asha", "Ben"),
    pairs: tuple[PairReport, ...] = (),
    each: tuple[RaterReport, ...] = (),
    alpha: Measure | None = None,
    metric: str = "nominal",
    binary: bool = True,
) -> AnnotatorsReport:
    alpha = alpha or undefined("nothing_to_compare", metric=metric)
    missing = undefined("not_applicable")
    return AnnotatorsReport(
        agreement=agreement,
        kappa=kappa,
        alpha=alpha,
        alphas={metric: alpha},
        ac=number(0.52, 4, 4, weights="identity"),
        pabak=number(0.5, 4, 4),
        positive_agreement=number(0.8, 4, 4) if binary else missing,
        negative_agreement=number(2 / 3, 4, 4) if binary else missing,
        counted=counted,
        pairs=pairs,
        each=each,
    )


def evaluator(
    score: Measure,
    humans: Measure,
    agreement: Measure,
    kappa: Measure,
    counts: Counts,
    *,
    name: str = "safety-judge",
    version: str = "v3",
    live: bool | None = True,
    each: tuple[PairReport, ...] = (),
) -> EvaluatorReport:
    missing = undefined("not_applicable")
    return EvaluatorReport(
        evaluator=name,
        version=version,
        live=live,
        score=score,
        on_shared_items=(score, humans),
        agreement=agreement,
        kappa=kappa,
        counts=counts,
        each=each,
        pabak=number(0.25, 4, 8),
        positive_agreement=missing,
        negative_agreement=missing,
    )


def dimension(
    name: str, scale: Scale, people: AnnotatorsReport, evaluators: Sequence[EvaluatorReport], **more: Any
) -> DimensionReport:
    given: dict[str, Any] = {
        "human_score": undefined("no_labels", n_pairs=None),
        "raters": (),
        "judges": (),
        "fleiss_all": undefined("nothing_to_compare", kind="fleiss"),
        "alpha_all": undefined("nothing_to_compare", metric="nominal"),
        "disagreements": Disagreements(0, 0, 0, ()),
        "set_aside": {},
        "set_aside_listed": (),
        "slices": (),
    }
    return DimensionReport(name=name, scale=scale, annotators=people, evaluators=tuple(evaluators), **{**given, **more})


def report(*dimensions: DimensionReport, **more: Any) -> Report:
    given: dict[str, Any] = {
        "study": "support-agent",
        "generated_at": AT,
        "coverage": Coverage(4, 4, 4, 4, 26, 24, {}, ()),
        "sources": ("people", "judges"),
    }
    return Report(dimensions=dimensions, **{**given, **more})


def _answer(rater: str, kind: Any, value: str, reason: str | None = None, link: str | None = None) -> Answer:
    return Answer(rater, kind, "v3" if kind == "evaluator" else "", value, reason, AT, link)


def seed() -> Report:
    """The worked example's two dimensions, with the numbers that its page gives."""
    task = "https://label-studio.example/tasks/"
    trace = "https://langfuse.example/trace/"
    safety_pair = PairReport(
        "Asha",
        "Ben",
        number(Fraction(3, 4), 4, 4),
        cohen(Fraction(1, 2), Fraction(1, 2), 4, 4),
        Counts(("Pass", "Fail"), ((2, 1), (0, 1)), "Asha", "Ben"),
    )
    safety_judge = (
        PairReport(
            "safety-judge",
            "Asha",
            number(Fraction(3, 4), 4, 4),
            cohen(Fraction(1, 2), Fraction(1, 2), 4, 4),
            Counts(("Pass", "Fail"), ((2, 0), (1, 1)), "safety-judge", "Asha"),
        ),
        PairReport(
            "safety-judge",
            "Ben",
            number(Fraction(1, 2), 4, 4),
            cohen(0, Fraction(1, 2), 4, 4),
            Counts(("Pass", "Fail"), ((1, 1), (1, 1)), "safety-judge", "Ben"),
        ),
    )
    safety = dimension(
        "Safety",
        BINARY,
        annotators(
            number(Fraction(3, 4), 4, 4),
            cohen(Fraction(1, 2), Fraction(1, 2), 4, 4),
            pairs=(safety_pair,),
            each=(
                RaterReport("Asha", number(0.75, 4, n_labels=4), number(0.75, 4, 4), cohen(0.5, 0.5, 4, 4)),
                RaterReport("Ben", number(0.5, 4, n_labels=4), number(0.75, 4, 4), cohen(0.5, 0.5, 4, 4)),
            ),
            alpha=number(Fraction(8, 15), 4, 4, metric="nominal"),
        ),
        [
            evaluator(
                number(0.5, 4),
                number(Fraction(5, 8), 4, n_labels=8),
                number(Fraction(5, 8), 4, 8),
                cohen(Fraction(1, 4), Fraction(1, 2), 4, 8),
                Counts(("Pass", "Fail"), ((3, 1), (2, 2)), "safety-judge v3", "annotators"),
                each=safety_judge,
            )
        ],
        human_score=number(Fraction(5, 8), 4, n_labels=8),
        raters=(
            RaterInfo("Asha", "annotator", "", 4, 4, (3, 1)),
            RaterInfo("Ben", "annotator", "", 4, 4, (2, 2)),
            RaterInfo("safety-judge", "evaluator", "v3", 4, 4, (2, 2)),
        ),
        fleiss_all=number(Fraction(1, 3), 4, 12, kind="fleiss", chance=0.5),
        alpha_all=number(0.375, 4, 12, metric="nominal"),
        disagreements=Disagreements(
            1,
            2,
            4,
            (
                Disagreement(
                    "2",
                    1.0,
                    True,
                    True,
                    (
                        _answer("Asha", "annotator", "Pass", "polite, and it names the risk", f"{task}2"),
                        _answer("Ben", "annotator", "Fail", "gives a dose without asking for the age", f"{task}2"),
                        _answer(
                            "safety-judge", "evaluator", "Pass", "No unsafe content was found.", f"{trace}t2?peek=1"
                        ),
                    ),
                ),
                Disagreement(
                    "4",
                    1.0,
                    False,
                    True,
                    (
                        _answer("Asha", "annotator", "Pass", None, f"{task}4"),
                        _answer("Ben", "annotator", "Pass", None, f"{task}4"),
                        _answer("safety-judge", "evaluator", "Fail", "Refuses to help.\nToo cautious.", f"{trace}t4"),
                    ),
                ),
            ),
        ),
        set_aside={"superseded": 1, "other_version": 1, "abstained": 0},
        set_aside_listed=(
            SetAside("superseded", "annotation 12", "2", "Asha", "Fail", "answered again at 12:10"),
            SetAside("other_version", "score s-1", "2", "safety-judge", "Fail", None),
        ),
    )
    empathy = dimension(
        "Empathy",
        RATING,
        annotators(
            number(Fraction(7, 8), 4, 4),
            cohen(Fraction(3, 5), Fraction(11, 16), 4, 4),
            pairs=(
                PairReport(
                    "Asha",
                    "Ben",
                    number(Fraction(7, 8), 4, 4),
                    cohen(Fraction(3, 5), Fraction(11, 16), 4, 4),
                    Counts(
                        ("1", "2", "3", "4", "5"),
                        ((0,) * 5, (0, 0, 1, 0, 0), (0, 1, 0, 0, 0), (0, 0, 0, 1, 0), (0, 0, 0, 0, 1)),
                        "Asha",
                        "Ben",
                    ),
                ),
            ),
            each=(
                RaterReport("Asha", number(3.5, 4, n_labels=4), number(0.875, 4, 4), cohen(0.6, 0.6875, 4, 4)),
                RaterReport("Ben", number(3.5, 4, n_labels=4), number(0.875, 4, 4), cohen(0.6, 0.6875, 4, 4)),
            ),
            metric="interval",
            alpha=number(0.83, 4, 4, metric="interval"),
            binary=False,
        ),
        [
            evaluator(
                number(3.75, 4),
                number(3.5, 4, n_labels=8),
                number(Fraction(3, 4), 4, 8),
                cohen(Fraction(1, 5), Fraction(11, 16), 4, 8),
                Counts(
                    ("1", "2", "3", "4", "5"),
                    ((0,) * 5, (0, 1, 1, 0, 0), (0,) * 5, (0, 1, 1, 0, 2), (0, 0, 0, 2, 0)),
                    "empathy-judge v3",
                    "annotators",
                ),
                name="empathy-judge",
            )
        ],
        human_score=number(3.5, 4, n_labels=8),
        raters=(
            RaterInfo("Asha", "annotator", "", 4, 4, (0, 1, 1, 1, 1)),
            RaterInfo("Ben", "annotator", "", 4, 4, (0, 1, 1, 1, 1)),
            RaterInfo("empathy-judge", "evaluator", "v3", 4, 4, (0, 1, 0, 2, 1)),
        ),
        disagreements=Disagreements(
            2,
            4,
            9,
            (
                Disagreement(
                    "2",
                    0.5,
                    True,
                    True,
                    (
                        _answer("Asha", "annotator", "3"),
                        _answer("Ben", "annotator", "2"),
                        _answer("empathy-judge", "evaluator", "4"),
                    ),
                ),
            ),
        ),
    )
    return report(safety, empathy)


def undefined_numbers() -> Report:
    """One dimension for each way in which a kappa can be missing, and an evaluator without a live version."""
    table = Counts(("Pass", "Fail"), ((0, 0), (0, 0)), "judge", "annotators")
    nothing = undefined("nothing_to_compare")
    lonely = dimension(
        "One annotator",
        BINARY,
        annotators(nothing, undefined("nothing_to_compare", kind="cohen"), counted=()),
        [
            evaluator(
                number(0.145, 200),
                undefined("no_labels", n_pairs=None),
                nothing,
                nothing,
                table,
                name="judge",
                version="v1",
                live=None,
            ),
            evaluator(
                number(0.5, 200),
                undefined("no_labels", n_pairs=None),
                nothing,
                nothing,
                table,
                name="judge",
                version="v2",
                live=None,
            ),
        ],
        human_score=number(1.0, 3, n_labels=3),
        notes=("judge has 2 versions and none is named live",),
    )
    single = dimension(
        "One item",
        BINARY,
        annotators(number(1 / 3, 1, 3), undefined("single_item", 1, 3, kind="fleiss"), counted=("Asha", "Ben", "Cy")),
        [],
    )
    same = dimension(
        "Same answer",
        BINARY,
        annotators(number(1.0, 12, 12, ends=(1.0, 1.0)), undefined("same_answer", 12, 12, kind="cohen")),
        [],
    )
    empty = dimension("No labels", RATING, annotators(nothing, nothing, counted=(), binary=False), [])
    return report(lonely, single, same, empty)


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "[/] [bold red]markup[/bold red]",
    "\x1b[31mred\x1b[0m\x9b31m",
    "=HYPERLINK(1)",
    "lone \ud800 surrogate",
    "right \u202eto left",
    "{{ 7*7 }} {% raw %}",
    "nul \x00 and \x07 bell\nsecond line",
    "]]> --> &amp; </svg></style></template>",
    "datum.value + '\\'",
    "",
    "\uffff" + "x" * 5000,
)


def hostile() -> Report:
    """Every text that a platform can give is an attack."""
    names = HOSTILE
    pairs = tuple(
        PairReport(a, b, number(0.5, 4, 4), cohen(0.25, 0.5, 4, 4), Counts(names[:2], ((1, 0), (0, 1)), a, b))
        for a, b in itertools.pairwise(names)
    )
    links = ("javascript:alert(1)", "data:text/html,x", "http://[bad", 'https://x.example/"onload="')
    texts = zip(names, reversed(names), itertools.chain(links, itertools.repeat(None)), strict=False)
    answers = (
        *(Answer(name, "annotator", "", text, text, AT, link) for name, text, link in texts),
        Answer("judge", "evaluator", names[0], "Pass", names[1], None, "https://ok.example/a?b=1&c=<2>"),
        Answer("judge", "evaluator", names[0], "Pass", names[1], None, "https://ok.example/a?b=1&c=[2]"),
    )
    scale = Scale("nominal", labels=names[:5])
    one = dimension(
        names[0],
        scale,
        annotators(number(0.5), cohen(0.5, 0.5, 4, 4), counted=names, pairs=pairs),
        [
            evaluator(
                undefined("not_applicable"),
                undefined("not_applicable"),
                number(0.5, 4, 4),
                cohen(0.5, 0.5, 4, 4, warnings=(names[0],)),
                Counts(names[:5], tuple(tuple(range(5)) for _ in range(5)), names[0], names[1]),
                name=names[0],
                version=names[1],
            )
        ],
        raters=tuple(RaterInfo(name, "annotator", name, 4, 4, (1, 1, 1, 1, 0)) for name in names),
        disagreements=Disagreements(1, 1, 3, (Disagreement(names[3], 1.0, True, True, answers),)),
        set_aside={"rejected": 3, names[0]: 1},
        set_aside_listed=(SetAside(names[0], names[1], names[2], names[3], names[4], names[5]),),
        notes=names,
        slices=(Slice(names[0], names[1], seed().dimensions[0]),),
    )
    return report(
        one,
        study=names[0],
        sources=names,
        coverage=Coverage(1, 1, 1, 1, 1, 1, {names[1]: 2}, (SetAside(*names[:6]),)),
    )


def many(
    raters: int, categories: int, dimensions: int, *, listed: int = 1000, judges: int = 2, seed: int = 0
) -> Report:
    """A study of the given size with plausible numbers, the same ones each time."""
    draw = random.Random(seed)
    people = [f"annotator-{i:02d}" for i in range(raters)]

    def kappa() -> Measure:
        if draw.random() < 0.05:
            return undefined("nothing_to_compare", kind="cohen")
        value = draw.uniform(-0.1, 0.95)
        return cohen(value, 0.4, 40, 40, ends=(value - 0.2, min(1.0, value + 0.15)))

    def counts(a: str, b: str, labels: tuple[str, ...]) -> Counts:
        table = tuple(
            tuple(draw.randrange(200) if i == j else draw.randrange(9) for j in range(len(labels)))
            for i in range(len(labels))
        )
        return Counts(labels, table, a, b)

    def pair(a: str, b: str) -> PairReport:
        return PairReport(a, b, number(draw.uniform(0.4, 1), 40, 40), kappa())

    def one(index: int) -> DimensionReport:
        labels = tuple(f"category {i:02d}" for i in range(categories))
        scale = BINARY if categories == 2 else RATING if categories == 5 else Scale("nominal", labels=labels)
        labels = scale.names
        reports = []
        for j in range(judges):
            name = f"judge-{j}"
            score = number(0.6, 4000, ends=(0.55, 0.65))
            reports.append(
                evaluator(
                    score,
                    score,
                    number(0.7, 900, 1800, ends=(0.65, 0.75)),
                    kappa(),
                    counts(f"{name} v1", "annotators", labels),
                    name=name,
                    version="v1",
                    each=tuple(pair(name, person) for person in people),
                )
            )
        lists = tuple(
            Disagreement(
                f"trace-{index}-{i:05d}",
                1.0,
                i % 2 == 0,
                True,
                tuple(
                    Answer(
                        draw.choice(people) if k < 2 else "judge-0",
                        "annotator" if k < 2 else "evaluator",
                        "",
                        draw.choice(labels),
                        "The answer leaves out what was asked for, " * draw.randrange(1, 6),
                        AT,
                        f"https://langfuse.example/project/p/traces/{i}",
                    )
                    for k in range(3)
                ),
            )
            for i in range(listed)
        )
        return dimension(
            f"Dimension {index:02d}",
            scale,
            annotators(
                number(0.74, 1000, 3000, ends=(0.7, 0.78)),
                number(0.55, 1000, 3000, ends=(0.48, 0.61), kind="fleiss", chance=0.42, form="pairs"),
                counted=tuple(people),
                pairs=tuple(pair(a, b) for i, a in enumerate(people) for b in people[i + 1 :]),
                each=tuple(
                    RaterReport(
                        person,
                        number(draw.uniform(0.3, 0.8), 60, n_labels=60, ends=(0.3, 0.8)),
                        number(draw.uniform(0.5, 0.9), 60, 120, ends=(0.5, 0.9)),
                        kappa(),
                    )
                    for person in people
                ),
                alpha=number(0.56, 1000, 3000, ends=(0.5, 0.6), metric="nominal"),
            ),
            reports,
            human_score=number(0.61, 1000, n_labels=2500, ends=(0.58, 0.64)),
            raters=tuple(
                RaterInfo(
                    name, kind, "v1" if kind == "evaluator" else "", 60, 60, tuple(draw.randrange(50) for _ in labels)
                )
                for kind, names in (("annotator", people), ("evaluator", [f"judge-{j}" for j in range(judges)]))
                for name in names
            ),
            judges=(pair("judge-0", "judge-1"),) if judges > 1 else (),
            disagreements=Disagreements(400, 600, 2400, lists),
            set_aside={"superseded": 120, "abstained": 33, "rejected": 4},
        )

    return report(
        *(one(i) for i in range(dimensions)),
        study="large study",
        coverage=Coverage(4000, 1000, 4000, 900, 120000, 118000, {"no_item": 12, "unreadable": 1}, ()),
    )


def other_scales() -> Report:
    """Ordinal and preference dimensions, three annotators, intervals, warnings and slices."""
    large = many(3, 5, 1, listed=3).dimensions[0]
    ordinal = replace(
        many(3, 3, 1, listed=3).dimensions[0],
        name="Severity",
        scale=ORDINAL,
        human_score=undefined("not_applicable", n_pairs=None),
        slices=(Slice("language", "de", large), Slice("language", "fr", large)),
    )
    preference = replace(
        many(4, 3, 1, listed=3).dimensions[0],
        name="Which is better",
        scale=PREFERENCE,
        human_score=undefined("not_applicable", n_pairs=None),
    )
    return report(replace(large, name="Helpfulness"), ordinal, preference, study="three annotators")

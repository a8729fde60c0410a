"""Projects of a running Label Studio as a source of labels.

The first load is a snapshot export. Later pulls read the tasks changed since, by the server's own clock, and give each
anew: a task's labels are always replaced together. What moves no clock (a deleted task or person, annotations moved by the
removal of duplicates) is found by a manifest of ids, times and people when the number of tasks or the list of people does
not add up, and by reading everything when that is asked for.
"""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import IO, Any

import polars as pl

from calibrate_label_studio import checks, discovery, labelling, push, webhooks
from calibrate_label_studio.annotations import PREDICTION, Reading, Rows, called, time_of
from calibrate_label_studio.export import tasks as read_tasks
from calibrate_label_studio.file import ROWS
from calibrate_label_studio.jobs import Jobs
from calibrate_label_studio.labelling import Controls
from calibrate_label_studio.listing import TaskPage, Tasks, wire_time
from calibrate_label_studio.options import reading
from calibrate_label_studio.server import Broken, Half, Refused, Server
from calibrate_plugin.connector import (
    ConnectorError,
    Covered,
    Discovery,
    Finding,
    Form,
    Held,
    Incoming,
    Look,
    NewTask,
    Page,
    Placed,
    Pushed,
    Results,
    Scope,
    SettingsError,
    Since,
    SourceSettings,
    Unavailable,
)

log = logging.getLogger(__name__)

OVERLAP = timedelta(seconds=30)  # a change is stamped before it is stored
MOST_SEEN = 20_000  # tasks that a cursor remembers; beyond that the overlap is read again
MANY_SEEN = 500  # tasks within the overlap, as after an import; beyond that they are counted, not listed
AHEAD = timedelta(seconds=60)  # a stamp further in the future than that is nobody's clock
SNAPSHOT = "calibrate-plugin"
FORGOTTEN = timedelta(hours=2)  # a snapshot of ours that is older was left behind by a crash
PATIENCE = 3600.0  # seconds for a server to make a snapshot
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CURSOR = 1  # the form of a cursor


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a project was read: up to a change at ``at``, when it had ``tasks`` tasks and asked ``asked``. ``seen`` are
    the tasks read in a state stamped within the overlap, with that stamp (microseconds), ``poisoned`` tasks that could not be read.
    A project that is ``gone`` was proven deleted."""

    at: str | None = None
    tasks: int = 0
    asked: str = ""
    seen: Mapping[str, int] = field(default_factory=dict)
    poisoned: tuple[int, ...] = ()
    gone: bool = False


@dataclass(slots=True)
class Cursor:
    """Where the next pull goes on: a mark per project, what was wanted, and who there was."""

    wanted: str
    users: tuple[int, ...] = ()
    projects: dict[str, Mark] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str | None, wanted: str) -> Cursor:
        """A stored cursor; an empty one if it is none, or if the study wants something else by now."""
        try:
            told = json.loads(text or "{}")
            if told.get("form") != CURSOR or told["wanted"] != wanted:
                return cls(wanted)
            marks = {
                p: Mark(**{**m, "seen": dict(m["seen"]), "poisoned": tuple(m["poisoned"])})
                for p, m in told["projects"].items()
            }
            return cls(wanted, tuple(told["users"]), marks)
        except (ValueError, TypeError, LookupError, AttributeError):
            return cls(wanted)

    def text(self) -> str:
        marks = {p: asdict(m) for p, m in self.projects.items()}
        told = {"form": CURSOR, "wanted": self.wanted, "users": self.users, "projects": marks}
        return json.dumps(told, separators=(",", ":"))


def _digest(*values: Any) -> str:
    return hashlib.sha256(repr(values).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def wanted(reading: Reading) -> str:
    """A digest of what a study reads. When it changes, what was read before no longer serves."""
    return _digest(
        reading.item,
        reading.fields if reading.fields is None else sorted(reading.fields),
        reading.reasons if reading.reasons is None else sorted(reading.reasons.items(), key=repr),
        sorted((name, versions and sorted(versions)) for name, versions in reading.predictions.items()),
        reading.ground_truth,
        reading.url,
    )


def project_ids(settings: SourceSettings) -> tuple[int, ...]:
    """The projects that a study names. Raises SettingsError."""
    given: Any = settings.options.get("projects")
    ids = given if isinstance(given, list | tuple) else [given]
    if given is None:
        raise SettingsError(
            f"sources.{settings.name}: give the projects, like projects = [12, 13], or a file; projects = [] where"
            " `calibrate-plugin sample` is to make the first"
        )
    found = []
    for number in ids:
        text = str(number)
        if isinstance(number, bool) or not text.isascii() or not text.isdigit():
            raise SettingsError(
                f"sources.{settings.name}.projects: {number!r} is no project id; it is the number in the address"
            )
        found.append(int(text))
    return tuple(dict.fromkeys(found))


class LiveProjects:
    """The projects that a study names, on the server that it names."""

    def __init__(self, settings: SourceSettings, connect: Callable[[SourceSettings], Server] = Server.of) -> None:
        self.settings = settings
        self.ids = project_ids(settings)
        push.revealed(settings)  # what is wrong there is said before anything is pulled
        self.server = connect(settings)
        self.version: str | None = None
        self.reading: Reading = replace(reading(settings), url=self.server.url)

    # -- who and where

    def whoami(self) -> dict[str, Any]:
        """The key's owner. Raises Refused where the key is not accepted."""
        me = self.server.get("/api/current-user/whoami")
        if not isinstance(me, dict) or "id" not in me:
            raise Unavailable(f"{self.server.url}/api/current-user/whoami names nobody")
        return me

    def identity(self) -> str:
        """The server and the organization whose labels the key shows."""
        organization = self.whoami().get("active_organization")
        if organization is None:
            raise Held(
                f"{self.server.url}: the key's owner is a member of no organization any more, so nothing can be seen;"
                " the labels stay as they are. Invite them again, or give another key in LABEL_STUDIO_API_KEY"
            )
        made = ""
        try:
            made = self.server.get(f"/api/organizations/{int(organization)}").get("created_at") or ""
        except Refused as refusal:
            log.debug("the organization does not tell its age: %s", refusal)
        return f"Label Studio {self.server.url}, organization {organization}" + (f" of {made}" if made else "")

    def _people(self) -> dict[str, str | None]:
        """Everybody who is or was a member, by id, and how they are called."""
        people = self.server.get("/api/users/")
        if not isinstance(people, list):
            raise Unavailable(f"{self.server.url}/api/users/ gives no list")
        return {
            str(p["id"]): called(
                [v for v in (p.get("first_name"), p.get("last_name"), p.get("email")) if isinstance(v, str)]
            )
            for p in people
            if isinstance(p, dict) and "id" in p
        }

    @property
    def requests(self) -> int:
        """The requests sent so far."""
        return self.server.requests

    @property
    def platform(self) -> str | None:
        """Name and version of the server, once a pull has asked."""
        return self.version

    def projects(self) -> list[tuple[int, str]]:
        """The id and title of every project that the key shows."""
        return sorted(self.listed_projects().items())

    # -- pulling

    def pull(self, since: Since | None = None) -> Iterator[Page | Covered]:
        since = since or Since()
        cursor = Cursor.read(since.cursor, wanted(self.reading))
        if self.version is None:
            told = self.server.get("/api/version")
            self.version = f"Label Studio {told.get('release')}" if isinstance(told, dict) else None
        people = self._people()
        users = tuple(sorted(int(p) for p in people if p.isdigit()))
        somebody_left = not set(cursor.users) <= set(users)
        for project in self.ids:
            if since.jobs is None or str(project) in since.jobs:
                pull = _ProjectPull(self, project, since, cursor, people)
                yield from pull.run(due=somebody_left or since.gone)
        # The projects that were not looked at have yet to learn who left.
        cursor.users = users if since.jobs is None else tuple(sorted({*cursor.users, *users}))
        yield Covered(Scope(jobs=(), tasks=()), cursor.text())

    def prove_deleted(self, project: int) -> None:
        """Return only if the project was deleted; else raise Held. A 404 alone may be a lost permission."""
        keep = f"project {project} of {self.server.url} cannot be read any more"
        stay = "its labels stay as they are"
        self.identity()
        edition = self.server.get("/api/version")
        if not isinstance(edition, dict) or edition.get("edition") != "Community":
            raise Held(f"{keep}, and this edition does not tell a lost permission from a deletion; {stay}")
        for turn in range(2):
            if turn:
                self.server.sleep(1)
            if project in self.listed_projects():
                raise Held(f"{keep}, although it is listed; {stay}. Look at the permissions of the key's owner")

    def listed_projects(self) -> dict[int, str]:
        """The id and title of every project that the key shows."""
        found: dict[int, str] = {}
        page, path = 1, "/api/projects/"
        while True:
            answer = self.server.get(path, {"page": page, "page_size": 500, "include": "id,title"})
            results = answer.get("results") if isinstance(answer, dict) else None
            if not isinstance(results, list):
                raise Unavailable(f"{self.server.url}{path} gives no list of projects")
            found |= {p["id"]: str(p.get("title", "")) for p in results if isinstance(p, dict) and "id" in p}
            if not answer.get("next"):
                if len(found) < answer.get("count", 0):
                    raise Unavailable(f"{self.server.url}{path} gives {len(found)} of {answer['count']} projects")
                return found
            page += 1

    # -- the rest of what a connector can do

    def check(self) -> list[Finding]:
        """Reachable, authorised, set up so that people can agree, and what to change."""
        return checks.check(self)

    def discover(self) -> Discovery:
        """Dimensions from the labelling configurations, and ways to name an item from a sample of tasks."""
        configurations: dict[str, Controls] = {}
        sample: list[dict[str, Any]] = []
        versions: list[str] = []
        notes: list[str] = []
        for number in self.ids:
            project = self.server.project(number)
            configurations[str(number)] = labelling.from_project(project)
            sample += next(Tasks(self.server, number).data()).tasks[: discovery.SAMPLE]
            if project.get("total_predictions_number"):
                columns = self.server.get("/api/dm/columns", {"project": number}).get("columns", ())
                found = [c for c in columns if c.get("id") == "predictions_model_versions"]
                versions += [str(v) for c in found for v in (c.get("schema") or {}).get("items", ())]
            if project.get("maximum_annotations", 1) == 1:
                notes.append(
                    f"project {number} gives each task to one annotator only; `calibrate-plugin check` says how to change it"
                )
        return discovery.discovery(configurations, sample, versions, notes=notes)

    def push(self, results: Results, *, dry_run: bool = False) -> Pushed:
        """Write what differs: the line in each description, columns and tab where they may be shown."""
        return push.Projects(self.server, self.settings, self.ids).push(results, dry_run)

    # -- labelling jobs

    @property
    def _jobs(self) -> Jobs:
        return Jobs(self.server, self.settings, self.reading.item)

    def find_job(self, form: Form) -> str | None:
        return self._jobs.find(form)

    def make_job(self, form: Form) -> str:
        return self._jobs.make(form)

    def check_job(self, job: str, form: Form, *, answered: bool = False) -> list[Finding]:
        return self._jobs.check(job, form, answered=answered)

    def placed(self, job: str) -> Iterator[Placed]:
        return self._jobs.placed(job)

    def add_tasks(self, job: str, form: Form, tasks: Iterable[NewTask]) -> Iterator[Placed]:
        return self._jobs.add(job, form, tasks)

    def remove_job(self, job: str, form: Form) -> None:
        self._jobs.remove(job, form)

    def job_link(self, job: str) -> str:
        return f"{self.server.url}/projects/{job}/data"

    focuses = True
    wants_body = False

    def accepts(self, incoming: Incoming) -> Look:
        """The project that a webhook names in its address, if it has the secret; its body may be anything."""
        return webhooks.accepts(self.settings, self.ids, incoming)

    def install_webhooks(self, url: str, secret: str) -> list[Finding]:
        return webhooks.install(self.server, self.ids, url, secret)

    def webhooks(self, url: str) -> list[Finding]:
        return webhooks.status(self.server, self.ids, url)

    def remove_webhooks(self, url: str) -> list[Finding]:
        return webhooks.remove(self.server, self.ids, url)

    def unpush(self, written: Mapping[str, str]) -> Pushed:
        """Remove all that carries our mark from these projects and those once written to."""
        return push.Projects(self.server, self.settings, self.ids).unpush(written)


class _ProjectPull:
    """One pull of one project."""

    def __init__(
        self, source: LiveProjects, project: int, since: Since, cursor: Cursor, people: Mapping[str, str | None]
    ) -> None:
        self.source, self.server, self.project = source, source.server, project
        self.since, self.cursor, self.people = since, cursor, people
        self.job = str(project)
        self.tasks = Tasks(source.server, project)
        self.controls: Controls = {}
        self.poisoned: set[int] = set()
        self.seen: dict[str, int] = {}
        self.start: datetime | None = None  # of what the next pull looks at again

    def run(self, due: bool) -> Iterator[Page | Covered]:
        mark = self.cursor.projects.get(self.job)
        try:
            told = self.server.project(self.project)
        except Refused as refusal:
            if refusal.status not in (403, 404):
                raise
            yield from self._gone(mark, refusal)
            return
        self.controls = labelling.from_project(told)
        asked = _digest(self.controls)
        newest, total = self._newest()
        self.start = newest - OVERLAP if newest else None
        was = time_of(mark.at) if mark else None
        if mark is None or mark.gone or mark.asked != asked or self.since.full:
            yield from self._all(total)
        else:
            due = due or (was is not None and (newest is None or newest < was))
            if due:  # first, as it is what sees a server that has gone back in time
                yield from self._reconciled()
            added = yield from self._changed(mark, newest)
            if not due and mark.tasks + added != total:
                yield from self._reconciled()
        at = newest or was
        seen = self.seen if len(self.seen) <= MOST_SEEN else {}
        poisoned = tuple(sorted(self.poisoned))
        self.cursor.projects[self.job] = Mark(wire_time(at) if at else None, total, asked, seen, poisoned)
        yield self._covered(())

    def _newest(self) -> tuple[datetime | None, int]:
        """When a task was last changed by the server's clock, and how many tasks there are."""
        told, total = self.tasks.newest()
        newest = time_of(told)
        if newest is not None and self.server.skew is not None:
            newest = min(newest, datetime.now(UTC) + self.server.skew + AHEAD)
        return newest, total

    def _saw(self, number: str, stamp: int | None) -> None:
        """A task was read in the state of its stamp; the next pull need not read it again for the sake of the overlap."""
        if stamp is not None and (self.start is None or stamp >= _micros(self.start)):
            self.seen[number] = stamp

    def _covered(self, tasks: tuple[str, ...] | None, cause: str = "label_deleted") -> Covered:
        return Covered(Scope(jobs=(self.job,), tasks=tasks), self.cursor.text(), cause)

    def _gone(self, mark: Mark | None, refusal: Refused) -> Iterator[Page | Covered]:
        if mark is None and self.since.known(Scope(jobs=(self.job,))).is_empty():
            self.source.identity()
            listed = self.source.listed_projects()
            names = ", ".join(f"{number} ({title})" for number, title in list(listed.items())[:20]) or "none"
            raise SettingsError(
                f"sources.{self.source.settings.name}.projects: {self.server.url} shows no project {self.project};"
                f" with this key it shows {names}"
            ) from refusal
        self.source.prove_deleted(self.project)
        self.cursor.projects[self.job] = Mark(gone=True)
        yield self._covered(None, "job_deleted")

    # -- pages

    def _page(self, rows: Rows) -> Page:
        page = rows.page()
        raters = page.labels["rater"].unique().drop_nulls()
        return replace(page, names={r: name for r in raters if (name := self.people.get(r)) is not None})

    def _rows(self) -> Rows:
        return Rows(self.source.reading, f"project {self.project}")

    def _spoiled(self, rows: Rows, ids: list[int]) -> None:
        for number in ids:
            if number in self.poisoned:
                continue  # said already in this pull
            self.poisoned.add(number)
            rows.put_aside(
                "unreadable",
                f"task {number} cannot be given by the server (it answers 500), mostly because of a broken character in its"
                " data or in an answer; its labels stay as they were last read. Mend or delete the task",
                record=f"task {number}",
            )

    def _replaced(self, page: TaskPage) -> Iterator[Page | Covered]:
        """Tasks that stand for all of their labels."""
        rows = self._rows()
        for task in page.tasks:
            rows.task({**task, "project": self.project}, self.controls)
            self._saw(str(task["id"]), _stamp(task))
        self._spoiled(rows, page.poisoned)
        self.poisoned -= set(page.ids)
        if page.tasks or page.poisoned:
            yield self._page(rows)
        if page.tasks:
            yield self._covered(tuple(str(number) for number in page.ids))

    # -- everything

    def _all(self, total: int) -> Iterator[Page | Covered]:
        known = self.since.known(Scope(jobs=(self.job,)))
        before = _Before(known, self.source.reading)
        if before.tasks:
            yield from self._deleted(before.tasks.keys() - _texts(self.tasks.ids()))
        rows, count = self._rows(), 0
        for task in self._snapshot():
            if isinstance(task, TaskPage):
                count += len(task.poisoned)
                self._spoiled(rows, task.poisoned)
                for number in task.poisoned:  # what is known of it is said again, and so stays
                    before.keep(str(number))
                    yield Page(known.filter(pl.col("task") == str(number)))
                continue
            count += 1
            if before.tasks:
                before.compare(task)
            rows.task(task, self.controls)
            self._saw(str(task["id"]), _stamp(task))
            if len(rows) >= ROWS:
                yield self._page(rows)
        if count < total and count < self.tasks.newest()[1]:
            raise Unavailable(f"project {self.project}: {count} of {total} tasks came; nothing was changed, try again")
        self._not_restored(before)
        yield self._page(rows)
        yield self._covered(None)

    def _snapshot(self) -> Iterator[Any]:
        """All tasks from a snapshot export, which is made and removed for it; where the server cannot make one, from
        pages, with pages for what is poisoned among them."""
        path = f"/api/projects/{self.project}/exports/"
        with tempfile.TemporaryFile() as spool:
            try:
                made = self._make(path)
            except (Refused, Broken) as error:
                log.info("project %s makes no snapshot (%s); its tasks are listed", self.project, error)
                made = None
            if made is not None:
                try:
                    if made.get("status") == "completed":
                        self._spool(f"{path}{made['id']}/download", made.get("md5"), spool)
                        try:
                            yield from read_tasks(spool, f"the snapshot of project {self.project}")
                        except SettingsError as error:
                            raise Unavailable(str(error)) from None
                        return
                finally:
                    self._remove(f"{path}{made['id']}")
        for page in self.tasks.whole():
            if page.poisoned:
                yield TaskPage([], page.poisoned)
            for task in page.tasks:
                yield {**task, "project": self.project}

    def _make(self, path: str) -> dict[str, Any]:
        for old in self.server.get(path):
            made_at = time_of(old.get("created_at"))
            if old.get("title") == SNAPSHOT and made_at is not None and datetime.now(UTC) - made_at > FORGOTTEN:
                self._remove(f"{path}{old['id']}")
        wanted = {
            "title": SNAPSHOT,
            "serialization_options": {
                "predictions": {"only_id": not self.source.reading.predictions},
                "drafts": {"only_id": True},
                "annotations__completed_by": {"only_id": True},
            },
        }
        made = self.server.write("POST", path, wanted)
        waited = 0.0
        while isinstance(made, dict) and made.get("status") in ("created", "in_progress"):
            if waited >= PATIENCE:
                raise Unavailable(f"project {self.project}: no snapshot within {PATIENCE / 60:.0f} minutes")
            self.server.sleep(2)
            waited += 2
            made = self.server.get(f"{path}{made['id']}")
        if not isinstance(made, dict) or "id" not in made:
            raise Unavailable(f"{self.server.url}{path} makes no snapshot")
        return made

    def _spool(self, path: str, md5: Any, spool: IO[bytes]) -> None:
        """Bring a snapshot to disk, whole or not at all."""
        for attempt in range(1, 4):
            seen = hashlib.md5(usedforsecurity=False)
            spool.seek(0)
            spool.truncate()
            try:
                with self.server.download(path, {"exportType": "JSON"}) as chunks:
                    for chunk in chunks:
                        seen.update(chunk)
                        spool.write(chunk)
                if md5 and md5 != seen.hexdigest():
                    raise Half(f"{self.server.url}{path}: only part of the snapshot came")
            except Half:
                if attempt == 3:
                    raise
                self.server.sleep(attempt)
                continue
            spool.seek(0)
            return

    def _remove(self, path: str) -> None:
        try:
            self.server.write("DELETE", path)
        except ConnectorError as error:
            log.warning("a snapshot of project %s stays on the server: %s", self.project, error)

    # -- what changed

    def _changed(self, mark: Mark, newest: datetime | None) -> Generator[Page | Covered, None, int]:
        """Tasks changed since the mark. Returns how many of them are new since it, up to ``newest``."""
        added = 0
        was = time_of(mark.at)
        again = set(mark.poisoned)
        for task in self._listed(mark, was):
            added += _between(was, time_of(task.get("created_at")), newest)
            number, stamp = str(task["id"]), _stamp(task)
            if stamp is not None and mark.seen.get(number) == stamp:
                self._saw(number, stamp)
            else:
                again.add(task["id"])
        for page in self.tasks.by_id(sorted(again - self.poisoned), fields="all"):
            yield from self._replaced(page)
        return added

    def _listed(self, mark: Mark, was: datetime | None) -> Iterator[dict[str, Any]]:
        """The ids and times of what changed at or after the mark, and of what was stamped shortly before it.

        After an import that is everything. Then what lies before the mark is only counted: as many as were seen there and
        have not changed since means that nothing came late, short of a second change to one of them within the overlap.
        """
        if was is None or len(mark.seen) <= MANY_SEEN:
            start = was - OVERLAP if was else None
        else:
            later = [task for page in self.tasks.changed(was + timedelta(microseconds=1)) for task in page.tasks]
            moved = {str(task["id"]) for task in later}
            if self.tasks.between(was - OVERLAP, was) == len(mark.seen.keys() - moved):
                for number in mark.seen.keys() - moved:
                    self._saw(number, mark.seen[number])
                yield from later
                return
            start = was - OVERLAP
        for page in self.tasks.changed(start):
            yield from page.tasks

    def _deleted(self, tasks: set[str]) -> Iterator[Page | Covered]:
        """Known tasks that a list does not show: gone, if a second list does not show them either."""
        if not tasks:
            return
        self.source.identity()
        gone = tasks - _texts(self.tasks.ids())
        if gone:
            yield self._covered(tuple(sorted(gone)), "item_deleted")

    def _reconciled(self) -> Iterator[Page | Covered]:
        """Compare what is known with the ids, times and people that the server lists, and read again what differs."""
        before = _Before(self.since.known(Scope(jobs=(self.job,))), self.source.reading)
        differing: list[int] = []
        for page in self.tasks.manifest(bool(self.source.reading.predictions)):
            differing += [task["id"] for task in page.tasks if before.compare(task)]
            for number in page.poisoned:
                before.keep(str(number))
        self._not_restored(before)
        for page in self.tasks.by_id([number for number in differing if number not in self.poisoned], fields="all"):
            yield from self._replaced(page)
        yield from self._deleted(before.tasks.keys() - before.there)

    def _not_restored(self, before: _Before) -> None:
        if sign := before.sign():
            raise self._restored(sign)

    def _restored(self, sign: str) -> Held:
        return Held(
            f"project {self.project} of {self.server.url} has gone back in time ({sign}), as after restoring a backup;"
            " the labels stay as they are. If the server is right, read everything anew into a new store"
        )


class _Before:
    """What is known of a project, to be compared with what it shows now: by task, each record's time and whether its person
    is known to be deleted."""

    def __init__(self, known: pl.DataFrame, wants: Reading) -> None:
        self.wants = wants
        self.tasks: dict[str, dict[str, tuple[datetime | None, bool]]] = {}
        records = (
            known.filter(pl.col("record").is_not_null() & pl.col("task").is_not_null())
            .group_by("task", "record")
            .agg(pl.col("at").max(), pl.col("retired").is_not_null().all())
        )
        for task, record, at, retired in records.iter_rows():
            self.tasks.setdefault(task, {})[record] = at, retired
        self.there: set[str] = set()  # tasks compared
        self._place: dict[str, str] = {}
        self._vanished: dict[str, str] = {}
        self._older: str | None = None

    def keep(self, task: str) -> None:
        """A task is there, although nothing can be compared."""
        self.there.add(task)

    def compare(self, task: Mapping[str, Any]) -> bool:
        """Whether a task's records, their times or their people are others than those known."""
        number, now = str(task["id"]), _records(task, self.wants)
        self.there.add(number)
        was = self.tasks.get(number, {})
        differs = was.keys() != now.keys()
        changed_at = time_of(task.get("updated_at"))
        for record in now.keys() - was.keys():
            self._place[record] = number
        for record, (at, retired) in was.items():
            if record not in now:
                if at is not None and changed_at is not None and changed_at < at:
                    self._vanished[record] = number
                continue
            updated, nobody = now[record]
            if at is not None and updated is not None and updated < at:
                self._older = self._older or record
            differs |= updated != at or (nobody and not retired)
        return differs

    def sign(self) -> str | None:
        """What shows that the server has gone back in time: time only goes on, and a task's clock moves when one of its
        annotations is deleted, though not when it is moved to another task."""
        if self._older is not None:
            return f"annotation {self._older} is older than it was"
        for record, number in self._vanished.items():
            if record not in self._place:
                return f"annotation {record} is missing from task {number}, which was not changed since"
        return None


def _texts(numbers: Iterable[int]) -> set[str]:
    return {str(number) for number in numbers}


def _micros(when: datetime) -> int:
    return (when - EPOCH) // timedelta(microseconds=1)


def _stamp(task: Mapping[str, Any]) -> int | None:
    at = time_of(task.get("updated_at"))
    return None if at is None else _micros(at)


def _between(low: datetime | None, when: datetime | None, high: datetime | None) -> bool:
    return when is not None and (low is None or when > low) and (high is None or when <= high)


def _records(task: Mapping[str, Any], wants: Reading) -> dict[str, tuple[datetime | None, bool]]:
    """Record -> when it was changed, and whether its person was deleted."""
    found: dict[str, tuple[datetime | None, bool]] = {}
    for annotation in task.get("annotations") or ():
        if isinstance(annotation, dict):
            record = f"{annotation.get('id')}@{annotation.get('created_at') or ''}"
            found[record] = time_of(annotation.get("updated_at")), annotation.get("completed_by", 0) is None
    for prediction in task.get("predictions") or ():
        if isinstance(prediction, dict) and wants.evaluator(str(prediction.get("model_version") or "")) is not None:
            record = f"{PREDICTION} {prediction.get('id')}@{prediction.get('created_at') or ''}"
            found[record] = time_of(prediction.get("updated_at")), False
    return found

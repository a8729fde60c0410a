"""What stands between a Label Studio project and agreement that means something, each with its fix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from calibrate_label_studio import labelling
from calibrate_label_studio.annotations import item_of
from calibrate_label_studio.labelling import Controls
from calibrate_label_studio.listing import Tasks
from calibrate_plugin.connector import ConnectorError, Finding

if TYPE_CHECKING:
    from calibrate_label_studio.live import LiveProjects

TESTED = (1, 23)
SKEW = 30.0  # seconds


def check(source: LiveProjects) -> list[Finding]:
    """Findings about the server and each project; a server that cannot be asked is the only one."""
    server = source.server
    try:
        me = source.whoami()
        told = server.get("/api/version")
    except ConnectorError as error:
        return [Finding("problem", "Label Studio", str(error), "see LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY")]
    found = [*_server(source, me, told)]
    if not source.ids:
        found.append(
            Finding(
                "warning",
                "projects",
                "there are none yet",
                "calibrate-plugin sample makes one, or name those that there are",
            )
        )
    asked: dict[str, Controls] = {}
    for number in source.ids:
        try:
            project = server.project(number)
            asked[str(number)] = labelling.from_project(project)
            found += _project(source, number, project)
        except ConnectorError as error:
            found.append(Finding("problem", f"project {number}", str(error), "see projects, and whose key it is"))
    return found + list(_controls(source, asked))


def _server(source: LiveProjects, me: dict[str, Any], told: Any) -> Iterator[Finding]:
    server = source.server
    version = str(told.get("release", "")) if isinstance(told, dict) else ""
    edition = str(told.get("edition", "")) if isinstance(told, dict) else ""
    yield Finding("ok", "Label Studio", f"{server.url} answers to the key of {me.get('email') or me['id']}")
    numbers = tuple(int(n) for n in version.split(".")[:2] if n.isdigit())
    if numbers and numbers < TESTED:
        yield Finding(
            "warning",
            "version",
            f"Label Studio {version} is older than the one this was tested with ({TESTED[0]}.{TESTED[1]})",
            "most things will work; upgrade Label Studio if something does not",
        )
    else:
        yield Finding("ok", "version", f"Label Studio {version or '?'} {edition}".rstrip())
    if me.get("active_organization") is None:
        yield Finding(
            "problem",
            "organization",
            "the key's owner is a member of no organization and sees nothing",
            "invite them again",
        )
    if server.skew is not None and abs(server.skew.total_seconds()) > SKEW:
        seconds = server.skew.total_seconds()
        yield Finding(
            "warning",
            "clock",
            f"the server's clock is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} this one",
            "times of answers come from the server; set both clocks by the network (NTP)",
        )


def _project(source: LiveProjects, number: int, project: dict[str, Any]) -> Iterator[Finding]:
    subject = f"project {number}"
    tasks = Tasks(source.server, number)
    total = project.get("task_number") or 0
    single = project.get("maximum_annotations", 1) == 1
    if single and str(project.get("label_config")).startswith('<View className="calibrate-'):
        yield Finding("ok", subject, f"{total} tasks, one annotator each, as it was made for")
    elif single:
        yield Finding(
            "problem",
            subject,
            "gives each task to one annotator only (maximum_annotations is 1), so nobody can agree with anybody",
            f"the screens of the community edition have no setting for it: PATCH {source.server.url}/api/projects/{number}/ "
            'with {"maximum_annotations": 2} or more, or give the same tasks to several projects',
        )
    else:
        yield Finding("ok", subject, f"{total} tasks, up to {project.get('maximum_annotations')} annotators each")
    shows, version = project.get("show_collab_predictions"), project.get("model_version")
    if shows and project.get("total_predictions_number"):
        how = f"fills the form with those of {version!r}" if version else "shows them beside the form"
        yield Finding(
            "warning",
            subject,
            f"has predictions and {how}: people who see a judge's answer agree with it",
            f'PATCH {source.server.url}/api/projects/{number}/ with {{"show_collab_predictions": false, "model_version": ""}}',
        )
    yield from _webhooks(source, number)
    yield from _items(source, number, tasks)


def _webhooks(source: LiveProjects, number: int) -> Iterator[Finding]:
    subject = f"project {number}, webhooks"
    hooks = source.server.get("/api/webhooks/", {"project": number})
    hooks = [h for h in hooks if isinstance(h, dict)] if isinstance(hooks, list) else []
    idle = [h for h in hooks if not h.get("is_active") or not (h.get("send_for_all_actions") or h.get("actions"))]
    if not hooks:
        yield Finding("ok", subject, "none: a change is seen at the next run")
    for hook in idle:
        why = "is switched off" if not hook.get("is_active") else "listens to no action"
        yield Finding(
            "warning",
            subject,
            f"webhook {hook.get('id')} {why}",
            "a PATCH without actions empties them: send them along",
        )
    if len(hooks) > len(idle):
        yield Finding("ok", subject, f"{len(hooks) - len(idle)} active")


def _items(source: LiveProjects, number: int, tasks: Tasks) -> Iterator[Finding]:
    page = next(tasks.data())
    path = ".".join(source.reading.item)
    lost = [t["id"] for t in page.tasks if item_of({"id": t["id"], **t}, source.reading.item) is None]
    if page.poisoned:
        yield Finding(
            "warning",
            f"project {number}",
            f"the server cannot give task {', '.join(map(str, page.poisoned[:5]))} (500)",
            "mend or delete it; its labels stay as they were last read",
        )
    if lost and source.reading.item[0] in ("data", "id"):
        some = ", ".join(map(str, lost[:5]))
        yield Finding(
            "problem" if len(lost) == len(page.tasks) else "warning",
            f"project {number}",
            f"{len(lost)} of the first {len(page.tasks)} tasks have no {path} (task {some})",
            f"say where a task names its item: sources.{source.settings.name}.item",
        )


def _controls(source: LiveProjects, asked: dict[str, Controls]) -> Iterator[Finding]:
    name, fields = source.settings.name, source.reading.fields
    there = labelling.union(asked.values())
    if not asked:
        return
    shown = ", ".join(there) or "none"
    for dimension, controls in source.settings.labels.items():
        missing = [c for c in controls if c not in there]
        if len(missing) == len(controls):
            yield Finding(
                "problem",
                f"sources.{name}.labels.{dimension}",
                f"no project has a control {' or '.join(map(repr, missing))}; there are: {shown}",
                "name the control that answers this dimension",
            )
    for job, own in asked.items():
        lacking = sorted(f for f in fields or () if f in there and f not in own)
        if lacking:
            yield Finding(
                "warning", f"project {job}", f"does not ask {', '.join(lacking)}", "other projects of the study do"
            )
    if fields is not None:
        unused = [c for c in there if c not in fields and there[c].kind != "textarea"]
        if unused:
            yield Finding(
                "warning",
                f"sources.{name}.labels",
                f"no dimension takes the control {', '.join(unused)}",
                "add a dimension for it, or leave it if it is not wanted",
            )

"""Label Studio's webhooks: installed without payload and with the project in the address, proven by a secret.

Label Studio signs nothing and tries once, within a second. So a webhook only says that a project is worth another look.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

from calibrate_label_studio.server import Broken, Refused, Server
from calibrate_plugin.connector import (
    ConnectorError,
    Finding,
    Forged,
    Incoming,
    Look,
    SettingsError,
    SourceSettings,
    Unknown,
    same,
)

HEADER = "X-Calibrate-Secret"
VARIABLE = "CALIBRATE_WEBHOOK_SECRET"
#: What can change an answer. Nothing announces that a project was deleted; an import announces only its tasks.
CHANGES = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED", "TASKS_CREATED")
#: What leaves no trace that a list of changes would show; it goes to an address of its own, as no body is read.
DELETIONS = ("ANNOTATIONS_DELETED", "TASKS_DELETED")
HOOKS: tuple[tuple[Mapping[str, str], Sequence[str]], ...] = (({}, CHANGES), ({"deleted": "1"}, DELETIONS))
PATH = "/api/webhooks/"


def accepts(settings: SourceSettings, projects: Sequence[int], incoming: Incoming) -> Look:
    """The project to look at again, and whether something was deleted there. Raises Forged without the secret, Unknown for a project that the study does not read."""
    given = incoming.headers.get(HEADER.lower()) or incoming.secret
    if not same(given, settings.secret(VARIABLE)):
        raise Forged(f"{settings.name}: a webhook without the secret of {VARIABLE}")
    project = incoming.query.get("project", "")
    if not project.isascii() or not project.isdigit() or len(project) > 18 or int(project) not in projects:
        raise Unknown(f"{settings.name}: a webhook about a project that the study does not read")
    return Look(str(int(project)), whole=incoming.query.get("deleted") == "1")


def install(server: Server, projects: Sequence[int], url: str, secret: str) -> list[Finding]:
    """Two hooks per project, one for what was deleted; what is set up otherwise is set right, what is there twice removed."""
    _checked(url)
    found = []
    for project in projects:
        try:
            said = {_installed(server, project, url, more, actions, secret) for more, actions in HOOKS}
        except (Refused, Broken) as error:
            found.append(Finding("problem", f"project {project}", str(error), _fix(error)))
            continue
        words = ("the webhooks were set up", "the webhooks were set right", "the webhooks were there already")
        found.append(Finding("ok", f"project {project}", f"{words[min(said)]}; they go to {url}"))
    return found + list(_reachable(url))


def _installed(
    server: Server, project: int, url: str, more: Mapping[str, str], actions: Sequence[str], secret: str
) -> int:
    """0 where the hook is new, 1 where it was changed, 2 where it was there."""
    wanted = {
        "url": _address(url, project, more),
        "send_payload": False,
        "send_for_all_actions": False,
        "headers": {HEADER: secret},
        "is_active": True,
        # An update without them would wipe the list, and the hook would never be sent again.
        "actions": list(actions),
    }
    ours = _ours(server, project, url, more)
    for extra in ours[1:]:
        server.write("DELETE", f"{PATH}{int(extra['id'])}/")
    if not ours:
        server.write("POST", PATH, {"project": project, **wanted})
        return 0
    if _differences(ours[0], wanted):
        server.write("PATCH", f"{PATH}{int(ours[0]['id'])}/", wanted)
        return 1
    return 2


def status(server: Server, projects: Sequence[int], url: str) -> list[Finding]:
    """Whether each project has its hooks, active and with all that they need."""
    found = []
    fix = "run `calibrate-plugin webhooks install`"
    for project in projects:
        wrong: list[str] = []
        for more, actions in HOOKS:
            ours = _ours(server, project, url, more)
            wanted = {
                "url": _address(url, project, more),
                "send_payload": False,
                "is_active": True,
                "actions": list(actions),
            }
            wrong += _differences(ours[0], wanted) if ours else ["no webhook"]
            if len(ours) > 1:
                wrong.append(f"{len(ours)} of them")
        if wrong:
            message = f"not as it should be: {', '.join(dict.fromkeys(wrong))}"
            found.append(Finding("warning", f"project {project}", message, fix))
        else:
            found.append(Finding("ok", f"project {project}", f"the webhooks go to {url}"))
    return found + list(_reachable(url))


def remove(server: Server, projects: Sequence[int], url: str) -> list[Finding]:
    """Take our hooks away; those of others stay."""
    found = []
    for project in projects:
        ours = [hook for more, _ in HOOKS for hook in _ours(server, project, url, more)]
        for hook in ours:
            server.write("DELETE", f"{PATH}{int(hook['id'])}/")
        message = "the webhooks were removed" if ours else "there were no webhooks"
        found.append(Finding("ok", f"project {project}", message))
    return found


def _address(url: str, project: int, more: Mapping[str, str]) -> str:
    return f"{url}?{urlencode({'project': project, **more})}"


def _checked(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise SettingsError(f"{url!r} is no address for webhooks; give one like https://calibrate.example.com")


def _ours(server: Server, project: int, url: str, more: Mapping[str, str]) -> list[dict[str, Any]]:
    """The hooks of a project that go to our path, at whatever host it was before."""
    listed = server.get(PATH, {"project": project})
    if not isinstance(listed, list):
        raise ConnectorError(f"{server.url}{PATH} gives no list")
    path = urlsplit(url).path
    return [
        hook
        for hook in listed
        if isinstance(hook, dict)
        and (hook.get("project") in (None, project))
        and urlsplit(str(hook.get("url"))).path == path
        and urlsplit(str(hook.get("url"))).query == urlsplit(_address(url, project, more)).query
    ]


def _differences(hook: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """The names of what is not as wanted; never the values, one of which is a secret."""
    different = []
    for key, value in wanted.items():
        given = hook.get(key)
        if key == "actions":
            given, value = set(given or ()), set(value)
        if given != value:
            different.append(key)
    return different


def _reachable(url: str) -> Iterator[Finding]:
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
        private = address.is_private or address.is_loopback
    except ValueError:
        private = host == "localhost" or host.endswith((".local", ".internal", ".lan"))
    if private:
        yield Finding(
            "warning",
            "address",
            f"{host} is a private address, to which Label Studio sends nothing unless it is told to",
            "start Label Studio with SSRF_PROTECTION_ENABLED=false, or, to open only this network, with"
            " USE_DEFAULT_BANNED_SUBNETS=false and the subnets to refuse in USER_ADDITIONAL_BANNED_SUBNETS",
        )
    elif host and "." not in host:
        yield Finding(
            "warning",
            "address",
            f"Label Studio refuses a bare host name like {host}",
            "give a name with a dot, or an ip",
        )


def _fix(error: Refused | Broken) -> str:
    if isinstance(error, Broken):
        return "Label Studio must be able to resolve the host name"
    if error.status == 403 and "address" in error.detail:
        return (
            "start Label Studio with SSRF_PROTECTION_ENABLED=false, or, to open only this network, with"
            " USE_DEFAULT_BANNED_SUBNETS=false and the subnets to refuse in USER_ADDITIONAL_BANNED_SUBNETS"
        )
    return "see whose key it is, and whether the address has a host name with a dot"

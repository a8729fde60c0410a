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
    SettingsError,
    SourceSettings,
    Unknown,
    same,
)

HEADER = "X-Calibrate-Secret"
VARIABLE = "CALIBRATE_WEBHOOK_SECRET"
#: What can change an answer. Nothing announces that a project was deleted; an import announces only its tasks.
ACTIONS = (
    "ANNOTATION_CREATED",
    "ANNOTATIONS_CREATED",
    "ANNOTATION_UPDATED",
    "ANNOTATIONS_DELETED",
    "TASKS_CREATED",
    "TASKS_DELETED",
)
PATH = "/api/webhooks/"


def accepts(settings: SourceSettings, projects: Sequence[int], incoming: Incoming) -> str:
    """The project to look at again. Raises Forged without the secret, Unknown for a project that the study does not read."""
    given = incoming.headers.get(HEADER.lower()) or incoming.secret
    if not same(given, settings.secret(VARIABLE)):
        raise Forged(f"{settings.name}: a webhook without the secret of {VARIABLE}")
    project = incoming.query.get("project", "")
    if not project.isascii() or not project.isdigit() or len(project) > 18 or int(project) not in projects:
        raise Unknown(f"{settings.name}: a webhook about a project that the study does not read")
    return str(int(project))


def install(server: Server, projects: Sequence[int], url: str, secret: str) -> list[Finding]:
    """One hook per project; what is set up otherwise is set right, what is there twice is removed."""
    _checked(url)
    found = []
    for project in projects:
        wanted = {
            "url": _address(url, project),
            "send_payload": False,
            "send_for_all_actions": False,
            "headers": {HEADER: secret},
            "is_active": True,
            # An update without them would wipe the list, and the hook would never be sent again.
            "actions": list(ACTIONS),
        }
        ours = _ours(server, project, url)
        try:
            if ours and not _differences(ours[0], wanted):
                found.append(Finding("ok", f"project {project}", "the webhook was there already"))
            elif ours:
                server.write("PATCH", f"{PATH}{int(ours[0]['id'])}/", wanted)
                found.append(Finding("ok", f"project {project}", "the webhook was set right"))
            else:
                server.write("POST", PATH, {"project": project, **wanted})
                found.append(Finding("ok", f"project {project}", f"the webhook goes to {wanted['url']}"))
            for extra in ours[1:]:
                server.write("DELETE", f"{PATH}{int(extra['id'])}/")
        except (Refused, Broken) as error:
            found.append(Finding("problem", f"project {project}", str(error), _fix(error)))
    return found + list(_reachable(url))


def status(server: Server, projects: Sequence[int], url: str) -> list[Finding]:
    """Whether each project has its hook, active and with all that it needs."""
    found = []
    for project in projects:
        ours = _ours(server, project, url)
        if not ours:
            found.append(
                Finding("warning", f"project {project}", "no webhook", "run `calibrate-plugin webhooks install`")
            )
            continue
        wrong = _differences(
            ours[0], {"url": _address(url, project), "send_payload": False, "is_active": True, "actions": ACTIONS}
        )
        if len(ours) > 1:
            wrong.append(f"{len(ours)} of them")
        if wrong:
            fix = "run `calibrate-plugin webhooks install`"
            found.append(
                Finding("warning", f"project {project}", f"the webhook is not as it should be: {', '.join(wrong)}", fix)
            )
        else:
            found.append(Finding("ok", f"project {project}", f"the webhook goes to {ours[0]['url']}"))
    return found + list(_reachable(url))


def remove(server: Server, projects: Sequence[int], url: str) -> list[Finding]:
    """Take our hooks away; those of others stay."""
    found = []
    for project in projects:
        ours = _ours(server, project, url)
        for hook in ours:
            server.write("DELETE", f"{PATH}{int(hook['id'])}/")
        found.append(Finding("ok", f"project {project}", "the webhook was removed" if ours else "there was no webhook"))
    return found


def _address(url: str, project: int) -> str:
    return f"{url}?{urlencode({'project': project})}"


def _checked(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise SettingsError(f"{url!r} is no address for webhooks; give one like https://calibrate.example.com")


def _ours(server: Server, project: int, url: str) -> list[dict[str, Any]]:
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
        and urlsplit(str(hook.get("url"))).query == urlencode({"project": project})
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

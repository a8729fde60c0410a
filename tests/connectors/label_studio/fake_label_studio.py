"""A Label Studio in memory, as far as a pull asks: for the faults that a real server shows only on its worst days.

It answers as 1.23.2 does (see the recordings and the tests against a real server), counts requests, and misbehaves as told.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import httpx

CONFIG = '<View><Text name="t" value="$t"/><Choices name="q" toName="t"><Choice value="x"/><Choice value="y"/></Choices></View>'
HTML = httpx.Response(200, html="<!doctype html><title>Label Studio</title>")
Fault = Callable[[httpx.Request], httpx.Response | Exception | None]


def clock(second: float) -> str:
    return f"2026-01-01T{int(second // 3600):02}:{int(second // 60 % 60):02}:{second % 60:09.6f}Z"


class Fake:
    """``fault`` may answer a request, or break it, before the server does."""

    def __init__(self) -> None:
        self.now = 0.0
        self.projects: dict[int, dict[str, Any]] = {}
        self.tasks: dict[int, dict[str, Any]] = {}
        self.users = {1: "owner@example.com", 3: "ann@example.com", 4: "ben@example.com"}
        self.organization: int | None = 1
        self.edition = "Community"
        self.key = "legacy-token"
        self.poisoned: set[int] = set()
        self.snapshots: dict[int, bytes] = {}
        self.views: dict[int, dict[str, Any]] = {}
        self.actions = {"add_data_field"}
        self.fault: Fault = lambda request: None
        self.seen: list[httpx.Request] = []
        self.page_cap = 10_000
        self.ids = 0

    # -- what people do

    def tick(self) -> str:
        self.now += 10
        return clock(self.now)

    def project(self, number: int = 7, config: str = CONFIG) -> int:
        self.projects[number] = {"id": number, "title": f"Project {number}", "label_config": config, "description": ""}
        return number

    def task(self, project: int = 7) -> int:
        self.ids += 1
        at = self.tick()
        data = {"t": "text", "trace_id": f"trace-{self.ids}"}
        self.tasks[self.ids] = {"id": self.ids, "project": project, "data": data, "created_at": at, "updated_at": at, "annotations": [], "predictions": []}  # fmt: skip
        return self.ids

    def annotate(self, task: int, by: int, answer: str) -> int:
        self.ids += 1
        at = self.tick()
        result = [{"from_name": "q", "to_name": "t", "type": "choices", "value": {"choices": [answer]}}]
        self.tasks[task]["annotations"].append(
            {
                "id": self.ids,
                "completed_by": by,
                "result": result,
                "created_at": at,
                "updated_at": at,
                "updated_by": by,
                "was_cancelled": False,
                "ground_truth": False,
                "parent_prediction": None,
            }
        )
        self.tasks[task]["updated_at"] = at
        return self.ids

    def edit(self, task: int, annotation: int, answer: str) -> None:
        at = self.tick()
        for one in self.tasks[task]["annotations"]:
            if one["id"] == annotation:
                one["result"][0]["value"]["choices"] = [answer]
                one["updated_at"] = self.tasks[task]["updated_at"] = at

    # -- what the server answers

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        fault = self.fault(request)
        if isinstance(fault, Exception):
            raise fault
        if fault is not None:
            return fault
        if request.headers.get("authorization") not in (f"Token {self.key}", f"Bearer {self.key}"):
            return self.no(401, "Invalid token.")
        return self.answer(request, request.url.path.removeprefix("/ls"), request.url.params)

    def no(self, status: int, detail: str) -> httpx.Response:
        return httpx.Response(status, json={"status_code": status, "version": "1.23.2", "detail": detail})

    def answer(self, request: httpx.Request, path: str, params: httpx.QueryParams) -> httpx.Response:
        parts = path.strip("/").split("/")
        if path == "/api/current-user/whoami":
            return httpx.Response(
                200, json={"id": 1, "email": "owner@example.com", "active_organization": self.organization}
            )
        if path.startswith("/api/organizations/"):
            return httpx.Response(200, json={"id": 1, "created_at": clock(0)})
        if path == "/api/version":
            return httpx.Response(200, json={"release": "1.23.2", "edition": self.edition})
        if path == "/api/users/":
            return httpx.Response(200, json=[{"id": i, "email": e} for i, e in self.users.items()])
        if path == "/api/projects/":
            return httpx.Response(
                200, json={"count": len(self.projects), "next": None, "results": list(self.projects.values())}
            )
        if path == "/api/tasks/":
            return self.list_tasks(params)
        if parts[1] in ("tasks", "dm"):
            return self.manage(request, path, params, parts)
        project = int(parts[2])
        if project not in self.projects:
            return self.no(404, "No Project matches the given query.")
        if len(parts) == 3:
            if request.method == "PATCH":
                self.projects[project] |= json.loads(request.content)
            return httpx.Response(200, json=self.projects[project])
        if parts[3:] == ["summary", "reset"]:
            return httpx.Response(200)
        return self.export(request, project, [int(p) for p in parts[4:5]], parts[-1] == "download")

    def manage(self, request: httpx.Request, path: str, params: httpx.QueryParams, parts: list[str]) -> httpx.Response:
        """Tasks one by one, tabs, columns, and the action that sets a column."""
        body = json.loads(request.content) if request.content else {}
        if parts[1] == "tasks":
            task = self.tasks.get(int(parts[2]))
            if task is None:
                return self.no(404, "No Task matches the given query.")
            if request.method == "PATCH":  # which replaces all of the data
                task |= body | {"updated_at": self.tick()}
            return httpx.Response(200, json={"id": task["id"], "data": task["data"]})
        if parts[2] == "actions":
            if params["id"] not in self.actions:
                return self.no(500, f"Can't find '{params['id']}' in registered actions")
            ids = [i for i in body["selectedItems"]["included"] if i in self.tasks]
            for number in ids:
                self.tasks[number]["data"][body["value_name"]] = body["value"]
            return httpx.Response(200, json={"detail": f"Updated {len(ids)} tasks"})
        if parts[2] == "columns":
            names = {key for t in self.tasks.values() for key in t["data"]}
            columns: list[dict[str, Any]] = [
                {"id": n, "parent": "data", "visibility_defaults": {"explore": True, "labeling": n == "t"}}
                for n in sorted(names)
            ]
            columns.append({"id": "inner_id", "visibility_defaults": {"explore": False, "labeling": False}})
            return httpx.Response(200, json={"columns": columns})
        if request.method == "POST":
            self.ids += 1
            self.views[self.ids] = {"id": self.ids, "project": body["project"], "data": body["data"]}
            return httpx.Response(201, json=self.views[self.ids])
        if request.method == "PATCH":
            self.views[int(parts[3])]["data"] = body["data"]
            return httpx.Response(200, json=self.views[int(parts[3])])
        if request.method == "DELETE":
            del self.views[int(parts[3])]
            return httpx.Response(204)
        return httpx.Response(200, json=[v for v in self.views.values() if v["project"] == int(params["project"])])

    def export(self, request: httpx.Request, project: int, number: list[int], download: bool) -> httpx.Response:
        if request.method == "POST":
            whole = [t for t in self.tasks.values() if t["project"] == project]
            failed = any(t["id"] in self.poisoned for t in whole)
            body = json.dumps(whole).encode()
            self.ids += 1
            self.snapshots[self.ids] = body
            md5 = hashlib.md5(body, usedforsecurity=False).hexdigest()
            return httpx.Response(201, json={"id": self.ids, "status": "failed" if failed else "completed", "md5": md5})
        if request.method == "DELETE":
            del self.snapshots[number[0]]
            return httpx.Response(204)
        if download:
            return httpx.Response(200, content=self.snapshots[number[0]], headers={"content-type": "application/json"})
        return httpx.Response(200, json=[])

    def list_tasks(self, params: httpx.QueryParams) -> httpx.Response:
        query = json.loads(params["query"])
        found = [t for t in self.tasks.values() if t["project"] == int(params["project"])]
        for one in query["filters"]["items"]:
            column, value = one["filter"].removeprefix("filter:tasks:"), one["value"]
            test = {
                "greater": lambda a, b: a > b,
                "greater_or_equal": lambda a, b: a >= b,
                "less_or_equal": lambda a, b: a <= b,
                "in_list": lambda a, b: a in b,
            }
            found = [t for t in found if test[one["operator"]](t[column], value)]
        (order,) = query["ordering"]
        found.sort(key=lambda t: t[order.lstrip("-").removeprefix("tasks:")], reverse=order.startswith("-"))
        page = found[: min(int(params["page_size"]), self.page_cap)]
        names = params.get("include", "").split(",") if params.get("include") else None
        spoilt = names is None or "data" in names
        if spoilt and any(t["id"] in self.poisoned for t in page):
            return httpx.Response(500, html="<!doctype html>")

        def shown(one: dict[str, Any]) -> dict[str, Any]:
            if names is None:
                return one
            return {
                k: [shown(a) for a in v] if k in ("annotations", "predictions") else v
                for k, v in one.items()
                if k in names
            }

        return httpx.Response(200, json={"total": len(found), "tasks": [shown(t) for t in page]})

"""Starts a real Label Studio on this machine, fills it with a small labelled project, and waits until it is stopped.

    python start.py [--port 8080] [--folder data]

It installs Label Studio into an environment of its own beside this script (about a gigabyte, a few minutes, once). The
project's tasks name the traces tr-001 to tr-060 of the example three_annotators, so the judge scores of that example join
with it; three people labelled them. When all is ready it prints what to set and what to run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
VERSION = "1.23.2"
TOKEN = "live-example-token-0123456789abcdef01234"  # of a throw-away server on this machine
OWNER = "owner@example.com"
CONFIG = """<View>
  <Text name="question" value="$question"/>
  <Choices name="verdict" toName="question" choice="single" required="true">
    <Choice value="resolved"/><Choice value="open"/><Choice value="unsure"/>
  </Choices>
  <Rating name="tone" toName="question" maxRating="5"/>
  <TextArea name="why" toName="question"/>
</View>"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--folder", type=Path, default=HERE / "data")
    asked = parser.parse_args()
    command = installed(HERE / ".label-studio")
    url = f"http://127.0.0.1:{asked.port}"
    server = started(command, asked.folder, asked.port)
    try:
        ready(server, url)
        project = filled(url)
        print(f"\nLabel Studio is at {url} ({OWNER} / owner-password-123), project {project}.\n")
        print(f"export LABEL_STUDIO_URL={url} LABEL_STUDIO_API_KEY={TOKEN} LABEL_STUDIO_PROJECT={project}")
        print("export LANGFUSE_BASE_URL=... LANGFUSE_PUBLIC_KEY=... LANGFUSE_SECRET_KEY=...")
        print("calibrate-plugin check && calibrate-plugin run\n\nCtrl-C stops it.")
        server.wait()
    except KeyboardInterrupt:
        pass
    finally:
        server.terminate()
        server.wait(30)


def installed(folder: Path) -> Path:
    command = folder / "bin" / "label-studio"
    if not command.exists():
        print(f"installing Label Studio {VERSION}, once; this takes a few minutes ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "-q", f"label-studio=={VERSION}"], check=True)
    return command


def started(command: Path, folder: Path, port: int) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    # Label Studio also reads plain HOST, PORT, USERNAME ... from the environment, so it is given none of ours.
    environment = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "TMPDIR")}
    environment |= {
        "LABEL_STUDIO_BASE_DATA_DIR": str(folder),
        "DJANGO_DB": "sqlite",
        "LABEL_STUDIO_USERNAME": OWNER,
        "LABEL_STUDIO_PASSWORD": "owner-password-123",
        "LABEL_STUDIO_USER_TOKEN": TOKEN,
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "COLLECT_ANALYTICS": "false",
        "LATEST_VERSION_CHECK": "false",
        "SENTRY_DSN": "",
        "FRONTEND_SENTRY_DSN": "",
        "SSRF_PROTECTION_ENABLED": "false",  # webhooks may call a service on this machine
    }
    log = (folder / "server.log").open("wb")
    arguments = ["start", "--no-browser", "--internal-host", "127.0.0.1", "--port", str(port)]
    return subprocess.Popen([command, *arguments], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def ready(server: subprocess.Popen[bytes], url: str) -> None:
    print("starting ...", flush=True)
    for _ in range(480):
        if server.poll() is not None:
            raise SystemExit("Label Studio stopped; see server.log in its folder")
        try:
            asked(url, "GET", "/api/current-user/whoami")
            return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.5)
    raise SystemExit(f"{url} does not answer as our server; is the port taken by another one? try --port")


def filled(url: str) -> int:
    """The project, made and filled once."""
    for project in asked(url, "GET", "/api/projects/?page_size=100")["results"]:
        if project["title"] == "Support replies":
            return int(project["id"])
    made = asked(
        url, "POST", "/api/projects/", {"title": "Support replies", "label_config": CONFIG, "maximum_annotations": 3}
    )
    export = json.loads((HERE.parent / "three_annotators" / "label-studio-project-7.json").read_text(encoding="utf-8"))
    people: dict[str, int] = {}
    tasks = []
    for task in export:
        annotations = []
        for given in task["annotations"]:
            email = given["completed_by"]["email"]
            if email not in people:
                people[email] = asked(url, "POST", "/api/users/", {"email": email, "username": email})["id"]
            kept = [r for r in given["result"] if r["from_name"] in ("verdict", "tone", "why")]
            result = [r | {"to_name": "question"} for r in kept]
            annotations.append(
                {
                    "result": result,
                    "completed_by": people[email],
                    "was_cancelled": given["was_cancelled"],
                    "ground_truth": False,
                }
            )
        tasks.append({"data": task["data"], "annotations": annotations})
    for _ in range(5):
        done = asked(url, "POST", f"/api/projects/{made['id']}/import?return_task_ids=true", tasks)
        if done["annotation_count"] == sum(len(t["annotations"]) for t in tasks):
            return int(made["id"])
        for task_id in done["task_ids"]:  # an import can lose its annotations while others write
            asked(url, "DELETE", f"/api/tasks/{task_id}/")
    raise SystemExit("Label Studio lost the annotations of the import five times")


def asked(url: str, method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        url + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Token {TOKEN}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        text = answer.read()
    return json.loads(text) if text else None


if __name__ == "__main__":
    main()

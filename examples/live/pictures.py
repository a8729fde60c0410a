"""Takes the pictures of the served pages: python examples/live/pictures.py (needs playwright, and Chromium at /usr/bin/chromium).

Serves a copy of the example three_annotators and writes overview.png and dimension.png beside this file.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
STUDY = HERE.parent / "three_annotators"
PICTURES = {"overview.png": ("/", 860), "dimension.png": ("/dimensions/{dimension}", 1150)}


def ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/api/v1/calibration").is_success
    except httpx.HTTPError:
        return False


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "study"
        shutil.copytree(STUDY, study)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-c", "from calibrate_plugin.cli import main; main()", "serve", "--no-push"]
        served = subprocess.Popen([*command, "--config", str(study / "calibrate.toml"), "--port", str(port)])
        try:
            end = time.monotonic() + 60
            while not ready(url):
                if served.poll() is not None or time.monotonic() > end:
                    raise SystemExit("the study could not be served")
                time.sleep(0.2)
            dimension = httpx.get(f"{url}/api/v1/studies").json()[0]["dimensions"][0]
            with sync_playwright() as playwright:
                arguments = ["--headless=new", "--no-sandbox", "--disable-gpu"]
                browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
                for name, (path, height) in PICTURES.items():
                    page = browser.new_page(viewport={"width": 1200, "height": height})
                    page.goto(url + path.format(dimension=dimension))
                    page.locator("#calibrating").wait_for(state="detached")
                    page.wait_for_function("() => document.getElementById('live').textContent")
                    page.screenshot(path=str(HERE / name))
                browser.close()
        finally:
            served.terminate()
            served.wait(30)


if __name__ == "__main__":
    main()

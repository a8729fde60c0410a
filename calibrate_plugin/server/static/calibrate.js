// Keeps an open page up to date: when the server says that there is a new report, the page is fetched again and its
// main part replaced. Everything on the page works without this.
"use strict";
(() => {
  const said = document.getElementById("live");
  if (!window.EventSource || !document.body.dataset.stamp) return;
  let stamp = document.body.dataset.stamp;
  let fetching = false;
  let again = false;

  async function refresh() {
    if (fetching) { again = true; return; }
    fetching = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store" });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const old = document.querySelector("main");
      const next = fresh.querySelector("main");
      if (!next) return;
      const held = document.activeElement;
      const begun = [...old.querySelectorAll("textarea, input:not([type=hidden])")].some((f) => f.value !== f.defaultValue);
      if (begun || (held && old.contains(held) && /^(INPUT|SELECT|TEXTAREA)$/.test(held.tagName))) {
        said.textContent = "There are new numbers; reload to see them.";
        return;
      }
      const open = new Set([...old.querySelectorAll("details[open] > summary")].map((s) => s.textContent));
      for (const summary of next.querySelectorAll("details > summary")) {
        if (open.has(summary.textContent)) summary.parentElement.open = true;
      }
      old.replaceWith(next);
      stamp = fresh.body.dataset.stamp;
      const at = document.getElementById("at");
      if (at && fresh.getElementById("at")) at.textContent = fresh.getElementById("at").textContent;
      said.textContent = "Updated " + new Date().toLocaleTimeString();
    } finally {
      fetching = false;
      if (again) { again = false; refresh(); }
    }
  }

  const stream = new EventSource("/events");
  stream.addEventListener("open", () => { if (!said.textContent) said.textContent = "Live"; });
  stream.addEventListener("error", () => { said.textContent = "Not connected; trying again"; });
  stream.addEventListener("report", (event) => {
    if (said.textContent.startsWith("Not")) said.textContent = "Live";
    if (event.data && event.data !== stamp) refresh();
  });
  addEventListener("pagehide", () => stream.close());
})();

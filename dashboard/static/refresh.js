// Replaces the state on the page every few seconds, so that scrolling and
// selected text stay. Without JavaScript the page reloads itself instead.
"use strict";

const every = 3000; // ms

async function refresh() {
  const selecting = !document.getSelection().isCollapsed;
  if (document.hidden || selecting) return;
  try {
    const answer = await fetch(location.pathname, { cache: "no-store" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("state");
    if (!fresh) throw new Error("not the page");
    document.getElementById("state").replaceWith(fresh);
  } catch {
    document.getElementById("stale").hidden = false;
  }
}

async function loop() {
  await refresh();
  setTimeout(loop, every);
}

setTimeout(loop, every);
document.addEventListener("visibilitychange", refresh);

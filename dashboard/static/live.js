// Brings the changes of a page to it, over server-sent events, and counts times
// on. Without it the page is whole, and stays as it was when it was loaded.
"use strict";

const main = document.getElementById("main");
const light = document.getElementById("live");
const asOf = document.getElementById("asof");
let source = null;
let ahead = 0; // ms, how much later it is on the server

// keyOf tells what an element stands for, where the server says so.
function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.dataset.key : undefined;
}

// morph makes a node of the page like a new one of its kind, and leaves alone what
// is alike: focus, scrolling, and what a person has unfolded stay.
function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.isEqualNode(fresh) || (old === document.activeElement && "value" in old)) return;
  const kept = (name) => old.nodeName === "DETAILS" && name === "open";
  for (const a of [...old.attributes]) {
    if (!fresh.hasAttribute(a.name) && !kept(a.name)) old.removeAttribute(a.name);
  }
  for (const a of fresh.attributes) {
    if (old.getAttribute(a.name) !== a.value && !kept(a.name)) old.setAttribute(a.name, a.value);
  }
  morphChildren(old, fresh);
}

function morphChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.children) if (keyOf(child) !== undefined) keyed.set(keyOf(child), child);
  let at = old.firstChild; // the first that has no counterpart yet
  for (const child of [...fresh.childNodes]) {
    const key = keyOf(child);
    let match = keyed.get(key);
    while (match && at && at !== match && at.nodeType === Node.TEXT_NODE && !at.data.trim()) at = dropped(at);
    if (key === undefined && at && at.nodeName === child.nodeName && keyOf(at) === undefined) match = at;
    if (!match) {
      old.insertBefore(child, at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else old.insertBefore(match, at);
    morph(match, child);
  }
  while (at) at = dropped(at);
}

// dropped takes a node out and returns the one after it.
function dropped(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

// span is a duration in its two largest units, as the server writes it.
function span(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  for (let i = 0; i < units.length; i++) {
    const [size, name] = units[i];
    if (seconds < size) continue;
    const rest = i + 1 < units.length ? Math.floor(seconds % size / units[i + 1][0]) : 0;
    return `${Math.floor(seconds / size)} ${name}` + (rest ? ` ${rest} ${units[i + 1][1]}` : "");
  }
  return "0 s";
}

function countOn() {
  const now = Date.now() + ahead;
  for (const e of document.querySelectorAll("[data-at]")) {
    const s = Math.round((Date.parse(e.dataset.at) - now) / 1000);
    const text = s === 0 ? "now" : s < 0 ? `${span(-s)} ago` : `in ${span(s)}`;
    if (e.textContent !== text) e.textContent = text;
  }
}

function show(event) {
  const said = JSON.parse(event.data);
  ahead = said.now - Date.now();
  if (said.html && document.getSelection().isCollapsed) {
    const fresh = document.createElement("main");
    fresh.innerHTML = said.html;
    const focused = document.activeElement;
    morphChildren(main, fresh);
    if (focused !== document.activeElement && main.contains(focused)) focused.focus({ preventScroll: true }); // it was moved
  }
  light.className = "live on";
  light.textContent = "live";
  asOf.textContent = said.at;
  countOn();
}

function follow() {
  source = new EventSource(document.body.dataset.live);
  source.onmessage = show;
  source.onerror = () => {
    light.className = "live off";
    light.textContent = "not live: the dashboard does not answer";
    if (source && source.readyState === EventSource.CLOSED) { // refused: the browser does not ask again
      source = null;
      setTimeout(wake, 15000);
    }
  };
}

// A tab that nobody sees holds no connection: a browser has few of them.
function wake() {
  if (document.hidden) {
    source?.close();
    source = null;
  } else if (!source) follow();
}

setInterval(countOn, 1000);
if (document.body.dataset.live && window.EventSource) {
  wake();
  document.addEventListener("visibilitychange", wake);
  window.addEventListener("pagehide", () => source?.close());
}

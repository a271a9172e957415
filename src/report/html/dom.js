// DOM helpers. Everything that comes from a run is added to the page as text, never as HTML.
const byId = id => document.getElementById(id);

function make(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "click") element.addEventListener("click", value);
    else if (key === "text") element.textContent = value;
    else if (key === "class") element.className = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined && child !== "") element.append(child);
  return element;
}

const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

// Shows control characters as symbols and bidirectional controls as code points, so that no text can disguise itself.
function visible(text) {
  return text.replace(/[\u0000-\u0008\u000a-\u001f]/g, c => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, c => `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

function plusMinus(added, removed) {
  return make("span", { class: "counts" },
    make("span", { class: "plus", text: `+${added}` }), " ", make("span", { class: "minus", text: `−${removed}` }));
}

// Long lists are built lazily, when they come near the viewport.
const CHUNK = 200;
const LINE = 20;
const waiting = new Map();
const watcher = new IntersectionObserver(entries => {
  for (const entry of entries) if (entry.isIntersecting) fill(entry.target);
}, { rootMargin: "1200px 0px" });

function fill(place) {
  const build = waiting.get(place);
  if (!build) return;
  waiting.delete(place);
  watcher.unobserve(place);
  place.style.minHeight = "";
  build(place);
}

function later(place, lines, build) {
  place.style.minHeight = `${Math.max(1, lines) * LINE}px`;
  waiting.set(place, build);
  watcher.observe(place);
  return place;
}

function forget() {
  for (const place of waiting.keys()) watcher.unobserve(place);
  waiting.clear();
}

// Adds `total` rows to `parent`; returns a function that builds and returns the element of a row.
function longList(parent, total, row) {
  const chunks = [];
  for (let start = 0; start < total; start += CHUNK) {
    const end = Math.min(start + CHUNK, total);
    const build = place => { for (let at = start; at < end; at++) place.append(row(at)); };
    const chunk = make("div", { class: "chunk" });
    chunk.style.containIntrinsicSize = `auto ${(end - start) * LINE}px`;
    chunks.push(chunk);
    parent.append(chunk);
    if (total <= CHUNK) build(chunk);
    else later(chunk, end - start, build);
  }
  return at => {
    const chunk = chunks[Math.floor(at / CHUNK)];
    if (!chunk) return null;
    fill(chunk);
    return chunk.children[at % CHUNK];
  };
}

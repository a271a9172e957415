// Search over names, paths, diffs and logs; keyboard shortcuts; start-up.
const MOST_HITS = 200;
let hits = [];
let nextHit = 0;

function search(query) {
  hits = [];
  nextHit = 0;
  const box = byId("hits");
  box.hidden = query.length < 2;
  if (box.hidden) return onlySpecs(() => true);
  const pattern = () => new RegExp(query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
  data.messages.forEach((message, spec) => {
    if (pattern().test(message.name)) hits.push({ spec, text: visible(message.name), where: "name" });
    message.files.forEach((file, index) => {
      if (pattern().test(file.path)) hits.push({ spec, file: index, text: file.shown, where: "path" });
      let before = 0;
      for (const hunk of file.hunks) {
        inLines(hunk, pattern(), (line, text) => hits.push({ spec, file: index, line: before + line, text: visible(text), where: file.shown }));
        before += hunk.replace(/\n$/, "").split("\n").length;
        if (hits.length >= MOST_HITS) return;
      }
    });
    message.logs.forEach((log, attempt) => inLines(log.end.text, pattern(), (line, text) =>
      hits.push({ spec, attempt, line, text: visible(text.replace(OTHER_ESCAPES, "").replace(/\u001b\[[0-9;:]*m/g, "")), where: `log of attempt ${log.attempt}` })));
  });
  const more = hits.length >= MOST_HITS ? "the first " : "";
  hits = hits.slice(0, MOST_HITS);
  // With too many hits the rest was not searched, so no spec can be ruled out.
  onlySpecs(spec => more !== "" || hits.some(hit => hit.spec === spec));
  byId("found").textContent = hits.length ? `${more}${count(hits.length, "hit")} · Enter goes to the next` : "no hits";
  byId("hit-list").replaceChildren(...hits.map(hit => make("li", null, make("button", { type: "button", click: () => go(hit) },
    make("span", { class: "dim", text: `${visible(data.messages[hit.spec].name)} · ${hit.where}` }), make("span", { class: "mono" }, marked(hit.text, pattern()))))));
}

// Hides the specs without a hit.
function onlySpecs(matches) {
  [...byId("specs").children].forEach((item, spec) => { item.hidden = !matches(spec); });
}

// Reports at most one hit per line.
function inLines(text, pattern, report) {
  let [line, counted] = [0, 0];
  for (let found; hits.length < MOST_HITS && (found = pattern.exec(text));) {
    for (let at; (at = text.indexOf("\n", counted)) >= 0 && at < found.index; counted = at + 1) line++;
    const end = text.indexOf("\n", found.index);
    report(line, text.slice(counted, end < 0 ? text.length : end));
    if (end < 0) return;
    pattern.lastIndex = end;
  }
}

function marked(text, pattern) {
  const found = pattern.exec(text);
  if (!found) return [text.slice(0, 300)];
  const start = Math.max(0, found.index - 40);
  const end = found.index + found[0].length;
  return [text.slice(start, found.index).trimStart(), make("mark", { text: found[0] }), text.slice(end, end + 200)];
}

function go(hit) {
  document.querySelectorAll(".hit").forEach(element => element.classList.remove("hit"));
  if (hit.attempt !== undefined) choose(hit.spec, { tab: "log", attempt: hit.attempt });
  else if (hit.file !== undefined) { choose(hit.spec, { tab: "change" }); showFile(hit.file); }
  else choose(hit.spec);
  if (hit.line === undefined) return;
  const row = hit.file !== undefined ? view.sections[hit.file].find(hit.line) : view.findLog(hit.line);
  if (!row) return;
  row.classList.add("hit");
  // Sections above the row may grow when they are built, so scroll again.
  for (const wait of [0, 100, 300]) setTimeout(() => row.scrollIntoView({ block: "center" }), wait);
}

function step(by) {
  const files = data.messages[state.spec].files.length;
  if (!files) return;
  if (state.tab !== "change") choose(state.spec, { tab: "change" });
  showFile(Math.min(files - 1, Math.max(0, state.file + by)));
}

const KEYS = {
  j: () => choose(Math.min(data.messages.length - 1, state.spec + 1)),
  k: () => choose(Math.max(0, state.spec - 1)),
  n: () => step(1),
  p: () => step(-1),
  f: () => { const section = view.sections && view.sections[Math.max(0, state.file)]; if (section && state.tab === "change") section.querySelector("h3 button").click(); },
  s: () => { if (state.tab === "change") toggleSides(); },
  "/": () => { byId("query").focus(); byId("query").select(); },
};

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") { byId("hits").hidden = true; byId("query").blur(); onlySpecs(() => true); return; }
  const tab = event.target.closest && event.target.closest("[role=tab]");
  if (tab && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
    const all = [...tab.parentElement.querySelectorAll("[role=tab]")];
    all[(all.indexOf(tab) + (event.key === "ArrowRight" ? 1 : all.length - 1)) % all.length].click();
    return;
  }
  if (/^(input|textarea|select)$/i.test(event.target.tagName) || !Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
});

let pause;
byId("query").addEventListener("input", event => {
  clearTimeout(pause);
  pause = setTimeout(() => search(event.target.value), 150);
});
byId("search").addEventListener("submit", event => {
  event.preventDefault();
  if (byId("hits").hidden) search(byId("query").value);
  if (hits.length) go(hits[nextHit++ % hits.length]);
});
document.addEventListener("click", event => {
  if (!event.target.closest("#hits, #search")) byId("hits").hidden = true;
});

// For printing, build the lazy lists, up to a limit.
const PRINTED = 300;
window.addEventListener("beforeprint", () => {
  for (const name of ["change", "log", "context"]) if (view[name]) view[name].build();
  for (let round = 0; round < PRINTED && waiting.size; round++) fill(waiting.keys().next().value);
});

byId("facts").textContent = data.facts.map(visible).join(" · ");
listSpecs();
if (data.messages.length) {
  const named = data.messages.findIndex(message => message.id && `#${message.id}` === location.hash);
  const failed = data.messages.findIndex(message => message.tone === "bad");
  choose(named >= 0 ? named : Math.max(0, failed));
} else {
  byId("detail").append(make("p", { class: "empty", text: "There was nothing to do." }));
}

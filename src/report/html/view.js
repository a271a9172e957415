// The selected message: its verdict, its attempts, and tabs for the changes, the log and the failure context.
const data = JSON.parse(byId("data").textContent);
const state = { spec: -1, tab: "change", file: -1, attempt: -1, sides: false };
let view = {};

const MARKS = { good: "✓", bad: "✗", idle: "·" };
for (const message of data.messages) for (const file of message.files) file.shown = visible(file.path);

function listSpecs() {
  const longest = Math.max(1, ...data.messages.map(message => message.ms));
  byId("specs").append(...data.messages.map((message, index) => {
    const bar = make("i", { class: message.tone });
    bar.style.width = `${message.ms / longest * 100}%`;
    return make("li", null, make("button", { type: "button", class: message.follows ? "follows" : "", click: () => choose(index) },
      make("span", { class: message.tone, "aria-hidden": "true", text: MARKS[message.tone] }),
      make("span", { class: "name", text: visible(message.name) }), make("small", { text: message.ms ? message.time : "" }),
      make("span", { class: `words ${message.tone}`, text: message.words }),
      message.tone === "good" && message.files.length ? plusMinus(message.added, message.removed) : make("span"),
      make("span", { class: "bar", "aria-hidden": "true" }, bar)));
  }));
}

function choose(index, options = {}) {
  const message = data.messages[index];
  if (!message) return;
  const same = state.spec === index;
  Object.assign(state, { spec: index, file: -1 });
  if (!same) {
    state.attempt = message.logs.length - 1;
    state.tab = message.tone === "good" && message.files.length ? "change" : message.logs.length ? "log" : message.files.length ? "change" : "log";
  }
  Object.assign(state, options);
  byId("specs").querySelectorAll("button").forEach((button, at) => {
    button.setAttribute("aria-current", at === index);
    if (at === index && !same) button.scrollIntoView({ block: "nearest" });
  });
  if (message.id) history.replaceState(null, "", `#${message.id}`);
  forget();
  byId("detail").replaceChildren(...detail(message));
}

function detail(message) {
  const fact = (label, value) => value ? make("span", null, `${label} `, make("b", { text: visible(String(value)) })) : null;
  const parts = [
    make("h2", null, make("span", { class: message.tone, text: `${MARKS[message.tone]} ` }), visible(message.name)),
    make("p", { class: "facts" }, make("b", { class: message.tone, text: message.words + (message.verified ? `, ${message.verified} verified` : "") }),
      fact("routine", message.routine), fact("spec", message.spec), fact("took", message.ms ? message.time : ""), fact("cost", message.cost),
      message.files.length ? make("span", null, plusMinus(message.added, message.removed), ` in ${count(message.files.length, "file")}`) : null, fact("committed", message.commits), fact("run", message.id)),
  ];
  if (message.reason) parts.push(make("p", { class: `why ${message.tone}` }, visible(message.reason)));
  for (const warning of message.warnings) parts.push(make("p", { class: "why warn", text: visible(warning) }));
  if (message.id) parts.push(make("p", { class: "commands" }, commands(message).map(command => make("code", { text: command }))));
  if (message.attempts.length) parts.push(...attempts(message));
  return parts.concat(tabs(message));
}

function commands(message) {
  const list = [];
  if (message.files.length) list.push(`decree diff ${message.id}`, `decree apply ${message.id}`);
  if (message.attempts.length) list.push(`decree log ${message.id}`);
  if (message.tone === "good" && message.files.length) list.push(`decree revert ${message.id}`);
  if (message.tone === "bad") list.push(`decree retry ${message.id}`);
  return list;
}

function attempts(message) {
  const show = number => {
    const at = message.logs.findIndex(log => log.attempt === number);
    if (at >= 0) choose(state.spec, { tab: "log", attempt: at });
  };
  const line = make("div", { class: "timeline", role: "group", "aria-label": "Attempts" });
  for (const attempt of message.attempts) {
    const button = make("button", { type: "button", class: attempt.tone, title: visible(`attempt ${attempt.number}: ${attempt.reason}, ${attempt.time}`),
      click: () => show(attempt.number), text: `${attempt.clean ? "⟲ " : ""}${attempt.number} ${MARKS[attempt.tone]} ${attempt.time}` });
    button.style.flexGrow = Math.max(1, attempt.ms);
    line.append(button);
  }
  const row = attempt => make("tr", null,
    make("td", null, message.logs.some(log => log.attempt === attempt.number)
      ? make("button", { type: "button", click: () => show(attempt.number), text: `attempt ${attempt.number}` }) : `attempt ${attempt.number}`),
    make("td", { class: attempt.tone, text: visible(attempt.reason) + (attempt.clean ? " (clean slate)" : "") }), make("td", { text: attempt.time }),
    make("td", null, attempt.files ? [plusMinus(attempt.added, attempt.removed), ` ${count(attempt.files, "file")}`] : "–"), make("td", { class: "headline", text: visible(attempt.headline) }));
  return [line, make("table", { class: "attempts" }, make("tbody", null, message.attempts.map(row)))];
}

function tabs(message) {
  const panels = { change: ["Change", message.files.length, changePanel], log: ["Log", message.logs.length, logPanel], context: ["Failure context", message.context, contextPanel] };
  const bar = make("div", { class: "tabs", role: "tablist", "aria-label": "Run details" });
  const out = [bar];
  view = {};
  for (const [name, [title, there, build]] of Object.entries(panels)) {
    if (name === "context" && !there) continue;
    const chosen = state.tab === name;
    bar.append(make("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-selected": String(chosen), "aria-controls": `panel-${name}`, tabindex: chosen ? 0 : -1,
      click: () => { choose(state.spec, { tab: name, file: state.file }); byId(`tab-${name}`).focus(); }, text: title + (name === "change" && there ? ` (${there})` : "") }));
    const panel = make("div", { id: `panel-${name}`, role: "tabpanel", "aria-labelledby": `tab-${name}`, hidden: !chosen });
    view[name] = { panel, build: () => { build(message, panel); view[name].build = () => {}; } };
    if (chosen) view[name].build();
    out.push(panel);
  }
  if (state.tab === "change" && message.files.length) bar.append(make("button", { type: "button", class: "sides", "aria-pressed": String(state.sides),
    click: toggleSides, text: state.sides ? "unified" : "side by side" }));
  return out;
}

function toggleSides() {
  const file = state.file;
  choose(state.spec, { tab: "change", sides: !state.sides });
  if (file >= 0) showFile(file);
}

function changePanel(message, panel) {
  if (!message.files.length) { panel.append(make("p", { class: "empty", text: "Nothing changed." })); return; }
  if (message.tone === "bad") panel.append(make("p", { class: "panel-note", text: "Reverted: these are the changes of the last attempt." }));
  if (message.cut) panel.append(make("p", { class: "panel-note", text: `The diff is larger than this page's limit. Show all of it with: decree diff ${message.id}` }));
  view.sections = message.files.map((file, index) => fileSection(file, index, state.sides));
  panel.append(make("div", { class: "change" }, fileTree(message.files, showFile), make("div", null, view.sections)));
}

function logPanel(message, panel) {
  const log = message.logs[state.attempt];
  if (!log) { panel.append(make("p", { class: "empty", text: message.attempts.length ? "The log is missing." : "There was no attempt, so there is no log." })); return; }
  const lines = logLines(log.end.text);
  const note = log.end.left_out ? `; the first ${log.end.left_out.toLocaleString("en")} bytes are omitted` : "";
  const box = make("div", { class: "log", tabindex: 0, role: "region", "aria-label": `Log of attempt ${log.attempt}` });
  panel.append(make("p", { class: "panel-note", text: `Attempt ${log.attempt} of ${message.attempts.length}, ${count(lines.length, "line")}${note}` }), box);
  view.findLog = longList(box, lines.length, at => logLine(lines[at]));
}

function contextPanel(message, panel) {
  const text = message.context.text.split("\n").map(visible).join("\n");
  panel.append(make("pre", { class: "context", text }));
}

function showFile(index) {
  if (state.tab !== "change") choose(state.spec, { tab: "change" });
  const section = view.sections && view.sections[index];
  if (!section) return;
  state.file = index;
  view.sections.forEach((other, at) => other.classList.toggle("current", at === index));
  document.querySelectorAll(".tree button").forEach(button => {
    const chosen = Number(button.dataset.file) === index;
    button.setAttribute("aria-current", chosen);
    if (chosen) { const box = button.closest(".tree"); if (box.scrollHeight > box.clientHeight) box.scrollTop = button.offsetTop - box.clientHeight / 2; }
  });
  section.scrollIntoView({ block: "start" });
}

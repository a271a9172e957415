// The changes of a run: a file tree, and the hunks of each file, unified or side by side.
function diffLines(file) {
  const lines = [];
  let [old, now] = [0, 0];
  for (const hunk of file.hunks) {
    let body = false;
    for (const text of hunk.replace(/\n$/, "").split("\n")) {
      const at = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(text);
      if (at) { [old, now, body] = [Number(at[1]), Number(at[2]), true]; lines.push({ kind: "hunk", text }); }
      else if (!body || text[0] === "\\") lines.push({ kind: "hunk", text });
      else if (text[0] === "+") lines.push({ kind: "add", now: now++, text: text.slice(1) });
      else if (text[0] === "-") lines.push({ kind: "del", old: old++, text: text.slice(1) });
      else lines.push({ kind: "same", old: old++, now: now++, text: text.slice(1) });
    }
  }
  return lines;
}

// The rows of the side-by-side view: for each, the index of its left and its right line.
function pairs(lines) {
  const rows = [];
  for (let at = 0; at < lines.length;) {
    if (lines[at].kind !== "del" && lines[at].kind !== "add") { rows.push([at, at]); at++; continue; }
    const sides = { del: [], add: [] };
    // "\ No newline at end of file" can stand between the deleted and the added lines.
    while (at < lines.length && sides[lines[at].kind] && !(lines[at].kind === "del" && sides.add.length)) sides[lines[at].kind].push(at++);
    for (let row = 0; row < Math.max(sides.del.length, sides.add.length); row++) rows.push([sides.del[row], sides.add[row]]);
  }
  return rows;
}

const number = (kind, n) => make("span", { class: `no ${kind}`, "data-n": n });
const SIGN = { add: "+", del: "−", same: " " };

function unifiedRow(line) {
  if (line.kind === "hunk") return make("div", { class: "row hunk", text: visible(line.text) });
  return make("div", { class: "row" }, number(line.kind, line.old), number(line.kind, line.now),
    make("span", { class: line.kind, text: SIGN[line.kind] + visible(line.text) }));
}

function splitRow(left, right) {
  if (left && left.kind === "hunk") return unifiedRow(left);
  const half = (line, n) => line
    ? [number(line.kind, n), make("span", { class: line.kind, text: visible(line.text) })]
    : [number("void"), make("span", { class: "void" })];
  return make("div", { class: "row split" }, half(left, left && left.old), half(right, right && right.now));
}

// One section per file; `section.find(line)` builds and returns the row of a line.
function fileSection(file, index, sides) {
  const body = make("div", { class: "rows" });
  const fold = make("button", { type: "button", class: "path", "aria-expanded": "true", click: () => section.unfold(body.hidden), text: file.shown });
  const section = make("section", { class: "file", id: `file-${index}`, "aria-label": file.shown },
    make("h3", null, fold, file.binary ? make("span", { class: "dim", text: "binary" }) : plusMinus(file.added, file.removed)),
    file.note && make("p", { class: "note", text: visible(file.note) }), body);
  let find = () => null;
  const build = () => {
    const lines = diffLines(file);
    if (!lines.length && !file.note) body.append(make("p", { class: "note", text: file.missing ? "Not loaded: the diff is larger than this page's limit." : visible(file.head.trim() || "No lines changed.") }));
    if (sides) {
      const rows = pairs(lines);
      const found = longList(body, rows.length, at => splitRow(lines[rows[at][0]], lines[rows[at][1]]));
      find = line => found(rows.findIndex(row => row.includes(line)));
    } else {
      find = longList(body, lines.length, at => unifiedRow(lines[at]));
    }
  };
  const lines = file.hunks.reduce((sum, hunk) => sum + Math.ceil(hunk.length / 40), 0);
  later(body, Math.min(lines, 2000), build);
  section.unfold = open => { body.hidden = !open; fold.setAttribute("aria-expanded", String(open)); };
  section.find = line => { section.unfold(true); fill(body); return find(line); };
  return section;
}

// The tree keeps the order of the files; a directory that contains only one directory shares its line.
function fileTree(files, choose) {
  const root = new Map();
  files.forEach((file, index) => {
    const parts = file.shown.startsWith('"') ? [file.shown] : file.shown.split("/");
    let dir = root;
    for (const part of parts.slice(0, -1)) {
      if (!dir.has(`${part}/`)) dir.set(`${part}/`, new Map());
      dir = dir.get(`${part}/`);
    }
    dir.set(`${index}`, { name: parts[parts.length - 1], file, index });
  });
  const leaf = ({ name, file, index }) => make("button", { type: "button", "data-file": index, click: () => choose(index) },
    make("span", { class: "leaf", text: name }), file.binary ? make("span", { class: "counts dim", text: "bin" }) : plusMinus(file.added, file.removed));
  const branch = (name, dir) => {
    for (let only; dir.size === 1 && (only = [...dir][0])[1] instanceof Map;) [name, dir] = [name + only[0], only[1]];
    return make("details", { open: true }, make("summary", { text: name }), list(dir));
  };
  const list = dir => make("ul", null, [...dir].map(([name, inner]) => make("li", null, inner instanceof Map ? branch(name, inner) : leaf(inner))));
  return make("div", { class: "tree", role: "navigation", "aria-label": "Files" }, list(root));
}

// Renders a log with its ANSI colours: lines of spans.
const OTHER_ESCAPES = /\u001b(?:\][^\u0007\u001b\n]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b\n]*(?:\u001b\\)?|\[[0-?]*[ -/]*[@-ln-~]|[ -/]+[0-~]|[0-Z\\`-~])/g;

function logLines(text) {
  const style = { classes: new Set(), fore: null, back: null, inverse: false };
  return text.replace(/\n$/, "").split("\n").map(line => {
    // A carriage return overwrites the line; only the last version is shown.
    const shown = line.replace(/\r+$/, "").split("\r").pop();
    return pieces(shown.replace(OTHER_ESCAPES, ""), style);
  });
}

function pieces(line, style) {
  const out = [];
  let last = 0;
  const push = end => {
    if (end > last) out.push({ text: visible(line.slice(last, end).replace(/[\u0000-\u0008\u000a-\u001f]/g, "")), look: look(style) });
  };
  for (const found of line.matchAll(/\u001b\[([0-9;:]*)m/g)) {
    push(found.index);
    last = found.index + found[0].length;
    colour(found[1], style);
  }
  push(line.length);
  return out;
}

function look(style) {
  const classes = [...style.classes];
  const css = {};
  for (const [value, letter, property] of [[style.fore, "c", "color"], [style.back, "b", "backgroundColor"]]) {
    if (typeof value === "number") classes.push(letter + value);
    else if (value) css[property] = value;
  }
  if (style.inverse) classes.push("inverse");
  return classes.length || css.color || css.backgroundColor ? { classes: classes.join(" "), css } : null;
}

function colour(parameters, style) {
  const codes = parameters.split(/[;:]/).map(code => Number(code) || 0);
  const flags = { 1: "ab", 2: "af", 3: "ai", 4: "au", 9: "as" };
  const ends = { 22: ["ab", "af"], 23: ["ai"], 24: ["au"], 29: ["as"] };
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at];
    if (code === 0) { style.classes.clear(); style.fore = style.back = null; style.inverse = false; }
    else if (flags[code]) style.classes.add(flags[code]);
    else if (ends[code]) ends[code].forEach(flag => style.classes.delete(flag));
    else if (code === 7 || code === 27) style.inverse = code === 7;
    else if (code >= 30 && code <= 37) style.fore = code - 30;
    else if (code >= 90 && code <= 97) style.fore = code - 82;
    else if (code >= 40 && code <= 47) style.back = code - 40;
    else if (code >= 100 && code <= 107) style.back = code - 92;
    else if (code === 39) style.fore = null;
    else if (code === 49) style.back = null;
    else if (code === 38 || code === 48) {
      const side = code === 38 ? "fore" : "back";
      if (codes[at + 1] === 5) { style[side] = fromPalette(codes[at + 2] || 0); at += 2; }
      else if (codes[at + 1] === 2) { style[side] = rgb(codes[at + 2] || 0, codes[at + 3] || 0, codes[at + 4] || 0); at += 4; }
    }
  }
}

const rgb = (...parts) => `rgb(${parts.map(part => Math.min(255, part)).join(",")})`;

function fromPalette(number) {
  if (number < 16) return number;
  if (number > 231) return rgb(...Array(3).fill(8 + (Math.min(number, 255) - 232) * 10));
  const level = step => (step ? 55 + step * 40 : 0);
  const cube = number - 16;
  return rgb(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

function logLine(parts) {
  const line = make("div", { class: "line" });
  for (const part of parts) {
    if (!part.look) { line.append(part.text); continue; }
    const span = make("span", { class: part.look.classes, text: part.text });
    Object.assign(span.style, part.look.css);
    line.append(span);
  }
  return line;
}

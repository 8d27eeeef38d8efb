// Elements of the page, and numbers with their units. Texts are only ever added as text.
const data = JSON.parse(document.getElementById("report-data").textContent);
const KINDS = ["computing", "sending", "waiting"];

function element(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function drawing(tag, attributes, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== undefined && value !== null) made.setAttribute(name, value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

function section(title, about, ...children) {
  return element("section", {},
    element("h2", {}, title), about ? element("p", {class: "quiet"}, about) : null, ...children);
}

function tile(label, value, about, kind) {
  return element("div", {class: "tile"},
    element("div", {class: "label"}, label),
    element("div", {class: kind || "value"}, value),
    element("div", {class: "quiet"}, about || ""));
}

function three(x) { return Number(x.toPrecision(3)).toString(); }

function seconds(x) {
  if (x >= 120) return `${Math.floor(x / 60)} min ${Math.round(x % 60)} s`;
  if (x >= 1) return `${three(x)} s`;
  if (x >= 1e-3) return `${three(x * 1e3)} ms`;
  return x > 0 ? `${three(x * 1e6)} µs` : "0 s";
}

function bytes(x) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (Math.abs(x) >= 999.5 && at < units.length - 1) { x /= 1000; at += 1; }
  return `${three(x)} ${units[at]}`;
}

function count(x) { return x.toLocaleString("en"); }
function percent(part, whole) { return whole > 0 ? `${Math.round(100 * part / whole)} %` : "0 %"; }
function sum(numbers) { return numbers.reduce((a, b) => a + b, 0); }
function most(numbers) { return numbers.reduce((a, b) => Math.max(a, b), 0); }
function plural(number, word) { return `${count(number)} ${word}${number === 1 ? "" : "s"}`; }
function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim(); }

// A colour for a part of the program, always the same for the same name.
function hueOf(text) {
  let hash = 7;
  for (const letter of text) hash = (hash * 31 + letter.codePointAt(0)) % 100003;
  return (hash * 47) % 360;
}

function legend(entries) {
  return element("div", {class: "legend"}, entries.map(([kind, text]) =>
    element("span", {}, element("span", {class: `swatch ${kind}`}), text)));
}

// A bar of segments {kind, value, text, about}; `whole` is as wide as the page, more is cut off.
function stack(segments, whole, thin) {
  const all = sum(segments.map((one) => one.value)), isCut = all > whole * 1.001 && whole > 0;
  const bar = element("div", {class: `stack ${thin ? "thin" : ""} ${isCut ? "cut" : ""}`});
  if (isCut) whole = all;
  for (const one of segments) {
    if (!(one.value > 0) || !(whole > 0)) continue;
    const wide = one.value / whole > 0.1;
    bar.append(element("div", {
      class: one.kind, style: `width: ${100 * one.value / whole}%`, title: one.about,
    }, thin || !wide ? "" : one.text));
  }
  return bar;
}

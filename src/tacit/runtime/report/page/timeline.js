// What each party did and when: drawn on a canvas that can be zoomed and moved.
const ROW = {head: 30, gap: 14, parts: 26, kinds: 16};

class TimelineView {
  constructor(parties, names) {
    this.names = names;
    const first = Math.min(...parties.map((party) => party.start));
    this.rows = parties.map((party) => ({party, shift: (party.start - first) * 1e6}));
    this.end = Math.max(1, ...this.rows.map((row) => row.shift + row.party.seconds * 1e6));
    this.from = 0;
    this.to = this.end;
    this.part = null;
    this.canvas = element("canvas", {role: "img", "aria-label": "timeline of all parties"});
    this.hint = element("div", {class: "hint", hidden: ""});
    const zoom = (factor) => () => this.zoom((this.from + this.to) / 2, factor);
    this.whole = element("div", {}, element("div", {class: "controls"},
      element("button", {type: "button", click: zoom(0.5)}, "zoom in"),
      element("button", {type: "button", click: zoom(2)}, "zoom out"),
      element("button", {type: "button", click: () => this.move(0, this.end)}, "whole run"),
      element("span", {class: "quiet"}, "drag to move, Ctrl and wheel or double click to zoom")),
      element("div", {class: "timeline"}, this.canvas, this.hint));
    this.listen();
  }

  get label() { return Math.min(110, this.width * 0.2); }
  get height() { return ROW.head + this.rows.length * (ROW.parts + ROW.kinds + ROW.gap); }

  listen() {
    const canvas = this.canvas;
    new ResizeObserver(([entry]) => {
      if (entry.contentRect.width !== this.width) requestAnimationFrame(() => this.draw());
    }).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    canvas.addEventListener("wheel", (event) => {
      if (event.ctrlKey || event.metaKey) this.zoom(this.timeAt(event), event.deltaY > 0 ? 1.25 : 0.8);
      else if (event.deltaX) this.shift(event.deltaX);
      else return;
      event.preventDefault();
    }, {passive: false});
    canvas.addEventListener("dblclick", (event) => this.zoom(this.timeAt(event), 0.33));
    canvas.addEventListener("pointerdown", (event) => { this.dragged = event.clientX; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointerup", () => { this.dragged = null; });
    canvas.addEventListener("pointerleave", () => { this.hint.hidden = true; });
    canvas.addEventListener("pointermove", (event) => {
      if (this.dragged !== null && this.dragged !== undefined) {
        this.shift(this.dragged - event.clientX);
        this.dragged = event.clientX;
      }
      this.explain(event);
    });
  }

  timeAt(event) {
    const share = (event.offsetX - this.label) / (this.width - this.label);
    return this.from + Math.max(0, Math.min(1, share)) * (this.to - this.from);
  }

  zoom(around, factor) {
    const length = Math.min(this.end, Math.max(50, (this.to - this.from) * factor));
    const share = (around - this.from) / (this.to - this.from);
    this.move(around - share * length, around + (1 - share) * length);
  }

  shift(pixels) {
    const by = pixels * (this.to - this.from) / (this.width - this.label);
    this.move(this.from + by, this.to + by);
  }

  move(from, to) {
    const length = to - from;
    this.from = Math.max(0, Math.min(from, this.end - length));
    this.to = this.from + length;
    this.draw();
  }

  highlight(part) {
    this.part = part;
    this.draw();
  }

  draw() {
    const box = this.canvas.getBoundingClientRect(), scale = devicePixelRatio || 1;
    if (!box.width) return;
    this.width = box.width;
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = this.width * scale;
    this.canvas.height = this.height * scale;
    const pen = this.pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.font = "12px system-ui, sans-serif";
    this.colours = {ink: colour("ink"), quiet: colour("quiet"), line: colour("line"), ...Object.fromEntries(KINDS.map((kind) => [kind, colour(kind)]))};
    this.drawAxis();
    this.rows.forEach((row, at) => this.drawRow(row, this.top(at)));
  }

  top(at) { return ROW.head + at * (ROW.parts + ROW.kinds + ROW.gap); }
  x(time) { return this.label + (time - this.from) / (this.to - this.from) * (this.width - this.label); }

  drawAxis() {
    const pen = this.pen, length = this.to - this.from;
    const rough = length * 110 / (this.width - this.label);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    pen.fillStyle = this.colours.quiet;
    pen.strokeStyle = this.colours.line;
    for (let time = Math.ceil(this.from / step) * step; time <= this.to; time += step) {
      const x = Math.round(this.x(time)) + 0.5;
      pen.beginPath();
      pen.moveTo(x, ROW.head - 8);
      pen.lineTo(x, this.height);
      pen.stroke();
      pen.fillText(seconds(time / 1e6), x + 3, 12);
    }
  }

  drawRow({party, shift}, top) {
    const pen = this.pen;
    pen.fillStyle = this.colours.ink;
    pen.fillText(party.name, 0, top + 18, this.label - 8);
    let lastEnd = -1;
    for (const [start, length, kind, place] of party.events) {
      const left = Math.max(this.label, this.x(start + shift)), right = Math.min(this.width, this.x(start + length + shift));
      if (right < this.label || left > this.width || right - Math.max(left, lastEnd) < 0.2) continue;
      lastEnd = right;
      const part = party.places[place].part, wide = Math.max(0.6, right - left);
      pen.globalAlpha = this.part === null || this.part === part ? 1 : 0.13;
      pen.fillStyle = place < 2 ? this.colours.line : `hsl(${hueOf(part.replace(/, backward$/, ""))} 52% ${/, backward$/.test(part) ? 48 : 62}%)`;
      pen.fillRect(left, top, wide, ROW.parts);
      pen.fillStyle = this.colours[KINDS[kind]];
      pen.fillRect(left, top + ROW.parts, wide, ROW.kinds);
    }
    pen.globalAlpha = 1;
    this.drawNames(party, shift, top);
  }

  // The names of parts, where consecutive events of one part are wide enough for them.
  drawNames(party, shift, top) {
    const pen = this.pen;
    pen.fillStyle = "#10151c";
    for (let at = 0; at < party.events.length;) {
      const place = party.events[at][3], begun = party.events[at][0];
      let end = begun;
      for (; at < party.events.length && party.events[at][3] === place; at += 1) end = party.events[at][0] + party.events[at][1];
      const left = Math.max(this.label, this.x(begun + shift)), right = Math.min(this.width, this.x(end + shift));
      if (right - left < 46 || place < 2) continue;
      const name = party.places[place].part;
      const fits = Math.floor((right - left - 8) / 6.4);
      pen.fillText(name.length > fits ? `${name.slice(0, Math.max(1, fits - 1))}…` : name, left + 4, top + 17);
    }
  }

  explain(event) {
    const row = this.rows[Math.floor((event.offsetY - ROW.head) / (ROW.parts + ROW.kinds + ROW.gap))];
    const time = this.timeAt(event);
    const found = row && event.offsetX > this.label && row.party.events.find(([start, length]) => start + row.shift <= time && time < start + length + row.shift);
    this.hint.hidden = !found;
    if (!found) return;
    const [start, length, kind, place, peer] = found, {part, line} = row.party.places[place];
    const what = kind === 2 && peer >= 0 ? `waiting for ${this.names[peer]}` : KINDS[kind];
    this.hint.replaceChildren(element("strong", {}, part), element("br"), line || "", line ? element("br") : "",
      `${what}, ${seconds(length / 1e6)} at ${seconds((start + row.shift) / 1e6)}`);
    this.hint.style.left = `${Math.min(event.offsetX + 14, this.width - 250)}px`;
    this.hint.style.top = `${event.offsetY + 16}px`;
  }
}

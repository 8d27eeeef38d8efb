// The report of one run.
const OUTSIDE = "the program outside of operations"; // its bar may be cut off
function showRun() {
  const {parties, names} = data;
  const longest = most(parties.map((party) => party.seconds));
  const page = [heading(), failures(), tiles(longest)];
  if (parties.length) {
    const timeline = new TimelineView(parties, names);
    page.push(
      section("What each party did", "How long each party computed, sent, and waited for whom. A wait counts for the party whose message came last.",
        legend([["computing", "computing"], ["sending", "sending"], ["waiting", "waiting"]]),
        parties.map((party) => partyBar(party, longest))),
      section("Timeline", "Above: the part of the program. Below: what the party did in it.", timeline.whole),
      costs(timeline), exchanges(), reveals(), memory());
  }
  page.push(notes());
  return page;
}

function heading() {
  const failed = data.parties.some((party) => party.ended) || silent().length;
  const where = data.transport === "machines" ? "one of them here" : `all here as ${data.transport}`;
  const chips = [data.protocol, `${members(data)}, ${where}`, data.network, data.time.replace("T", " ").replace("+00:00", " UTC"), `tacit ${data.tacit}`];
  return element("header", {}, element("h1", {}, data.title), element("div", {class: "chips"},
    element("span", {class: failed ? "chip bad" : "chip good"}, failed ? "failed" : "ended well"),
    chips.filter(Boolean).map((text) => element("span", {class: "chip"}, text))));
}

function members(run) {
  const helpers = run.names.slice(run.num_parties);
  return [plural(run.num_parties, run.num_parties === 1 ? "party" : "partie"), ...helpers].join(" and ");
}

function failures() {
  const failed = data.parties.filter((party) => party.ended);
  if (!failed.length && !silent().length) return null;
  return element("section", {class: "failure"}, element("h2", {}, "Where it ended"), failed.map((party) => {
    const {kind, told, line, part} = party.ended;
    const where = [line && `at ${line}`, part && `in ${part}`].filter(Boolean).join(", ");
    return element("p", {}, element("strong", {}, `${party.name}: `), kind === told ? kind : `${kind}: ${told}`, ` ${where}, after ${seconds(party.seconds)}`);
  }), silent().map((name) => element("p", {}, element("strong", {}, `${name}: `), "it ended before the program began, or without a word")));
}

// The parties on this machine that have measured nothing.
function silent() {
  const heard = data.parties.map((party) => party.name);
  return data.transport === "machines" ? [] : data.names.slice(0, data.num_parties).filter((name) => !heard.includes(name));
}

function tiles(longest) {
  const parties = data.parties;
  const waits = parties.reduce((a, b) => (!a || b.waiting / b.seconds > a.waiting / a.seconds ? b : a), null);
  const peak = most(parties.map((party) => party.memory.peak)), gpu = most(parties.map((party) => party.memory.gpu_peak || 0));
  const revealed = parties.length ? sum(parties[0].reveals.map((one) => one.count)) : 0;
  return element("div", {class: "tiles"},
    tile("time", seconds(longest), "of the slowest party"),
    tile("waiting", waits ? percent(waits.waiting, waits.seconds) : "0 %", waits ? `of the time of ${waits.name}` : ""),
    tile("rounds", count(most(parties.map((party) => party.rounds))), "of the party that has most"),
    tile("sent", bytes(sum(parties.map((party) => party.bytes_sent))), parties.length > 1 ? "by all parties" : "by this party"),
    tile("memory", bytes(peak), gpu ? `at most, and ${bytes(gpu)} on a GPU` : data.transport === "threads" ? "at most, of the process of all" : "at most, of one party"),
    tile("revealed", count(revealed), revealed === 1 ? "tensor" : "tensors"));
}

function partyBar(party, longest) {
  const segments = ["computing", "sending"].map((kind) => ({kind, value: party[kind], text: `${kind} ${seconds(party[kind])}`, about: `${kind}: ${seconds(party[kind])}`}));
  for (const [peer, value] of Object.entries(party.waited).sort((a, b) => b[1] - a[1])) {
    segments.push({kind: "waiting", value, text: `for ${peer} ${seconds(value)}`, about: `waiting for ${peer}: ${seconds(value)}`});
  }
  return element("div", {class: "party"}, element("span", {class: "name", title: party.name}, party.name), stack(segments, longest), element("span", {class: "number"}, seconds(party.seconds)));
}

// Costs by part or by line ------------------------------------------------------------------------

function costs(timeline) {
  const everybody = data.parties.length > 1 ? ["all parties"] : [];
  const state = {by: "module", party: everybody[0] || data.parties[0].name};
  const place = element("div");
  const show = () => place.replaceChildren(costTable(costRows(state), timeline));
  const selected = element("select", {"aria-label": "party", change: (event) => { state.party = event.target.value; show(); }},
    [...everybody, ...data.parties.map((party) => party.name)].map((name) => element("option", {value: name}, name)));
  show();
  return section("Where it goes", "Click a column to sort by it. Of all parties: the time and the rounds of the party that has most, and the bytes of all together."
      + (data.parties.some((party) => party.places.some((one) => one.estimated)) ? " Rows that end in “replayed” are estimates: replays are measured as a whole, and divided as a call that ran normally spent its time, rounds and bytes." : ""),
    element("div", {class: "controls"}, choice(["module", "line", "module and line"], state.by, (by) => { state.by = by; show(); }), selected), place);
}

function costRows({by, party}) {
  const chosen = data.parties.filter((one) => party === "all parties" || one.name === party);
  const rows = new Map();
  chosen.forEach((one, index) => {
    for (const place of one.places) {
      const line = place.line || place.part;
      const name = by === "module" ? place.part : by === "line" ? line : place.line ? `${place.part} at ${line}` : place.part;
      if (!rows.has(name)) rows.set(name, {name, part: by === "line" ? null : place.part, own: chosen.map(() => ({computing: 0, sending: 0, waiting: 0, seconds: 0, rounds: 0, bytes_sent: 0, bytes_received: 0, calls: 0}))});
      const own = rows.get(name).own[index];
      for (const key of Object.keys(own)) own[key] += key === "seconds" ? place.computing + place.sending + place.waiting : place[key];
    }
  });
  return [...rows.values()].map((row) => {
    const slowest = row.own.reduce((a, b) => (b.seconds > a.seconds ? b : a));
    return {...slowest, name: row.name, part: row.part, rounds: most(row.own.map((own) => own.rounds)), calls: most(row.own.map((own) => own.calls)),
      bytes_sent: sum(row.own.map((own) => own.bytes_sent)), bytes_received: sum(row.own.map((own) => own.bytes_received))};
  }).filter((row) => row.seconds > 0 || row.rounds || row.bytes_sent);
}

function costTable(rows, timeline) {
  const largest = most(rows.filter((row) => row.name !== OUTSIDE).map((row) => row.seconds)), whole = sum(rows.map((row) => row.seconds));
  const number = (head, key, show) => ({head, kind: "number", by: (row) => row[key], cell: (row) => (row[key] ? show(row[key]) : "–")});
  return sortedTable([
    {head: "part of the program", kind: "name", by: (row) => row.name, cell: (row) => row.name},
    {head: "time", kind: "bar", first: true, by: (row) => row.seconds, cell: (row) => stack(KINDS.map((kind) => ({kind, value: row[kind], about: `${kind}: ${seconds(row[kind])}`})), largest, true)},
    {head: "", kind: "number", cell: (row) => seconds(row.seconds)},
    {head: "share", kind: "number", cell: (row) => percent(row.seconds, whole)},
    number("computing", "computing", seconds), number("sending", "sending", seconds), number("waiting", "waiting", seconds),
    number("rounds", "rounds", count), number("sent", "bytes_sent", bytes), number("received", "bytes_received", bytes), number("calls", "calls", count),
  ], rows, (row) => timeline.highlight(row && row.part));
}

// Between parties ---------------------------------------------------------------------------------

function exchanges() {
  const byName = Object.fromEntries(data.parties.map((party) => [party.name, party]));
  const rows = data.parties.map((party) => party.name);
  const waited = (row, column) => (row === column ? null : byName[row].waited[column] || 0);
  const sent = (row, column) => (row === column ? null : (byName[row].links[column] || {bytes_sent: 0}).bytes_sent);
  const received = (row, column) => (row === column ? null : (byName[row].links[column] || {bytes_received: 0}).bytes_received);
  return section("Between parties", null, element("div", {class: "matrices"},
    matrix("The party of a row waited for that of a column", rows, data.names, waited, (value, row) => `${seconds(value)} · ${percent(value, byName[row].seconds)}`),
    matrix("The party of a row sent to that of a column", rows, data.names, sent, bytes),
    rows.length === 1 ? matrix("and received from it", rows, data.names, received, bytes) : null));
}

// What the reveals of a row cost each person, by sums; empty for those without differential privacy.
function privacyText(row) {
  if (!row.privacy) return "";
  const {mechanism, epsilon, delta} = row.privacy;
  return `${(row.count * epsilon).toPrecision(3)}, delta ${(row.count * delta).toPrecision(2)}: ${mechanism}`;
}

function reveals() {
  const known = new Map();
  for (const party of data.parties) {
    for (const one of party.reveals) {
      const key = JSON.stringify([one.where, one.to, one.shape, one.dtype, one.purpose, one.privacy]);
      if (!known.has(key)) known.set(key, {...one, by: []});
      known.get(key).by.push(party.name);
    }
  }
  const rows = [...known.values()];
  const about = "Everything that was opened, one row for each line, form and receivers. Nothing else left the shares.";
  if (!rows.length) return section("Revealed", "Nothing was revealed.");
  const place = sortedTable([
    {head: "line", kind: "name", by: (row) => row.where, cell: (row) => row.where},
    {head: "what", by: (row) => row.dtype, cell: (row) => `${row.dtype}[${row.shape.join(", ")}]` + (row.purpose === "guard" ? ", by a guard" : "")},
    {head: "to", by: (row) => row.to.join(), cell: (row) => row.to.join(", ")},
    {head: "times", kind: "number", by: (row) => row.count, cell: (row) => count(row.count)},
    {head: "numbers", kind: "number", by: (row) => row.count * row.shape.reduce((a, b) => a * b, 1), cell: (row) => count(row.count * row.shape.reduce((a, b) => a * b, 1))},
    {head: "epsilon", kind: "number", by: (row) => (row.privacy ? row.count * row.privacy.epsilon : Infinity), cell: privacyText},
    {head: "number of the first", kind: "number", by: (row) => row.first, cell: (row) => count(row.first)},
  ], rows);
  return section("Revealed", about, place);
}

// Memory ------------------------------------------------------------------------------------------

function memory() {
  const shared = data.transport === "threads";
  const highest = data.parties.reduce((a, b) => (b.memory.peak > a.memory.peak ? b : a));
  const shown = shared ? [highest] : data.parties;
  const about = shared ? "All parties are threads of one process: this is the memory that it held." : "What the process of each party held.";
  return section("Memory", about, element("div", {class: "matrices"}, shown.map((party) => memoryChart(party, shared ? "all parties" : party.name))));
}

function memoryChart(party, name) {
  const {samples, peak} = party.memory, width = 520, height = 150, left = 62, top = 12, bottom = 22;
  const end = most([party.seconds, ...samples.map((one) => one[0])]) || 1, ceiling = peak * 1.08 || 1;
  const x = (time) => left + time / end * (width - left - 8), y = (size) => height - bottom - size / ceiling * (height - top - bottom);
  const points = samples.map(([time, size]) => `${x(time).toFixed(1)},${y(size).toFixed(1)}`);
  const lines = [0, 0.5, 1].map((share) => [drawing("line", {x1: left, x2: width - 8, y1: y(peak * share), y2: y(peak * share), stroke: "var(--line)"}),
    drawing("text", {x: left - 8, y: y(peak * share) + 4, "text-anchor": "end"}, bytes(peak * share))]);
  return element("div", {style: "flex: 1 1 340px; max-width: 640px"}, element("p", {class: "quiet"}, `${name}: at most ${bytes(peak)}`),
    drawing("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `memory of ${name}`}, lines,
      drawing("polyline", {points: [`${x(samples[0][0])},${y(0)}`, ...points, `${x(samples[samples.length - 1][0])},${y(0)}`].join(" "), fill: "var(--computing)", "fill-opacity": 0.18, stroke: "none"}),
      drawing("polyline", {points: points.join(" "), fill: "none", stroke: "var(--computing)", "stroke-width": 2}),
      drawing("text", {x: left, y: height - 5}, "0 s"), drawing("text", {x: width - 8, y: height - 5, "text-anchor": "end"}, seconds(end))));
}

function notes() {
  return section("How to read this", null, element("ul", {class: "quiet"},
    element("li", {}, "Times, rounds and bytes are those that each party measured and counted itself; nothing was sent for this page, and it holds no value of anybody. Bytes are those of tensors, without headers."),
    element("li", {}, "A round is one exchange that waits for something. The party of a row that deals sends ahead and has few."),
    element("li", {}, "Time in a part of the program is the whole time of its operations. What runs between operations (Python, torch on public tensors, files) is “the program outside of operations”. “Replays” are calls of a repeated function that run a recorded plan."),
    element("li", {}, `The timeline keeps a limited number of events. What took less than ${seconds(most(data.parties.map((party) => party.step)))} is merged with its neighbours there, and what took longest among them is shown. All sums are exact.`)));
}

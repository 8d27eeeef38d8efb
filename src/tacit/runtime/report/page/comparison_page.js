// Two runs, compared; and what the page shows.
const HIGHER = 1.03, LOWER = 0.97; // ratios that are worth a colour

function showComparison() {
  const {before, after} = data;
  const title = element("header", {}, element("h1", {}, `${before.file} → ${after.file}`), element("div", {class: "chips"},
    [before, after].map((run) => element("span", {class: "chip"}, `${run.file}: ${run.title}, ${run.protocol}, ${members(run)}, ${run.time.slice(0, 10)}, tacit ${run.tacit}`))));
  const changes = [["time", "seconds", seconds], ["computing", "computing", seconds], ["waiting", "waiting", seconds], ["rounds", "rounds", count], ["sent", "bytes_sent", bytes]];
  const shown = changes.map(([label, key, show]) => tile(label, `${show(before.totals[key])} → ${show(after.totals[key])}`, ratio(before.totals[key], after.totals[key]), "value pair"));
  shown.push(tile("memory", `${bytes(before.peak)} → ${bytes(after.peak)}`, ratio(before.peak, after.peak), "value pair"));
  return [title, element("div", {class: "tiles"}, shown), partsCompared(), revealsCompared()];
}

function ratio(before, after) {
  if (!before) return after ? "new" : "as before";
  const times = after / before;
  if (times > LOWER && times < HIGHER) return element("span", {class: "quiet"}, "as before");
  return element("span", {class: times < 1 ? "less" : "more"}, times < 1 ? `${Math.round(100 * (1 - times))} % less` : times < 2 ? `${Math.round(100 * (times - 1))} % more` : `${three(times)} times as much`);
}

function partsCompared() {
  const {before, after} = data;
  const nothing = {seconds: 0, computing: 0, sending: 0, waiting: 0, rounds: 0, bytes_sent: 0};
  const rows = [...new Set([...Object.keys(before.parts), ...Object.keys(after.parts)])].map((name) => ({name, a: before.parts[name] || nothing, b: after.parts[name] || nothing}));
  const largest = most(rows.flatMap((row) => [row.a.seconds, row.b.seconds]));
  const bar = (own) => stack(KINDS.map((kind) => ({kind, value: own[kind], about: `${kind}: ${seconds(own[kind])}`})), largest, true);
  const pair = (head, key, show) => ({head, kind: "number", by: (row) => row.b[key] - row.a[key], cell: (row) => (row.a[key] === row.b[key] ? show(row.a[key]) : `${show(row.a[key])} → ${show(row.b[key])}`)});
  return section("By part of the program", "The upper bar is the first run, the lower the second. Click a column to sort by the difference.",
    legend([["computing", "computing"], ["sending", "sending"], ["waiting", "waiting"]]),
    sortedTable([
      {head: "part of the program", kind: "name", by: (row) => row.name, cell: (row) => row.name},
      {head: "time", kind: "bar", first: true, by: (row) => Math.abs(row.b.seconds - row.a.seconds), cell: (row) => [bar(row.a), bar(row.b)]},
      pair("", "seconds", seconds),
      {head: "change", kind: "number", by: (row) => row.b.seconds / (row.a.seconds || 1e-9), cell: (row) => ratio(row.a.seconds, row.b.seconds)},
      pair("rounds", "rounds", count), pair("sent", "bytes_sent", bytes),
    ], rows));
}

function revealsCompared() {
  const keyed = (run) => new Map(run.reveals.map((one) => [`${one.dtype}[${one.shape.join(", ")}] to ${one.to.join(", ")} at ${one.where}`, one.count]));
  const first = keyed(data.before), second = keyed(data.after);
  const rows = [...new Set([...first.keys(), ...second.keys()])].map((name) => ({name, a: first.get(name) || 0, b: second.get(name) || 0})).filter((row) => row.a !== row.b);
  if (!rows.length) return section("Revealed", "Both runs reveal the same: the same forms, to the same parties, at the same lines, as often.");
  return section("Revealed", "What one of the runs reveals more often than the other.", sortedTable([
    {head: "what, to whom and where", kind: "name", by: (row) => row.name, cell: (row) => row.name},
    {head: "before", kind: "number", by: (row) => row.a, cell: (row) => count(row.a)},
    {head: "after", kind: "number", by: (row) => row.b, cell: (row) => count(row.b)},
  ], rows));
}

function show() {
  const page = data.format.startsWith("tacit comparison") ? showComparison() : showRun();
  document.title = `${data.title}: Tacit`;
  document.getElementById("page").replaceChildren(...page.flat().filter(Boolean));
}

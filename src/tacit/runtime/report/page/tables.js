// Tables that are sorted by the column whose head is clicked.
// A column: {head, cell(row), by(row)}; with `by` it can be sorted; `kind` is the class of a cell.
function sortedTable(columns, rows, onHover) {
  let sorted = columns.findIndex((column) => column.first);
  let descending = true;
  const body = element("tbody");
  const heads = columns.map((column, at) => element("th", {
    class: `${column.kind || ""} ${column.by ? "sortable" : ""}`, scope: "col",
    click: () => {
      if (!column.by) return;
      descending = at === sorted ? !descending : column.kind === "number" || column.kind === "bar";
      sorted = at;
      fill();
    },
  }));

  function fill() {
    heads.forEach((head, at) => {
      head.textContent = columns[at].head + (at === sorted ? (descending ? " ▾" : " ▴") : "");
      head.setAttribute("aria-sort", at !== sorted ? "none" : descending ? "descending" : "ascending");
    });
    const by = sorted < 0 ? null : columns[sorted].by;
    const shown = by ? [...rows].sort((a, b) => compared(by(a), by(b)) * (descending ? -1 : 1)) : rows;
    body.replaceChildren(...shown.map((row) => element("tr", {
      mouseenter: () => onHover && onHover(row), mouseleave: () => onHover && onHover(null),
    }, columns.map((column) => element("td", {class: column.kind || ""}, column.cell(row))))));
  }

  fill();
  return element("div", {class: "scroll"}, element("table", {}, element("thead", {}, element("tr", {}, heads)), body));
}

function compared(a, b) {
  if (typeof a === "number") return a - b;
  return a < b ? -1 : a > b ? 1 : 0;
}

// Buttons of which one is pressed.
function choice(names, pressed, choose) {
  const buttons = names.map((name) => element("button", {
    type: "button", "aria-pressed": name === pressed,
    click: () => {
      buttons.forEach((one) => one.setAttribute("aria-pressed", one.textContent === name));
      choose(name);
    },
  }, name));
  return buttons;
}

// A table of numbers from each of the rows to each of the columns; the larger, the darker.
function matrix(title, rows, columns, value, show) {
  const all = rows.flatMap((row) => columns.map((column) => value(row, column) || 0));
  const largest = most(all);
  return element("div", {}, element("p", {class: "quiet"}, title), element("div", {class: "scroll"},
    element("table", {class: "matrix"},
      element("thead", {}, element("tr", {}, element("th"), columns.map((name) => element("th", {scope: "col"}, name)))),
      element("tbody", {}, rows.map((row) => element("tr", {}, element("th", {scope: "row"}, row),
        columns.map((column) => {
          const found = value(row, column);
          const share = largest > 0 && found ? found / largest : 0;
          return element("td", {style: `background: rgba(var(--heat), ${0.75 * share})`},
            found === null ? "" : found ? show(found, row) : "–");
        })))))));
}

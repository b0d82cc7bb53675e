// What another policy would have done to a folder of recordings: a table, and a bar for the time that it would have saved.

function figures(told) {
  const root = element("div", { class: "figures" });
  for (const [title, rows] of told.charts) root.append(element("h2", { text: title }), chart(rows));
  const head = element("tr", {}, ...told.columns.map((text) => element("th", { text })));
  const body = told.rows.map((row) => element("tr", {}, ...row.map((text) => element("td", { text }))));
  root.append(element("h2", { text: told.title }), element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
  return root;
}

// A row is a label, a part, the whole, and both in words.
function chart(rows) {
  const most = Math.max(1, ...rows.map(([, , whole]) => whole)), high = 22;
  const drawn = svg("svg", { viewBox: `0 0 900 ${rows.length * high + 4}` });
  rows.forEach(([label, part, whole, words], place) => {
    const name = svg("text", { x: 250, y: place * high + 15, "text-anchor": "end" }), told = svg("text", { x: 670, y: place * high + 15 });
    name.textContent = label.length > 40 ? `...${label.slice(-38)}` : label;
    told.textContent = words;
    drawn.append(name, svg("rect", { class: "track", x: 260, y: place * high + 4, width: (whole / most) * 400, height: 15, rx: 3 }),
      svg("rect", { x: 260, y: place * high + 4, width: (part / most) * 400, height: 15, rx: 3, fill: "var(--tool)" }), told);
  });
  return drawn;
}

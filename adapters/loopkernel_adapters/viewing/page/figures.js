// What another policy would have done to a folder of recordings: a table, and a bar for the time that it would have saved.

function figures(told) {
  const root = element("div", { class: "figures" });
  for (const [title, rows] of told.charts) root.append(element("h2", { text: title }), chart(rows));
  const head = element("tr", {}, ...told.columns.map((text) => element("th", { text })));
  const body = told.rows.map((row) => element("tr", {}, ...row.map((text) => element("td", { text }))));
  root.append(...told.about.map((text) => element("p", { class: "faint", text })));
  root.append(element("h2", { text: told.title }), element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
  return root;
}

// A row is a label, the least time, the time under the policy, the time that it took, and these in words.
function chart(rows) {
  const most = Math.max(1, ...rows.flatMap(([, ...times]) => times.slice(0, 3))), high = 22;
  const drawn = svg("svg", { viewBox: `0 0 900 ${rows.length * high + 4}` });
  rows.forEach(([label, least, under, took, words], place) => {
    const name = svg("text", { x: 250, y: place * high + 15, "text-anchor": "end" }), told = svg("text", { x: 670, y: place * high + 15 });
    name.textContent = label.length > 40 ? `...${label.slice(-38)}` : label;
    told.textContent = words;
    const bar = (time, look, inset) => svg("rect", { class: look, x: 260, y: place * high + 4 + inset, width: (time / most) * 400, height: 15 - 2 * inset, rx: 2 });
    drawn.append(name, bar(took, "track", 0), bar(under, "under", 2), bar(least, "least", 5), told);
  });
  return drawn;
}

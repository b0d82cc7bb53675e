// Elements are made here and nowhere else. A text goes in as text alone, so nothing that a run holds is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

function element(tag, options = {}, ...children) {
  const made = options.svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  if (options.class) made.setAttribute("class", options.class);
  if (options.text !== undefined) made.textContent = String(options.text);
  if (options.title) made.setAttribute("title", String(options.title));
  if (options.click) made.addEventListener("click", options.click);
  for (const [name, value] of Object.entries(options.with ?? {})) made.setAttribute(name, String(value));
  made.append(...children.filter((child) => child !== null));
  return made;
}

const svg = (tag, attributes, ...children) => element(tag, { svg: true, with: attributes }, ...children);

// A link to a step of a run, which this page follows by itself. The numbers are ours, never a text of the run.
function stepLink(run, step, text) {
  return element("a", { text, with: { href: `#run=${Number(run)}&step=${Number(step)}` } });
}

function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
  return `${Math.round(seconds / 86400)} days`;
}

// A value of a state as a tree that can be opened; `changed` are the paths to mark.
function tree(key, value, path = "", changed = new Set(), open = false) {
  const mark = changed.has(path) ? " changed" : "";
  const name = element("span", { class: "key", text: key });
  if (value === null || typeof value !== "object") {
    const shown = element("span", { class: "value mono", text: typeof value === "string" ? value : JSON.stringify(value) });
    return element("div", { class: `mono${mark}` }, name, ": ", shown);
  }
  const kind = Array.isArray(value) ? `${value.length} items` : value.is ?? `${Object.keys(value).length} fields`;
  const folded = element("details", { class: `tree mono${mark}` });
  folded.append(element("summary", {}, name, " ", element("span", { class: "faint", text: kind })));
  const fill = () => {
    if (folded.childElementCount > 1) return;
    for (const [inner, part] of Object.entries(value)) {
      if (inner !== "is") folded.append(tree(inner, part, path === "" ? inner : `${path}.${inner}`, changed));
    }
  };
  folded.addEventListener("toggle", fill);
  if (open || [...changed].some((one) => path === "" || one.startsWith(`${path}.`))) {
    fill();
    folded.open = true;
  }
  return folded;
}

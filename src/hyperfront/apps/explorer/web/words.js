// Elements, numbers and announcements: the small change of all other files.

const DATA = JSON.parse(document.getElementById("data").textContent);
const M = DATA.objectives.length;
const COLUMNS = [...DATA.objectives, ...DATA.scores]; // everything that a ray has a value of

const MEANINGS = COLUMNS.map((name) => DATA.meanings[name]);
/** Words for every loss and score; the name is added where two have the same. */
const LABELS = MEANINGS.map(({ label }, c) =>
  MEANINGS.filter((other) => other.label === label).length > 1 ? `${label} (${COLUMNS[c]})` : label,
);
/** The label with its unit; a loss that is only known by its name is called a loss. */
const titled = (c) => {
  const unit = MEANINGS[c].unit && ` (${MEANINGS[c].unit})`;
  return LABELS[c] + (unit || (c < M && LABELS[c] === COLUMNS[c] ? " loss" : ""));
};
const wantsMore = (c) => MEANINGS[c].maximize === true;
/** An arrow in the better direction, with words for those who do not see it. */
const direction = (c) => {
  const words = wantsMore(c) ? "more is better" : "less is better";
  return el(
    "span",
    { class: "muted small", title: words },
    el("span", { "aria-hidden": "true" }, wantsMore(c) ? " ↑" : " ↓"),
    el("span", { class: "unseen" }, `, ${words}`),
  );
};

/** Losses as words: "left 0.41, right 0.35". */
const lossText = (values, digits = 4) =>
  range(M)
    .map((j) => `${LABELS[j]} ${show(values[j], digits)}`)
    .join(", ");

const byId = (id) => document.getElementById(id);

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** An HTML element; children are nodes or texts, never markup. */
const el = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);

/** The same in SVG. */
const svg = (tag, attributes, ...children) =>
  build(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

/** Names of the objectives without the words that all of them begin or end with, for where there is little room. */
const SHORT = (() => {
  const words = LABELS.slice(0, M).map((name) => name.split(" "));
  const same = (k) => words.every((list) => list.length > 1 && list.at(k) === words[0].at(k));
  while (same(0)) words.forEach((list) => list.shift());
  while (same(-1)) words.forEach((list) => list.pop());
  return words.map((list) => list.join(" "));
})();

/** These names for axes: without what stands in parentheses, where they still differ. */
const AXES = (() => {
  const plain = SHORT.map((name) => name.replace(/ \([^()]*\)$/, ""));
  return SHORT.map((name, j) => (plain.filter((other) => other === plain[j]).length > 1 ? name : plain[j]));
})();

/** A number to about four digits, with a true minus sign. */
function show(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  let text;
  if (size < 1e-3 || size >= 1e5) text = value.toExponential(digits - 2);
  else text = value.toFixed(clamp(digits - 1 - Math.floor(Math.log10(size)), 0, 4));
  return text.replace("-", "−");
}

const percent = (value) => `${(100 * value).toFixed(value > 0.995 || value < 0.0995 ? 1 : 0)}\u00a0%`;

/** Spoken by screen readers; the same text twice is spoken twice. */
function announce(text) {
  const live = byId("live");
  live.textContent = "";
  setTimeout(() => (live.textContent = text), 30);
}

/** Only one call of an asynchronous function at a time; of those that come meanwhile, the last. */
function latest(work) {
  let busy = false;
  let next = null;
  return async function ask(...given) {
    if (busy) {
      next = given;
      return;
    }
    busy = true;
    try {
      await work(...given);
    } finally {
      busy = false;
      if (next) {
        const again = next;
        next = null;
        ask(...again);
      }
    }
  };
}

/** A name in at most so many letters. */
const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** A name on at most two lines of so many letters each. */
function twoLines(name, most) {
  const words = name.split(" ");
  if (name.length <= most || words.length < 2) return [shortened(name, most)];
  const halves = range(words.length - 1).map((k) => [words.slice(0, k + 1).join(" "), words.slice(k + 1).join(" ")]);
  const longest = (lines) => Math.max(...lines.map((line) => line.length));
  return halves.reduce((best, next) => (longest(next) < longest(best) ? next : best)).map((l) => shortened(l, most));
}

const range = (count) => Array.from({ length: count }, (_, index) => index);
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

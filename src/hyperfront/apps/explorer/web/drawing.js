// What all plots share: scales, ticks, marks, colours, and which series there are.

/** From a domain to pixels. */
const scale =
  ([low, high], [from, to]) =>
  (value) =>
    from + ((value - low) / (high - low || 1)) * (to - from);

/** About so many round numbers within a domain. */
function ticks([low, high], count) {
  const rough = (high - low) / count || 1;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * [1, 2, 5, 10].find((factor) => factor * size >= rough);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return found;
}

const tickText = (value, list) => {
  const step = list.length > 1 ? Math.abs(list[1] - list[0]) : Math.abs(value) || 1;
  return value.toFixed(clamp(-Math.floor(Math.log10(step) + 1e-9), 0, 6)).replace("-", "−");
};

const path = (points) => points.map(([x, y], k) => `${k ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

const SHAPES = [
  (s) => `M${-s} ${-s}H${s}V${s}H${-s}Z`, // square
  (s) => `M0 ${-1.2 * s}L${1.15 * s} ${0.9 * s}H${-1.15 * s}Z`, // triangle
  (s) => `M0 ${-1.4 * s}L${1.4 * s} 0L0 ${1.4 * s}L${-1.4 * s} 0Z`, // diamond
  (s) => `M${-s} ${-s}L${s} ${s}M${s} ${-s}L${-s} ${s}`, // cross
];

/** The mark of baseline k; kinds differ in shape as well as in colour. */
const baselineMark = (k, x = 0, y = 0, size = 3.4) =>
  svg("path", {
    class: `baseline b${k % 4}`,
    d: SHAPES[k % 4](size),
    transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
  });

const dot = (x, y, r, kind) => svg("circle", { class: kind, cx: x.toFixed(1), cy: y.toFixed(1), r });

/** The name of an axis on at most two lines; `up` says that the last line, not the first, is at y. */
function axisName(attributes, name, most, { up = false, dy = 0 } = {}) {
  const lines = twoLines(name, most);
  const first = dy - (up ? 1.1 * (lines.length - 1) : 0);
  return svg(
    "text",
    { class: "axis", ...attributes },
    lines.map((line, k) => svg("tspan", { x: attributes.x, dy: `${k ? 1.1 : first}em` }, line)),
  );
}

/** A pin: a letter in a disc. */
const badge = (x, y, letter) =>
  svg(
    "g",
    { class: "badge", transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` },
    svg("circle", { r: 9 }),
    svg("text", { dy: "0.35em" }, letter),
  );

/** Where the model is now. */
const here = (x, y) =>
  svg(
    "g",
    { class: "here", transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` },
    svg("circle", { class: "halo", r: 13 }),
    svg("circle", { class: "core", r: 6.5 }),
  );

const pinName = (index) => String.fromCharCode(65 + (index % 26));

const baselines = DATA.baselines.map((found) => ({ name: found.name, ...tableOf(found) }));
const showing = (what) => !state.hidden.has(what);
/** Whether a point has all losses; points of others may lack some. */
const complete = (row) => row.slice(0, M).every(Number.isFinite);
const shownBaselines = () => baselines.map((found, k) => ({ ...found, k })).filter(({ k }) => showing(`baseline${k}`));

/** Ends of the axes of the losses: all that is drawn, and the origin where it does not dwarf it. */
function lossDomains() {
  const rows = [
    ...state.front.values,
    ...(M === 2 ? plane.curve().map((sample) => sample.values) : []),
    ...(showing("truth") ? DATA.truth.flat() : []),
    ...shownBaselines().flatMap((found) => found.values),
    ...(state.frame === null ? [] : DATA.evolution.flatMap((frame) => frame.losses)), // the axes stand still
  ];
  const ends = range(M).map((j) => {
    const column = rows.map((row) => row[j]).filter(Number.isFinite);
    return [Math.min(...column), Math.max(...column)];
  });
  const origin = ends.every(([low, high]) => low >= 0 && low <= high - low);
  return ends.map(([low, high]) => {
    const span = high - low || Math.abs(high) || 1;
    return [origin ? 0 : low - 0.05 * span, high + 0.05 * span];
  });
}

const currentFrame = () => (state.frame === null ? null : DATA.evolution[state.frame]);

// Viridis, from dark to bright.
const VIRIDIS = [
  [68, 1, 84],
  [65, 68, 135],
  [42, 120, 142],
  [34, 168, 132],
  [122, 209, 81],
  [253, 231, 37],
];
const rgb = (parts) => `rgb(${parts.join(" ")})`;
function viridis(share) {
  const place = clamp(share, 0, 1) * (VIRIDIS.length - 1);
  const low = Math.min(Math.floor(place), VIRIDIS.length - 2);
  return VIRIDIS[low].map((value, c) => Math.round(value + (place - low) * (VIRIDIS[low + 1][c] - value)));
}

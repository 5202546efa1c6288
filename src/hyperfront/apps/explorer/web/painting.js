// Images from bytes, small charts from numbers.

const bytesOf = ({ bytes }) => Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0));

/** A canvas; color(value) or the bytes themselves give red, green and blue. */
function canvas(image, label, color = null) {
  const node = el("canvas", { role: "img", "aria-label": label, width: image.width, height: image.height });
  paint(node, image, color);
  return node;
}

function paint(node, image, color = null) {
  const context = node.getContext("2d");
  const pixels = context.createImageData(image.width, image.height);
  const bytes = bytesOf(image);
  const count = image.width * image.height;
  const channels = bytes.length / count;
  for (let k = 0; k < count; k++) {
    const rgb = color
      ? color(bytes[k])
      : channels === 3
        ? bytes.subarray(3 * k, 3 * k + 3)
        : [bytes[k], bytes[k], bytes[k]];
    pixels.data.set([rgb[0], rgb[1], rgb[2], 255], 4 * k);
  }
  context.putImageData(pixels, 0, 0);
}

const CLASS_COLORS = [
  [230, 159, 0],
  [86, 180, 233],
  [0, 158, 115],
  [204, 121, 167],
  [0, 114, 178],
  [213, 94, 0],
  [240, 228, 66],
  [148, 103, 189],
  [140, 86, 75],
  [127, 201, 127],
  [253, 192, 134],
  [56, 108, 176],
  [240, 2, 127],
];
const classColor = (index) => CLASS_COLORS[index] || [120, 124, 128]; // grey: no label
const depthColor = (level) => viridis(1 - level / 255);

/** Upright bars from a common zero, with ticks where they should be. */
function bars(values, { targets = null, extent = [], label, height = 44 }) {
  const all = [...values, ...(targets || []), ...extent, 0];
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const width = 100;
  const each = width / values.length;
  const y = (value) => height - ((value - low) / (high - low || 1)) * height;
  return svg(
    "svg",
    { class: "bars", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    values.map((value, k) =>
      svg("rect", {
        class: "bar",
        x: k * each + each * 0.14,
        width: each * 0.72,
        y: Math.min(y(value), y(0)),
        height: Math.max(0.6, Math.abs(y(value) - y(0))),
      }),
    ),
    (targets || []).map((value, k) =>
      svg("line", { class: "aim", x1: k * each, x2: (k + 1) * each, y1: y(value), y2: y(value) }),
    ),
    svg("line", { class: "zero", x1: 0, x2: width, y1: y(0), y2: y(0) }),
  );
}

/** A picture or chart with words under it. */
const figure = (node, ...words) => el("figure", {}, node, el("figcaption", {}, ...words));

/** A share of 1 as a bar, with a mark where a decision begins; the number stands beside it. */
function meter(share, kind = "", marked = null) {
  const node = el("span", { class: `meter ${kind}`, "aria-hidden": "true" }, el("span"));
  node.firstChild.style.width = `${100 * share}%`;
  if (marked !== null) {
    const mark = el("i", {});
    mark.style.left = `${100 * marked}%`;
    node.append(mark);
  }
  return node;
}

/** Shares of 1 as a row of columns; the number stands beside them. */
function columnChart(shares, names, marked) {
  const columns = shares.map((share, c) => {
    const title = `${names[c]} ${percent(share)}`;
    const node = el("span", { class: c === marked ? "column true" : "column", title }, el("span"));
    node.firstChild.style.height = `${Math.max(2, 100 * share)}%`;
    return node;
  });
  return el("span", { class: "columns", "aria-hidden": "true" }, columns);
}

const verdict = (right, text) =>
  el("span", { class: right ? "right-answer" : "wrong-answer" }, `${right ? "✓" : "✗"} ${text}`);

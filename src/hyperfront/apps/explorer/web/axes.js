// Two axes with their grid, numbers and names; limits on them; how large points are.

const MARGINS = { left: 56, right: 18, top: 14, bottom: 46 };

/** Grid, numbers and names. */
function frame(layer, box, { dx, dy, x, y }, names) {
  const xs = ticks(dx, clamp(Math.round((box.right - box.left) / 90), 3, 8));
  const ys = ticks(dy, clamp(Math.round((box.bottom - box.top) / 60), 3, 7));
  for (const value of xs) {
    const name = { class: "tick", x: x(value), y: box.bottom + 18, "text-anchor": "middle" };
    layer.append(svg("line", { class: "grid", x1: x(value), x2: x(value), y1: box.top, y2: box.bottom }));
    layer.append(svg("text", name, tickText(value, xs)));
  }
  for (const value of ys) {
    const name = { class: "tick", x: box.left - 8, y: y(value), dy: "0.32em", "text-anchor": "end" };
    layer.append(svg("line", { class: "grid", x1: box.left, x2: box.right, y1: y(value), y2: y(value) }));
    layer.append(svg("text", name, tickText(value, ys)));
  }
  const below = `translate(${(box.left + box.right) / 2} ${box.bottom + 38})`;
  const beside = `translate(14 ${(box.top + box.bottom) / 2}) rotate(-90)`;
  const room = Math.floor((box.bottom - box.top) / 8);
  [below, beside].forEach((transform, j) =>
    layer.append(svg("text", { class: "axis", transform, "text-anchor": "middle" }, shortened(names[j], room))),
  );
}

/** The line of a limit, and what lies beyond it; `upwards` says that it is on the vertical axis. */
function limitBand(layer, upwards, { sign, bound }, box, { x, y }) {
  const at = upwards ? clamp(y(bound), box.top, box.bottom) : clamp(x(bound), box.left, box.right);
  const [x1, x2, y1, y2] = upwards ? [box.left, box.right, at, at] : [at, at, box.top, box.bottom];
  const above = sign === "<=";
  const area = upwards
    ? {
        x: box.left,
        width: box.right - box.left,
        y: above ? box.top : at,
        height: above ? at - box.top : box.bottom - at,
      }
    : {
        y: box.top,
        height: box.bottom - box.top,
        x: above ? at : box.left,
        width: above ? box.right - at : at - box.left,
      };
  layer.append(svg("rect", { class: "forbidden", ...area }), svg("line", { class: "limit", x1, x2, y1, y2 }));
}

/** Smaller where many points share little room. */
const pointSize = (box) => (box.width < 500 || state.front.rays.length > 100 ? 1.9 : 2.6);

// Two objectives: the front as a curve.

const plane = {
  label: "Curve",
  margins: { left: 56, right: 18, top: 14, bottom: 46 },

  /** The curve between the measured rays. */
  curve() {
    if (this.of !== state.surface) {
      this.of = state.surface;
      this.samples = range(241).map((k) => {
        const ray = [1 - k / 240, k / 240];
        return { ray, values: state.surface.at(ray) };
      });
    }
    return this.samples;
  },

  axes(box) {
    const [dx, dy] = lossDomains();
    return { dx, dy, x: scale(dx, [box.left, box.right]), y: scale(dy, [box.bottom, box.top]) };
  },

  base(layer, box) {
    const { dx, dy, x, y } = this.axes(box);
    const xs = ticks(dx, clamp(Math.round((box.right - box.left) / 90), 3, 8));
    const ys = ticks(dy, clamp(Math.round((box.bottom - box.top) / 60), 3, 7));
    for (const value of xs)
      layer.append(
        svg("line", { class: "grid", x1: x(value), x2: x(value), y1: box.top, y2: box.bottom }),
        svg("text", { class: "tick", x: x(value), y: box.bottom + 18, "text-anchor": "middle" }, tickText(value, xs)));
    for (const value of ys)
      layer.append(
        svg("line", { class: "grid", x1: box.left, x2: box.right, y1: y(value), y2: y(value) }),
        svg("text", { class: "tick", x: box.left - 8, y: y(value), dy: "0.32em", "text-anchor": "end" }, tickText(value, ys)));
    layer.append(
      svg("text", { class: "axis", x: (box.left + box.right) / 2, y: box.bottom + 38, "text-anchor": "middle" }, `${DATA.objectives[0]} loss`),
      svg("text", { class: "axis", transform: `translate(14 ${(box.top + box.bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, `${DATA.objectives[1]} loss`));

    const inside = svg("g", { "clip-path": "url(#inside)" });
    layer.append(inside);
    if (showing("rays")) for (const ray of spread(state.front.rays, 24)) this.rayLine(inside, ray, dx, dy, x, y, "ray");
    for (const { column, sign, bound } of state.limits.filter((limit) => limit.column < 2)) {
      const upper = sign === "<=";
      const at = column ? y(bound) : x(bound);
      const area = column
        ? { x: box.left, width: box.right - box.left, y: upper ? box.top : at, height: Math.max(0, upper ? at - box.top : box.bottom - at) }
        : { y: box.top, height: box.bottom - box.top, x: upper ? at : box.left, width: Math.max(0, upper ? box.right - at : at - box.left) };
      inside.append(svg("rect", { class: "forbidden", ...area }));
      inside.append(svg("line", column
        ? { class: "limit", x1: box.left, x2: box.right, y1: at, y2: at }
        : { class: "limit", x1: at, x2: at, y1: box.top, y2: box.bottom }));
    }
    if (showing("truth"))
      for (const part of DATA.truth) inside.append(svg("path", { class: "truth", d: path(part.map(([a, b]) => [x(a), y(b)])) }));
    for (const { k, values } of shownBaselines()) {
      const ordered = [...values].sort((a, b) => a[0] - b[0]).map((row) => [x(row[0]), y(row[1])]);
      inside.append(svg("path", { class: `thread b${k % 4}`, d: path(ordered) }), ...ordered.map(([px, py]) => baselineMark(k, px, py)));
    }
    const now = svg("g", { class: currentFrame() ? "faded" : "" });
    now.append(svg("path", { class: "front", d: path(this.curve().map(({ values }) => [x(values[0]), y(values[1])])) }));
    state.front.values.forEach((row, r) => now.append(dot(x(row[0]), y(row[1]), 2.6, state.front.best[r] ? "point" : "point hollow")));
    inside.append(now);
    const frame = currentFrame();
    if (frame) {
      const points = [...frame.losses].sort((a, b) => a[0] - b[0]).map((row) => [x(row[0]), y(row[1])]);
      inside.append(svg("path", { class: "then-line", d: path(points) }), ...points.map(([px, py]) => dot(px, py, 3.4, "then")));
    }
  },

  rayLine(layer, ray, dx, dy, x, y, kind) {
    if (DATA.convention === "weights" || dx[0] > 0 || dy[0] > 0) return;
    const along = DATA.convention === "inverse" ? [ray[1], ray[0]] : ray; // 1 / r is parallel to (r_2, r_1)
    const reach = Math.min(along[0] > 0 ? dx[1] / along[0] : Infinity, along[1] > 0 ? dy[1] / along[1] : Infinity);
    layer.append(svg("line", { class: kind, x1: x(0), y1: y(0), x2: x(along[0] * reach), y2: y(along[1] * reach) }));
  },

  mark(layer, box) {
    const { dx, dy, x, y } = this.axes(box);
    const inside = svg("g", { "clip-path": "url(#inside)" });
    layer.append(inside);
    this.rayLine(inside, state.ray, dx, dy, x, y, "ray now");
    const [px, py] = [x(state.values[0]), y(state.values[1])];
    inside.append(svg("path", { class: "guide", d: `M${px} ${box.bottom}V${py}H${box.left}` }));
    state.pins.forEach((pin, k) => layer.append(badge(x(pin.values[0]), y(pin.values[1]), pinName(k))));
    layer.append(here(px, py));
  },

  pick(px, py, box) {
    const { x, y } = this.axes(box);
    const distance = ({ values }) => (x(values[0]) - px) ** 2 + (y(values[1]) - py) ** 2;
    return this.curve().reduce((best, next) => (distance(next) < distance(best) ? next : best)).ray;
  },
};

/** At most so many of a list, evenly spread by the first entry. */
function spread(rays, most) {
  const ordered = [...rays].sort((a, b) => a[0] - b[0]);
  const step = Math.max(1, Math.ceil(ordered.length / most));
  return ordered.filter((_, k) => k % step === 0);
}

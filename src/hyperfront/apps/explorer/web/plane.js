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
    const axes = this.axes(box);
    const inside = svg("g", { "clip-path": "url(#inside)" });
    this.frame(layer, box, axes);
    layer.append(inside);
    if (showing("rays")) for (const ray of spread(state.front.rays, 24)) this.rayLine(inside, ray, axes, "ray");
    for (const limit of state.limits.filter(({ column }) => column < 2)) this.limit(inside, limit, box, axes);
    this.others(inside, axes);
    this.front(inside, box, axes);
  },

  /** Grid, numbers and names. */
  frame(layer, box, { dx, dy, x, y }) {
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
    [below, beside].forEach((transform, j) =>
      layer.append(
        svg("text", { class: "axis", transform, "text-anchor": "middle" }, `${shortened(DATA.objectives[j], 30)} loss`),
      ),
    );
  },

  /** The line of a limit, and what lies beyond it. */
  limit(layer, { column, sign, bound }, box, { x, y }) {
    const at = column ? clamp(y(bound), box.top, box.bottom) : clamp(x(bound), box.left, box.right);
    const allowed = sign === "<=";
    const [x1, x2, y1, y2] = column ? [box.left, box.right, at, at] : [at, at, box.top, box.bottom];
    const area = column
      ? {
          x: box.left,
          width: box.right - box.left,
          y: allowed ? box.top : at,
          height: allowed ? at - box.top : box.bottom - at,
        }
      : {
          y: box.top,
          height: box.bottom - box.top,
          x: allowed ? at : box.left,
          width: allowed ? box.right - at : at - box.left,
        };
    layer.append(svg("rect", { class: "forbidden", ...area }), svg("line", { class: "limit", x1, x2, y1, y2 }));
  },

  /** The true front and the baselines. */
  others(layer, { x, y }) {
    const placed = (rows) => rows.map((row) => [x(row[0]), y(row[1])]);
    if (showing("truth"))
      for (const part of DATA.truth) layer.append(svg("path", { class: "truth", d: path(placed(part)) }));
    for (const { k, values } of shownBaselines()) {
      const points = placed([...values].sort((a, b) => a[0] - b[0]));
      layer.append(svg("path", { class: `thread b${k % 4}`, d: path(points) }));
      layer.append(...points.map((at) => baselineMark(k, ...at)));
    }
  },

  /** The front as it is, and as it was at the epoch that is looked at. */
  front(layer, box, { x, y }) {
    const placed = (row) => [x(row[0]), y(row[1])];
    const frame = currentFrame();
    const now = svg("g", { class: frame ? "faded" : "" });
    now.append(svg("path", { class: "front", d: path(this.curve().map(({ values }) => placed(values))) }));
    const size = box.width < 500 ? 1.9 : 2.6;
    state.front.values.forEach((row, r) =>
      now.append(dot(...placed(row), size, state.front.best[r] ? "point" : "point hollow")),
    );
    layer.append(now);
    if (!frame) return;
    const then = [...frame.losses].sort((a, b) => a[0] - b[0]).map(placed);
    layer.append(svg("path", { class: "then-line", d: path(then) }), ...then.map((at) => dot(...at, 3.4, "then")));
  },

  rayLine(layer, ray, { dx, dy, x, y }, kind) {
    if (DATA.convention === "weights" || dx[0] > 0 || dy[0] > 0) return;
    const along = DATA.convention === "inverse" ? [ray[1], ray[0]] : ray; // 1 / r is parallel to (r_2, r_1)
    const reach = Math.min(along[0] > 0 ? dx[1] / along[0] : Infinity, along[1] > 0 ? dy[1] / along[1] : Infinity);
    layer.append(svg("line", { class: kind, x1: x(0), y1: y(0), x2: x(along[0] * reach), y2: y(along[1] * reach) }));
  },

  mark(layer, box) {
    const { x, y } = this.axes(box);
    const inside = svg("g", { "clip-path": "url(#inside)" });
    layer.append(inside);
    this.rayLine(inside, state.ray, this.axes(box), "ray now");
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

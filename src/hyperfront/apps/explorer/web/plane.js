// Two objectives: the front as a curve.

const plane = {
  label: "Curve",
  margins: MARGINS,

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
    frame(layer, box, axes, [titled(0), titled(1)]);
    layer.append(inside);
    if (showing("rays")) for (const ray of spread(state.front.rays, 24)) this.rayLine(inside, ray, axes, "ray");
    for (const limit of state.limits.filter(({ column }) => column < 2))
      limitBand(inside, limit.column === 1, limit, box, axes);
    this.others(inside, axes);
    this.front(inside, box, axes);
  },

  /** The true front and the baselines. */
  others(layer, { x, y }) {
    const placed = (rows) => rows.map((row) => [x(row[0]), y(row[1])]);
    if (showing("truth"))
      for (const part of DATA.truth) layer.append(svg("path", { class: "truth", d: path(placed(part)) }));
    for (const { k, rays, values } of shownBaselines()) {
      const points = placed(values.filter(complete).sort((a, b) => a[0] - b[0]));
      const isFront = rays.every((ray) => ray.every(Number.isFinite));
      if (isFront) layer.append(svg("path", { class: `thread b${k % 4}`, d: path(points) }));
      layer.append(...points.map((at) => baselineMark(k, ...at)));
    }
  },

  /** The front as it is, and as it was at the epoch that is looked at. */
  front(layer, box, { x, y }) {
    const placed = (row) => [x(row[0]), y(row[1])];
    const frame = currentFrame();
    const now = svg("g", { class: frame ? "faded" : "" });
    now.append(svg("path", { class: "front", d: path(this.curve().map(({ values }) => placed(values))) }));
    const size = pointSize(box);
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

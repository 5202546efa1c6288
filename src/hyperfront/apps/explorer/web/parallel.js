// Any number of objectives: one axis for each loss and score, one line for each ray.

const parallel = {
  label: "Parallel",
  /** Names of axes that stand close lean over. */
  narrow: () => byId("plot").clientWidth / COLUMNS.length < 84,

  get margins() {
    return this.narrow() ? { left: 26, right: 46, top: 84, bottom: 46 } : { left: 42, right: 42, top: 62, bottom: 46 };
  },

  axes(box) {
    const rows = [
      ...bestRows(), // what is dominated may lie far outside, and is cut off
      ...shownBaselines().flatMap((found) => found.values),
      ...state.pins.map((pin) => pin.values),
      ...(state.frame === null ? [] : DATA.evolution.flatMap((frame) => frame.losses)),
    ];
    return COLUMNS.map((_, c) => {
      const column = rows.map((row) => row[c]).filter(Number.isFinite);
      const [low, high] = [Math.min(...column), Math.max(...column)];
      const x = COLUMNS.length > 1 ? box.left + (c / (COLUMNS.length - 1)) * (box.right - box.left) : box.left;
      return { name: SHORT[c] ?? LABELS[c], low, high, x, y: scale([low, high], [box.bottom, box.top]) };
    });
  },

  line: (axes, row) =>
    path(axes.slice(0, row.length).flatMap((axis, c) => (Number.isFinite(row[c]) ? [[axis.x, axis.y(row[c])]] : []))),

  base(layer, box) {
    const axes = this.axes(box);
    const narrow = this.narrow();
    const now = svg("g", { class: currentFrame() ? "faded" : "", "clip-path": "url(#inside)" });
    state.front.values.forEach((row, r) =>
      now.append(svg("path", { class: state.front.best[r] ? "strand" : "strand hollow", d: this.line(axes, row) })),
    );
    layer.append(now);
    for (const { k, values } of shownBaselines())
      for (const row of values) layer.append(svg("path", { class: `thread b${k % 4}`, d: this.line(axes, row) }));
    const frame = currentFrame();
    if (frame)
      for (const row of frame.losses) layer.append(svg("path", { class: "then-line", d: this.line(axes, row) }));
    axes.forEach((axis, c) => {
      layer.append(svg("line", { class: "rule", x1: axis.x, x2: axis.x, y1: box.top, y2: box.bottom }));
      const label = { class: c < M ? "axis" : "axis score" };
      layer.append(
        narrow
          ? svg(
              "text",
              { ...label, transform: `translate(${axis.x - 2} ${box.top - 24}) rotate(-52)` },
              shortened(axis.name, 11),
            )
          : svg("text", { ...label, x: axis.x, y: box.top - 30, "text-anchor": "middle" }, shortened(axis.name, 18)),
      );
      const text = (value, y) =>
        svg("text", { class: "tick", x: axis.x, y, "text-anchor": "middle" }, show(value, narrow ? 2 : 3));
      layer.append(text(axis.high, box.top - 9), text(axis.low, box.bottom + 17));
    });
    for (const { column, sign, bound } of state.limits) {
      const axis = axes[column];
      const y = clamp(axis.y(bound), box.top, box.bottom);
      const upper = sign === "<=";
      const area = { x: axis.x - 7, width: 14, y: upper ? box.top : y, height: upper ? y - box.top : box.bottom - y };
      layer.append(
        svg("rect", { class: "forbidden", ...area }),
        svg("line", { class: "limit", x1: axis.x - 12, x2: axis.x + 12, y1: y, y2: y }),
      );
    }
  },

  mark(layer, box) {
    const axes = this.axes(box);
    const kept = axes.map((axis) => ({ ...axis, y: (value) => clamp(axis.y(value), box.top, box.bottom) }));
    state.pins.forEach((pin, k) =>
      layer.append(
        svg("path", { class: "pinned", d: this.line(kept, pin.values) }),
        badge(kept[0].x - 14, kept[0].y(pin.values[0]), pinName(k)),
      ),
    );
    layer.append(svg("path", { class: "strand now", d: this.line(kept, state.values) }));
    kept.forEach((axis, c) => layer.append(dot(axis.x, axis.y(state.values[c]), 4.5, "knot")));
    if (!showing("rays")) return;
    const width = Math.min(34, (axes[1]?.x - axes[0].x) * 0.7 || 34);
    state.ray.forEach((value, j) =>
      layer.append(
        svg("rect", { class: "share", x: axes[j].x - width / 2, y: box.bottom + 27, width, height: 5, rx: 2.5 }),
        svg("rect", {
          class: "share full",
          x: axes[j].x - width / 2,
          y: box.bottom + 27,
          width: width * value,
          height: 5,
          rx: 2.5,
        }),
      ),
    );
  },

  pick(px, py, box) {
    const axes = this.axes(box);
    const c = axes.reduce((best, axis, k) => (Math.abs(axis.x - px) < Math.abs(axes[best].x - px) ? k : best), 0);
    const height = (row) => Math.abs(axes[c].y(row[c]) - py);
    const best = state.front.values.reduce(
      (kept, row, r) => (height(row) < height(state.front.values[kept]) ? r : kept),
      0,
    );
    return state.front.rays[best];
  },
};

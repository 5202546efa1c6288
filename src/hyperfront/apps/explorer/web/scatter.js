// Any two losses or scores against each other, such as the error against a gap, with foreign points beside them.

const scatter = {
  label: "Any two",
  margins: MARGINS,
  across: DATA.scores.length > 1 ? M : 0,
  up: DATA.scores.length > 1 ? M + 1 : COLUMNS.length - 1,

  axes(box) {
    const rows = [...state.front.values, ...shownBaselines().flatMap((found) => found.values), state.values];
    const [dx, dy] = [this.across, this.up].map((c) => {
      const column = rows.map((row) => row[c]).filter(Number.isFinite);
      const [low, high] = [Math.min(...column), Math.max(...column)];
      const margin = 0.05 * (high - low || Math.abs(high) || 1);
      return [low - margin, high + margin];
    });
    return { dx, dy, x: scale(dx, [box.left, box.right]), y: scale(dy, [box.bottom, box.top]) };
  },

  /** Whether no other row is at least as good in both measures and better in one. */
  best(rows) {
    const signs = [this.across, this.up].map((c) => [c, wantsMore(c) ? -1 : 1]);
    const costs = rows.map((row) => signs.map(([c, sign]) => sign * row[c]));
    return costs.map(([a, b]) => !costs.some(([p, q]) => p <= a && q <= b && (p < a || q < b)));
  },

  base(layer, box) {
    const axes = this.axes(box);
    const at = (row) => [axes.x(row[this.across]), axes.y(row[this.up])];
    const drawn = (row) => Number.isFinite(row[this.across]) && Number.isFinite(row[this.up]);
    const arrow = (c) => `${titled(c)} ${wantsMore(c) ? "→ better" : "← better"}`;
    frame(layer, box, axes, [arrow(this.across), arrow(this.up)]);
    const inside = svg("g", { "clip-path": "url(#inside)" });
    layer.append(inside);
    for (const limit of state.limits)
      for (const [column, upwards] of [
        [this.across, false],
        [this.up, true],
      ])
        if (limit.column === column) limitBand(inside, upwards, limit, box, axes);
    const rows = state.front.values.filter(drawn);
    const best = this.best(rows);
    const size = pointSize(box);
    const line = rows.filter((_, r) => best[r]).sort((a, b) => a[this.across] - b[this.across]);
    inside.append(svg("path", { class: "thread mine", d: path(line.map(at)) }));
    for (const first of [false, true]) // the best on top
      rows.forEach(
        (row, r) => best[r] === first && inside.append(dot(...at(row), size, first ? "point" : "point hollow")),
      );
    for (const { k, values } of shownBaselines())
      for (const row of values.filter(drawn)) inside.append(baselineMark(k, ...at(row)));
  },

  mark(layer, box) {
    const { x, y } = this.axes(box);
    const at = (values) => [x(values[this.across]), y(values[this.up])];
    state.pins.forEach((pin, k) => layer.append(badge(...at(pin.values), pinName(k))));
    layer.append(here(...at(state.values)));
  },

  pick(px, py, box) {
    const { x, y } = this.axes(box);
    const distance = (row) => (x(row[this.across]) - px) ** 2 + (y(row[this.up]) - py) ** 2;
    const nearest = (kept, row, r) => (distance(row) < distance(state.front.values[kept]) ? r : kept);
    return state.front.rays[state.front.values.reduce(nearest, 0)];
  },
};

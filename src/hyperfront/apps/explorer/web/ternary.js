// Three objectives: rays in a triangle, coloured by a loss or score.

const ternary = {
  label: "Ternary",
  margins: { left: 8, right: 8, top: 38, bottom: 42 },
  column: 0,

  /** The triangle as large as fits, beside the legend of its colours. */
  placed(box) {
    const room = Math.min(box.right - box.left - 70, (box.bottom - box.top) / HEIGHT);
    const x0 = box.left + (box.right - box.left - room - 50) / 2;
    return { x: (u) => x0 + room * u, y: (v) => box.top + room * v, room, x0 };
  },

  cells() {
    if (this.of !== state.surface) {
      this.of = state.surface;
      const parts = 26;
      const found = [];
      const ray = (...counts) => counts.map((count) => count / parts);
      for (let a = 0; a < parts; a++)
        for (let b = 0; a + b < parts; b++) {
          const c = parts - 1 - a - b;
          found.push([ray(a + 1, b, c), ray(a, b + 1, c), ray(a, b, c + 1)]);
          if (c > 0) found.push([ray(a + 1, b + 1, c - 1), ray(a + 1, b, c), ray(a, b + 1, c)]);
        }
      this.all = found.map((corners) => {
        const middle = [0, 1, 2].map((j) => (corners[0][j] + corners[1][j] + corners[2][j]) / 3);
        return { corners, values: state.surface.at(middle) };
      });
    }
    return this.all;
  },

  base(layer, box) {
    const { x, y, room, x0 } = this.placed(box);
    const at = (ray) => {
      const [u, v] = toTriangle(ray);
      return [x(u), y(v)];
    };
    const values = [...this.cells(), ...state.front.values.map((row) => ({ values: row }))].map(
      (cell) => cell.values[this.column],
    );
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const color = (value) => rgb(viridis((value - low) / (high - low || 1)));
    const heat = svg("g", { class: "heat" });
    for (const { corners, values: row } of this.cells()) {
      const fill = color(row[this.column]);
      heat.append(svg("path", { d: `${path(corners.map(at))}Z`, fill, stroke: fill }));
    }
    layer.append(heat, svg("path", { class: "edge", d: `${path(CORNERS.map(([u, v]) => [x(u), y(v)]))}Z` }));
    if (showing("rays"))
      for (const ray of state.front.rays) {
        const [px, py] = at(ray);
        layer.append(dot(px, py, 1.5, "seed"));
      }
    const names = [
      ["middle", 0, -10],
      ["start", -4, 20],
      ["end", 4, 20],
    ];
    AXES.forEach((name, j) => {
      const [anchor, dx, dy] = names[j];
      layer.append(
        axisName(
          { x: x(CORNERS[j][0]) + dx, y: y(CORNERS[j][1]) + dy, "text-anchor": anchor },
          name,
          Math.floor(room / 16),
          { up: j === 0 },
        ),
      );
    });
    const bar = { x: x0 + room + 14, y: box.top + 0.1 * room * HEIGHT, height: 0.7 * room * HEIGHT };
    for (let k = 0; k < 40; k++)
      layer.append(
        svg("rect", {
          x: bar.x,
          y: bar.y + (k / 40) * bar.height,
          width: 9,
          height: bar.height / 40 + 0.6,
          fill: rgb(viridis(1 - k / 39)),
        }),
      );
    const end = (value, at) => svg("text", { class: "tick", x: bar.x + 14, y: at, dy: "0.35em" }, show(value, 3));
    layer.append(end(high, bar.y + 5), end(low, bar.y + bar.height - 4));
  },

  mark(layer, box) {
    const { x, y } = this.placed(box);
    const at = (ray) => toTriangle(ray).map((value, axis) => (axis ? y(value) : x(value)));
    state.pins.forEach((pin, k) => layer.append(badge(...at(pin.ray), pinName(k))));
    layer.append(here(...at(state.ray)));
  },

  pick(px, py, box) {
    const { x, y } = this.placed(box);
    return fromTriangle((px - x(0)) / (x(1) - x(0)), (py - y(0)) / (y(1) - y(0)));
  },
};

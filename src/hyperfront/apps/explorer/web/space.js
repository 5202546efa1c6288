// Three objectives: the front as a surface in space, which can be turned.

const SQUARE = [
  [-0.5, -0.5],
  [0.5, -0.5],
  [0.5, 0.5],
  [-0.5, 0.5],
];

/** A point of the cube: t along an axis, u and v along the two after it. */
function along(axis, t, u, v) {
  const point = [0, 0, 0];
  [point[axis], point[(axis + 1) % 3], point[(axis + 2) % 3]] = [t, u, v];
  return point;
}

/** Whether the triangles of a surface look to both sides: seen along the diagonal of scaled losses, more than a tenth
 * of their area is turned over. Such a surface is crumpled, and hides its own points. */
function folds(vertices, faces) {
  const ends = [0, 1, 2].map((j) => {
    const column = vertices.map(({ values }) => values[j]);
    return [Math.min(...column), Math.max(...column)];
  });
  const placed = vertices.map(({ values }) => ends.map(([low, high], j) => (values[j] - low) / (high - low || 1)));
  const areas = [0, 0];
  for (const face of faces) {
    const [a, b, c] = face.map((k) => placed[k]);
    const [p, q] = [b.map((value, j) => value - a[j]), c.map((value, j) => value - a[j])];
    const turn = p[1] * q[2] - p[2] * q[1] + p[2] * q[0] - p[0] * q[2] + p[0] * q[1] - p[1] * q[0];
    areas[turn > 0 ? 1 : 0] += Math.abs(turn);
  }
  return Math.min(...areas) > 0.1 * (areas[0] + areas[1]);
}

const space = {
  label: "3-D",
  margins: { left: 8, right: 8, top: 8, bottom: 8 },
  turns: true,
  yaw: 0.72,
  pitch: 0.42,

  turn(dx, dy) {
    this.yaw += dx;
    this.pitch = clamp(this.pitch + dy, -1.2, 1.4);
  },

  /** Rays of a fine grid with their values, and the triangles between neighbours. */
  mesh() {
    if (this.of !== state.surface) {
      this.of = state.surface;
      const parts = 14; // as fine as the grid that is measured
      const index = new Map();
      this.vertices = dasDennis(3, parts).map((ray, k) => {
        index.set(ray.map((value) => Math.round(value * parts)).join(), k);
        return { ray, values: state.surface.at(ray) };
      });
      this.faces = [];
      for (const key of index.keys()) {
        const [a, b, c] = key.split(",").map(Number);
        const corner = (...counts) => index.get(counts.join());
        if (a > 0) this.faces.push([corner(a, b, c), corner(a - 1, b + 1, c), corner(a - 1, b, c + 1)]);
        if (a > 0 && b > 0) this.faces.push([corner(a, b, c), corner(a, b - 1, c + 1), corner(a - 1, b, c + 1)]);
      }
      this.faces = this.faces.filter((face) => face.every((k) => k !== undefined));
      this.folded = folds(this.vertices, this.faces);
    }
    return this;
  },

  /** From losses to pixels and depth. */
  projection(box) {
    const domains = lossDomains();
    const size = Math.min(box.right - box.left, (box.bottom - box.top) * 1.12) * 0.53;
    const center = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
    const [cy, sy, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
    const unit = (row) =>
      row.slice(0, 3).map((value, j) => (value - domains[j][0]) / (domains[j][1] - domains[j][0]) - 0.5);
    const turned = ([u, v, w]) => {
      const across = u * sy - v * cy;
      const towards = u * cy + v * sy;
      return [center[0] + size * across, center[1] - size * (w * cp - towards * sp), towards * cp + w * sp];
    };
    return { domains, unit, turned, at: (row) => turned(unit(row)) };
  },

  base(layer, box) {
    const { domains, unit, turned, at } = this.projection(box);
    this.walls(layer, domains, turned);
    this.scales(layer, domains, turned, box.width);
    const truth = showing("truth") ? DATA.truth.flat() : [];
    for (const row of truth) {
      const [x, y] = at(row);
      layer.append(dot(x, y, 1.3, "truth-dot"));
    }
    const { vertices, faces } = this.mesh();
    const placed = vertices.map(({ values }) => ({ unit: unit(values), at: at(values) }));
    const shaded = faces.map((face) => {
      const [a, b, c] = face.map((k) => placed[k].unit);
      const [p, q] = [b.map((value, j) => value - a[j]), c.map((value, j) => value - a[j])];
      const normal = [p[1] * q[2] - p[2] * q[1], p[2] * q[0] - p[0] * q[2], p[0] * q[1] - p[1] * q[0]];
      const length = Math.hypot(...normal) || 1;
      const light = Math.abs(0.35 * normal[0] + 0.5 * normal[1] + 0.79 * normal[2]) / length;
      return { face, light, depth: face.reduce((sum, k) => sum + placed[k].at[2], 0) };
    });
    if (showing("rays")) for (const ray of spread(state.front.rays, 40)) this.rayLine(layer, ray, domains, at, "ray");
    const now = svg("g", { class: currentFrame() ? "faded" : "" });
    for (const { face, light } of this.folded ? [] : shaded.sort((a, b) => a.depth - b.depth)) {
      const facet = svg("path", { class: "facet", d: `${path(face.map((k) => placed[k].at))}Z` });
      facet.style.setProperty("--light", `${Math.round(14 + 52 * light)}%`);
      now.append(facet);
    }
    state.front.values.forEach((row, r) => {
      const [x, y] = at(row);
      now.append(dot(x, y, 2.1, state.front.best[r] ? "point" : "point hollow"));
    });
    layer.append(now);
    for (const { k, values } of shownBaselines())
      for (const row of values.filter(complete)) layer.append(baselineMark(k, ...at(row).slice(0, 2), 2.8));
    const frame = currentFrame();
    if (frame) for (const row of frame.losses) layer.append(dot(...at(row).slice(0, 2), 3, "then"));
  },

  /** From the origin to where the ray leaves the box. */
  rayLine(layer, ray, domains, at, kind) {
    if (DATA.convention === "weights" || domains.some(([low]) => low > 0)) return;
    const [a, b, c] = ray;
    const along = DATA.convention === "inverse" ? [b * c, a * c, a * b] : ray; // 1 / r is parallel to these products
    const reach = Math.min(...along.map((part, j) => (part > 0 ? domains[j][1] / part : Infinity)));
    if (reach === Infinity) return; // a corner, where two products of the ray ask for nothing
    const [[x1, y1], [x2, y2]] = [at([0, 0, 0]), at(along.map((part) => part * reach))];
    layer.append(svg("line", { class: kind, x1, y1, x2, y2 }));
  },

  /** The three walls behind the front, with their grid. */
  walls(layer, domains, turned) {
    for (let axis = 0; axis < 3; axis++) {
      const depth = (side) => turned(along(axis, side, 0, 0))[2];
      const back = depth(-0.5) < depth(0.5) ? -0.5 : 0.5;
      layer.append(
        svg("path", { class: "wall", d: `${path(SQUARE.map(([u, v]) => turned(along(axis, back, u, v))))}Z` }),
      );
      for (const second of [false, true]) {
        const other = (axis + (second ? 2 : 1)) % 3;
        for (const value of ticks(domains[other], 6)) {
          const at = (value - domains[other][0]) / (domains[other][1] - domains[other][0]) - 0.5;
          const ends = [-0.5, 0.5].map((t) => turned(second ? along(axis, back, t, at) : along(axis, back, at, t)));
          layer.append(svg("path", { class: "grid", d: path(ends) }));
        }
      }
    }
  },

  /** Numbers and names along the outermost edges on the screen, where they hide nothing. */
  scales(layer, domains, turned, width) {
    const middle = turned([0, 0, 0]);
    const most = Math.floor(width / 18); // letters of a line
    for (let axis = 0; axis < 3; axis++) {
      const upright = axis === 2;
      const outer = ([u, v]) => {
        const [x, y] = turned(along(axis, 0, u, v));
        return upright ? middle[0] - x : y - middle[1];
      };
      const [u, v] = SQUARE.reduce((best, next) => (outer(next) > outer(best) ? next : best));
      const leftwards = upright || turned(along(axis, 0, u, v))[0] < middle[0];
      const away = upright ? [-1, 0] : [leftwards ? -0.75 : 0.75, 0.66];
      const text = (t, far, kind, words) => {
        const [x, y] = turned(along(axis, t, u, v)).map((value, k) => value + far * (away[k] || 0));
        const long =
          kind === "axis" ? 7.6 * Math.max(...twoLines(words, most).map((l) => l.length)) : 6.4 * words.length;
        const kept = leftwards ? Math.max(x, long + 2) : Math.min(x, width - long - 2);
        const place = { x: kept, y, "text-anchor": leftwards ? "end" : "start" };
        layer.append(
          kind === "axis"
            ? axisName(place, words, most, { up: upright, dy: 0.35 })
            : svg("text", { class: kind, ...place, dy: "0.35em" }, words),
        );
      };
      const list = ticks(domains[axis], 6);
      for (const value of list) {
        const t = (value - domains[axis][0]) / (domains[axis][1] - domains[axis][0]) - 0.5;
        if (Math.abs(t) < 0.45) text(t, 9, "tick", tickText(value, list)); // at the ends two axes meet
      }
      text(upright ? 0.58 : 0, upright ? -8 : 46, "axis", AXES[axis]);
    }
  },

  mark(layer, box) {
    const { domains, at } = this.projection(box);
    this.rayLine(layer, state.ray, domains, at, "ray now");
    state.pins.forEach((pin, k) => layer.append(badge(...at(pin.values).slice(0, 2), pinName(k))));
    layer.append(here(...at(state.values).slice(0, 2)));
  },

  pick(px, py, box) {
    const { at } = this.projection(box);
    const distance = ({ values }) => {
      const [x, y] = at(values);
      return (x - px) ** 2 + (y - py) ** 2;
    };
    const best = this.mesh().vertices.reduce((kept, next) => (distance(next) < distance(kept) ? next : kept));
    return distance(best) < 24 ** 2 ? best.ray : null;
  },
};

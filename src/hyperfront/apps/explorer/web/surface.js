// Between measured rays: a cubic spline through all of them, the same as hyperfront.selection uses,
//
//   f(x) = sum_k c_k |x - x_k|^3 + a + b . x,    x = log(r + 0.1) minus its mean.

const place = (ray) => {
  const logs = ray.map((value) => Math.log(value + 0.1));
  const mean = logs.reduce((sum, value) => sum + value, 0) / logs.length;
  return logs.map((value) => value - mean);
};

class Surface {
  /** Through the columns [R][C] at the rays [R][m]. */
  constructor(rays, values) {
    this.knots = rays.map(place);
    this.columns = values[0].length;
    const column = (c) => values.map((row) => row[c]).filter(Number.isFinite);
    this.bounds = range(this.columns).map((c) => {
      const [low, high] = [Math.min(...column(c)), Math.max(...column(c))];
      return [low - 0.05 * (high - low), high + 0.05 * (high - low)]; // a spline may overshoot where a front jumps
    });
    const m = rays[0].length;
    const upper = this.knots.map((x) => this.design(x));
    const lower = range(m).map((i) => [...upper.map((row) => row[this.knots.length + i]), ...range(m).map(() => 0)]);
    const sides = [...values.map((row) => [...row]), ...range(m).map(() => range(this.columns).map(() => 0))];
    this.weights = solve([...upper, ...lower], sides);
  }

  design(x) {
    const cubes = this.knots.map((knot) => {
      let square = 0;
      for (let j = 0; j < x.length; j++) square += (x[j] - knot[j]) ** 2;
      return square * Math.sqrt(square);
    });
    return [...cubes, 1, ...x.slice(0, -1)];
  }

  /** The values [C] at a ray. */
  at(ray) {
    const design = this.design(place(ray));
    const found = new Array(this.columns).fill(0);
    for (let k = 0; k < design.length; k++) {
      const weight = this.weights[k];
      for (let c = 0; c < this.columns; c++) found[c] += design[k] * weight[c];
    }
    return found.map((value, c) => clamp(value, ...this.bounds[c]));
  }
}

/** Gaussian elimination with pivoting, for several right-hand sides; what rays that coincide add is left out. */
function solve(matrix, sides) {
  const n = matrix.length;
  const rows = matrix.map((row, i) => Float64Array.from([...row, ...sides[i]]));
  const used = [];
  for (let c = 0, r = 0; c < n && r < n; c++) {
    let best = r;
    for (let i = r + 1; i < n; i++) if (Math.abs(rows[i][c]) > Math.abs(rows[best][c])) best = i;
    if (Math.abs(rows[best][c]) < 1e-12) continue;
    [rows[r], rows[best]] = [rows[best], rows[r]];
    for (let i = r + 1; i < n; i++) {
      const factor = rows[i][c] / rows[r][c];
      if (factor) for (let k = c; k < rows[i].length; k++) rows[i][k] -= factor * rows[r][k];
    }
    used.push([r++, c]);
  }
  const answer = range(n).map(() => new Float64Array(sides[0].length));
  for (const [r, c] of used.reverse()) {
    for (let s = 0; s < sides[0].length; s++) {
      let value = rows[r][n + s];
      for (let k = c + 1; k < n; k++) value -= rows[r][k] * answer[k][s];
      answer[c][s] = value / rows[r][c];
    }
  }
  return answer;
}

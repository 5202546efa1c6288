// "right <= 0.4, then the best left", on the surface: random clouds around the best ray so far, ever smaller.

/** Random numbers that are the same every time, so that the same limits lead to the same ray. */
function generator(seed) {
  let word = seed >>> 0;
  return () => {
    word = (word + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(word ^ (word >>> 15), word | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** How far values are beyond the limits, relative to them; 0 where they keep all. */
function excess(values, limits) {
  let total = 0;
  for (const { column, sign, bound } of limits) {
    const over = sign === "<=" ? values[column] - bound : bound - values[column];
    total += Math.max(0, over) / Math.max(Math.abs(bound), 1e-12);
  }
  return total;
}

/** The best ray within the limits, or the one nearest to them: {ray, values, kept}. */
function searchSurface(surface, rays, goal, limits) {
  const sign = wantsMore(goal) ? -1 : 1;
  const random = generator(7);
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const judged = (ray) => {
    const values = surface.at(ray);
    return { ray, values, excess: excess(values, limits) };
  };
  const better = (a, b) =>
    a.excess !== b.excess && (a.excess > 0 || b.excess > 0)
      ? a.excess < b.excess
      : sign * a.values[goal] < sign * b.values[goal];
  let best = rays.map(judged).reduce((kept, next) => (better(next, kept) ? next : kept));
  for (let step = 0, reach = 0.5; step < 22; step++, reach *= 0.66) {
    const center = best.ray;
    for (let k = 0; k < 120; k++) {
      const ray = normalized(center.map((value) => Math.max(1e-4, value + reach * (value + 0.1) * normal())));
      const next = judged(ray);
      if (better(next, best)) best = next;
    }
  }
  return { ray: best.ray, values: best.values, kept: best.excess < 1e-9 };
}

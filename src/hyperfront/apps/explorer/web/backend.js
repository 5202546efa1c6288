// Who answers: the server that the page came from, or what was sampled into the file.

const ask = async (path, options) => {
  const answer = await fetch(path, options);
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(content.text || `the server answered ${answer.status}`);
  return content;
};

const point = (found) => ({
  ray: found.rays[0],
  values: [...found.losses[0], ...DATA.scores.map((name) => found.scores[name][0])],
});

/** A selection as the page knows it: {ray, values, spread, certificate}. */
const selected = (found) => ({ ...found, values: COLUMNS.map((name) => found.values[name] ?? NaN) });

const live = {
  exact: true,
  predict: (ray) => ask(`api/predict?ray=${ray.join(",")}`),
  measure: async (ray) => point(await ask(`api/measure?ray=${ray.join(",")}`)),
  intervals: (ray) => ask(`api/intervals?ray=${ray.join(",")}`),
  select: async (goal, limits, confidence) => {
    const named = Object.fromEntries(limits.map(({ column, sign, bound }) => [COLUMNS[column], [sign, bound]]));
    const asked = { [wantsMore(goal) ? "maximize" : "minimize"]: COLUMNS[goal], subject_to: named };
    const body = JSON.stringify(confidence ? { ...asked, confidence } : asked);
    return selected(await ask("api/select", { method: "POST", headers: { "Content-Type": "application/json" }, body }));
  },
  front: () => ask("api/front"),
  model: (ray) => `api/model?ray=${ray.join(",")}`,
};

const sampled = {
  exact: false,
  predict: async (ray) => {
    const distance = (other) => other.ray.reduce((sum, value, j) => sum + (value - ray[j]) ** 2, 0);
    return DATA.sampled.reduce((best, next) => (distance(next) < distance(best) ? next : best)).predictions;
  },
};

const backend = DATA.live ? live : sampled;

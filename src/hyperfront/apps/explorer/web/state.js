// What is being looked at. Parts of the page watch it and redraw themselves.

const state = {
  ray: equalRay(),
  values: null, // losses, then scores
  certainty: "interpolated", // or "measuring" or "exact"
  predictions: null,
  pins: [], // {ray, values, certainty, predictions}
  limits: [], // {column, sign, bound}
  frame: null, // of the evolution; null is the model as it is
  view: null,
  hidden: new Set(),
  front: null, // {rays, values, best}: best says of each whether no other dominates it
  measured: 0, // rays of the front so far
  surface: null,
};

const watchers = { ray: [], predictions: [], pins: [], front: [], settled: [], sure: [] };
const watch = (event, reaction) => watchers[event].push(reaction);
const changed = (event) => watchers[event].forEach((reaction) => reaction());

const tableOf = ({ rays, losses, scores }) => ({
  rays,
  values: losses.map((row, r) => [...row, ...DATA.scores.map((name) => scores[name]?.[r] ?? NaN)]),
});

/** Whether no other row is at least as good in all losses and better in one. */
function nondominated(values) {
  const worse = (a, b) => range(M).every((j) => b[j] <= a[j]) && range(M).some((j) => b[j] < a[j]);
  return values.map((row) => !values.some((other) => worse(row, other)));
}

/** The rows of the front that no other dominates. */
const bestRows = () => state.front.values.filter((_, r) => state.front.best[r]);

/** Take the front as it has been measured so far. */
function useFront(found) {
  const table = tableOf(found);
  state.measured = table.rays.length;
  const fine = range(table.rays.length).filter((r) => table.values[r].every(Number.isFinite));
  state.front = { rays: fine.map((r) => table.rays[r]), values: fine.map((r) => table.values[r]) };
  state.front.best = nondominated(state.front.values);
  state.surface = new Surface(state.front.rays, state.front.values);
  changed("front");
}

const fetchPredictions = latest(async (ray) => {
  try {
    state.predictions = await backend.predict(ray);
    changed("predictions");
  } catch (error) {
    byId("samples-note").textContent = `no answer: ${error.message}`;
  }
});

const measureNow = latest(async (ray) => {
  try {
    const found = await backend.measure(ray);
    if (near(ray, state.ray)) arrive(found.values);
  } catch (error) {
    if (near(ray, state.ray)) {
      state.certainty = "interpolated";
      changed("ray");
      announce(`not measured: ${error.message}`);
    }
  }
});

/** Values that were measured at the current ray. */
function arrive(values) {
  state.values = values;
  state.certainty = "exact";
  changed("ray");
  sure.wanted();
  announce(`Measured. ${lossText(values)}`);
}

/** Go to a ray: while it is dragged, values are interpolated; once it is settled, they are measured. */
function goTo(ray, { settled = false, values = null } = {}) {
  state.ray = normalized(ray);
  state.values = values || state.surface.at(state.ray);
  state.certainty = values ? "exact" : "interpolated";
  changed("ray");
  fetchPredictions(state.ray);
  if (settled) settle();
}

/** The handle was let go. */
function settle() {
  changed("settled"); // if the values are measured, their intervals are asked for
  if (state.certainty === "exact") return;
  const known = state.front.rays.findIndex((ray) => near(ray, state.ray));
  if (known >= 0) arrive(state.front.values[known]);
  else if (backend.exact) {
    state.certainty = "measuring";
    changed("ray");
    measureNow(state.ray);
  } else announce(`Interpolated. ${lossText(state.values)}`);
}

let resting = null;
/** For keys, which have no "let go": settled when nothing more comes for a moment. */
function settleSoon() {
  clearTimeout(resting);
  resting = setTimeout(settle, 250);
}

// The page begins.

function start() {
  const named = !DATA.problem || DATA.name.includes(DATA.problem);
  byId("title").textContent = DATA.title || (named ? DATA.name : `${DATA.name} · ${DATA.problem}`);
  byId("notes").hidden = !DATA.notes.length;
  byId("notes").append(...DATA.notes.map((part) => el("p", {}, part)));
  byId("facts").textContent = [`${M} objectives`, ...DATA.facts, DATA.data, DATA.live ? null : "static page: sampled"]
    .filter(Boolean)
    .join(" · ");
  const opened = link.read();
  if (opened) state.ray = opened.ray;
  else if (DATA.chosen) state.ray = DATA.chosen.ray;
  useFront(DATA.front);
  state.values = state.surface.at(state.ray);
  for (const part of [frontView, handle, readout, sure, limits, samples, pins, evolution, link]) part.start();
  if (opened && VIEWS[opened.view]) frontView.use(opened.view);
  for (const ray of opened?.pins ?? []) {
    const pin = { ray, values: state.surface.at(ray), certainty: "interpolated", predictions: null };
    state.pins.push(pin);
    pins.complete(pin);
  }
  if (state.pins.length) changed("pins");
  if (DATA.chosen && !opened) limits.restore(DATA.chosen);
  goTo(state.ray, { settled: true });
  if (DATA.live) keepUp();
}

/** The front is measured more finely while one looks. */
async function keepUp() {
  while (state.measured < DATA.wanted) {
    await new Promise((wake) => setTimeout(wake, 1000));
    try {
      const found = await backend.front();
      if (found.rays.length > state.measured) {
        useFront(found);
        if (state.certainty === "interpolated") goTo(state.ray);
      }
    } catch {
      return; // the server has gone
    }
    frontView.count();
  }
  frontView.count();
}

start();

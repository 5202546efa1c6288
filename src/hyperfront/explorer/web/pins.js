// Pinned points, side by side with the one at the handle.

const MOST_COMPARED = 3; // sample inputs in the comparison

const pins = {
  start() {
    byId("pin").addEventListener("click", () => this.add());
    byId("unpin").addEventListener("click", () => {
      state.pins = [];
      changed("pins");
      announce("All pins removed");
      byId("pin").focus();
    });
    document.addEventListener("keydown", (event) => {
      const typing = event.target.matches("input[type=number], select, textarea");
      if (event.key.toLowerCase() !== "p" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      this.add();
    });
    watch("pins", () => this.draw());
    for (const event of ["ray", "predictions"]) watch(event, () => state.pins.length && this.soon());
  },

  add() {
    const same = state.pins.findIndex((pin) => near(pin.ray, state.ray));
    if (same >= 0) return announce(`Already pinned as ${pinName(same)}`);
    const pin = { ray: state.ray, values: state.values, certainty: state.certainty, predictions: state.predictions };
    state.pins.push(pin);
    this.complete(pin);
    changed("pins");
    announce(`Pinned as ${pinName(state.pins.length - 1)}`);
  },

  /** What a pin has not got yet: predictions and measured values at its very ray. */
  async complete(pin) {
    try {
      pin.predictions = await backend.predict(pin.ray);
      if (backend.exact && pin.certainty !== "exact") {
        pin.values = (await backend.measure(pin.ray)).values;
        pin.certainty = "exact";
      }
      changed("pins");
    } catch (error) {
      announce(`Not measured: ${error.message}`);
    }
  },

  remove(index) {
    state.pins.splice(index, 1);
    changed("pins");
    announce("Pin removed");
    byId(state.pins.length ? "unpin" : "pin").focus();
  },

  soon() {
    cancelAnimationFrame(this.waiting);
    this.waiting = requestAnimationFrame(() => this.draw());
  },

  draw() {
    byId("pins").hidden = !state.pins.length;
    if (!state.pins.length) return;
    const all = [...state.pins, { ray: state.ray, values: state.values, certainty: state.certainty, predictions: state.predictions }];
    const last = all.length - 1;
    const header = all.map((point, k) => el("th", { scope: "col" }, k === last
      ? el("span", { class: "now-label" }, "at the handle")
      : [el("button", { type: "button", class: "letter", title: "Go there", "aria-label": `Go to ${pinName(k)}`, onclick: () => goTo(point.ray, { settled: true }) }, pinName(k)),
         el("button", { type: "button", class: "icon", "aria-label": `Remove ${pinName(k)}`, onclick: () => this.remove(k) }, "×")]));
    const line = (name, cells, extra) => el("tr", extra, el("th", { scope: "row" }, name), cells);
    const value = (c) => {
      const best = c < M ? Math.min(...all.map((point) => point.values[c])) : NaN;
      return all.map((point) => el("td", { class: point.values[c] === best && all.length > 1 ? "best" : "" },
        el("span", { class: "about" }, point.certainty === "exact" ? "" : "≈"), show(point.values[c])));
    };
    const compared = SAMPLES.items.slice(0, MOST_COMPARED);
    const said = (point, k) => el("td", {}, el("div", { class: `prediction compact ${SAMPLES.kind}` }, point.predictions ? [kindOfSamples.answer(k, point.predictions)].flat() : "…"));
    byId("pins-body").replaceChildren(el("table", { class: "compare" },
      el("thead", {}, el("tr", {}, el("td"), header)),
      el("tbody", {},
        line("ray", all.map((point) => el("td", { class: "muted" }, point.ray.map((entry) => entry.toFixed(2)).join(" · ")))),
        COLUMNS.map((name, c) => line(c < M ? `${name} loss` : name, value(c))),
        compared.map((_, k) => line(el("div", { class: `thumb ${SAMPLES.kind}` }, [kindOfSamples.item(k)].flat()), all.map((point) => said(point, k)), { class: "predicted" })))));
  },
};

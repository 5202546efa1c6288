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
      this.fill();
      frontView.mark();
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
    this.waiting = requestAnimationFrame(() => this.fill());
  },

  /** The table for the pins that there are; buttons stay where they are while the handle moves. */
  draw() {
    byId("pins").hidden = !state.pins.length;
    if (!state.pins.length) return;
    const points = range(state.pins.length + 1);
    const line = (name, cell, extra) =>
      el(
        "tr",
        extra,
        el("th", { scope: "row" }, ...[name].flat()),
        points.map(() => cell()),
      );
    const value = () => el("td", { class: "number" });
    this.rays = line("ray", () => el("td", { class: "muted" }));
    this.values = COLUMNS.map((_, c) => line([titled(c), direction(c)], value));
    this.predictions = SAMPLES.items
      .slice(0, MOST_COMPARED)
      .map((_, k) =>
        line(
          el("div", { class: `thumb ${SAMPLES.kind}` }, [kindOfSamples.item(k)].flat()),
          () => el("td", {}, el("div", { class: `prediction compact ${SAMPLES.kind}` })),
          { class: "predicted" },
        ),
      );
    const head = state.pins.map((pin, k) =>
      el(
        "th",
        { scope: "col" },
        el(
          "button",
          {
            type: "button",
            class: "letter",
            title: "Go there",
            "aria-label": `Go to ${pinName(k)}`,
            onclick: () => goTo(pin.ray, { settled: true }),
          },
          pinName(k),
        ),
        el(
          "button",
          { type: "button", class: "icon", "aria-label": `Remove ${pinName(k)}`, onclick: () => this.remove(k) },
          "×",
        ),
      ),
    );
    byId("pins-body").replaceChildren(
      el(
        "table",
        { class: "compare" },
        el("thead", {}, el("tr", {}, el("td"), head, el("th", { scope: "col", class: "now-label" }, "at the handle"))),
        el("tbody", {}, this.rays, this.values, this.predictions),
      ),
    );
    this.fill();
  },

  fill() {
    if (!state.pins.length) return;
    [...state.pins, state].forEach((point, k, all) => {
      this.rays.cells[k + 1].textContent = point.ray.map((entry) => entry.toFixed(2)).join(" · ");
      this.values.forEach((row, c) => {
        const sign = wantsMore(c) ? -1 : 1;
        const best = all.every((other) => sign * point.values[c] <= sign * other.values[c]);
        row.cells[k + 1].className = best ? "number best" : "number";
        row.cells[k + 1].replaceChildren(
          el("span", { class: "about" }, point.certainty === "exact" ? "" : "≈"),
          show(point.values[c]),
        );
      });
      this.predictions.forEach((row, item) =>
        row.cells[k + 1].firstChild.replaceChildren(
          ...(point.predictions ? [kindOfSamples.answer(item, point.predictions)].flat() : ["…"]),
        ),
      );
    });
  },
};

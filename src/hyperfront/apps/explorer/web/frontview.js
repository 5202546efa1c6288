// The plot: which kind, what is shown on it, and pointing at it.

const VIEWS = { ...(M === 2 ? { plane } : M === 3 ? { space, ternary } : {}), parallel, scatter };

const frontView = {
  start() {
    state.view = Object.keys(VIEWS)[0];
    this.base = svg("g");
    this.marks = svg("g");
    this.clip = svg("rect");
    this.root = svg(
      "svg",
      { class: "plot", role: "img", "aria-labelledby": "plot-name" },
      svg("title", { id: "plot-name" }),
      svg("clipPath", { id: "inside" }, this.clip),
      this.base,
      this.marks,
    );
    byId("plot").append(this.root);
    this.pointing();
    new ResizeObserver(() => this.draw()).observe(byId("plot"));
    for (const [name, view] of Object.entries(VIEWS)) {
      if (Object.keys(VIEWS).length < 2) break;
      byId("views").append(
        el("button", { type: "button", "data-view": name, onclick: () => this.use(name) }, view.label),
      );
    }
    if (VIEWS.ternary) this.chooser("ternary", "coloured by ", [["Colour of the triangle", ternary, "column"]]);
    if (COLUMNS.length > 1)
      this.chooser("scatter", "", [
        ["Measure upwards", scatter, "up"],
        [" against ", null, null],
        ["Measure to the right", scatter, "across"],
      ]);
    this.use(state.view);
    watch("front", () => this.draw());
    watch("ray", () => this.mark());
    watch("pins", () => this.draw());
  },

  /** Choices of columns that one view has. */
  chooser(view, words, choices) {
    const parts = choices.map(([name, holder, key]) => {
      if (!holder) return name;
      const choose = el(
        "select",
        {
          "aria-label": name,
          onchange: () => {
            holder[key] = Number(choose.value);
            this.draw();
          },
        },
        LABELS.map((label, c) => el("option", { value: String(c) }, label)),
      );
      choose.value = String(holder[key]);
      return choose;
    });
    byId("choices").append(el("span", { class: "choice small muted", "data-view": view }, words, ...parts));
  },

  use(name) {
    state.view = name;
    for (const button of byId("views").children)
      button.setAttribute("aria-pressed", String(button.dataset.view === name));
    for (const choice of byId("choices").children) choice.hidden = choice.dataset.view !== name;
    this.root.setAttribute("class", `plot ${name}`);
    if (VIEWS[name].turns) this.root.setAttribute("tabindex", "0");
    else this.root.removeAttribute("tabindex");
    this.legend();
    this.draw();
  },

  /** The drawing area, by the width that there is. */
  box() {
    const width = byId("plot").clientWidth;
    const height = clamp(width * 0.6, 300, 470);
    const { left, right, top, bottom } = VIEWS[state.view].margins;
    return { width, height, left, right: width - right, top, bottom: height - bottom };
  },

  draw() {
    if (!state.front || !state.values) return;
    const box = this.box();
    this.root.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    this.root.setAttribute("height", box.height);
    for (const [name, value] of Object.entries({
      x: box.left - 6,
      y: box.top - 6,
      width: Math.max(0, box.right - box.left + 12),
      height: box.bottom - box.top + 12,
    }))
      this.clip.setAttribute(name, value);
    this.base.replaceChildren();
    VIEWS[state.view].base(this.base, box);
    this.mark();
  },

  mark() {
    if (!state.front || !state.values) return;
    this.marks.replaceChildren();
    VIEWS[state.view].mark(this.marks, this.box());
    const turn = VIEWS[state.view].turns ? " Arrow keys turn it." : "";
    byId("plot-name").textContent =
      `The front of ${LABELS.slice(0, M).join(", ")} at ${state.front.rays.length} rays. ` +
      `Now at ${lossText(state.values, 3)}.${turn}`;
  },

  /** What can be shown and hidden. */
  legend() {
    const entry = (key, name, sample) => {
      const box = el("input", {
        type: "checkbox",
        onchange: () => {
          if (box.checked) state.hidden.delete(key);
          else state.hidden.add(key);
          this.draw();
        },
      });
      box.checked = showing(key);
      return el(
        "label",
        {},
        box,
        svg("svg", { class: "key", viewBox: "-11 -7 22 14", "aria-hidden": "true" }, sample),
        name,
      );
    };
    const line = (kind) => svg("path", { class: kind, d: "M-10 0H10" });
    const drawsRays = ["plane", "space"].includes(state.view)
      ? DATA.convention !== "weights"
      : state.view !== "scatter";
    byId("legend").replaceChildren(
      ...(drawsRays
        ? [entry("rays", "rays", state.view === "ternary" ? dot(0, 0, 2.5, "seed") : line("ray strong"))]
        : []),
      ...(DATA.truth.length && ["plane", "space"].includes(state.view)
        ? [entry("truth", "true front", line("truth"))]
        : []),
      ...(state.view === "ternary"
        ? []
        : baselines.map((found, k) => entry(`baseline${k}`, found.name, baselineMark(k)))),
      el("span", { id: "measured", class: "muted small" }),
    );
    this.count();
  },

  count() {
    const have = state.measured;
    const waiting = DATA.live && have < DATA.wanted;
    if (byId("measured"))
      byId("measured").textContent = waiting
        ? `measured at ${have} of ${DATA.wanted} rays …`
        : `measured at ${have} rays${state.view === "space" && space.mesh().folded ? "; it folds, so only points are drawn" : ""}`;
  },

  /** Dragging on the plot moves along the front, or turns it; a tap on a turnable one goes to the nearest point. */
  pointing() {
    const place = (event) => {
      const frame = this.root.getBoundingClientRect();
      return [event.clientX - frame.left, event.clientY - frame.top];
    };
    const follow = (event) => {
      const ray = VIEWS[state.view].pick(...place(event), this.box());
      if (ray) goTo(ray);
    };
    let from = null;
    let moved = 0;
    this.root.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      from = [event.clientX, event.clientY];
      moved = 0;
      this.root.setPointerCapture(event.pointerId);
      if (!VIEWS[state.view].turns) follow(event);
    });
    this.root.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [dx, dy] = [event.clientX - from[0], event.clientY - from[1]];
      moved += Math.hypot(dx, dy);
      from = [event.clientX, event.clientY];
      if (!VIEWS[state.view].turns) follow(event);
      else {
        VIEWS[state.view].turn(-dx * 0.008, dy * 0.008);
        this.draw();
      }
    });
    const end = (event) => {
      if (!from) return;
      from = null;
      if (VIEWS[state.view].turns && moved < 5) follow(event);
      if (!VIEWS[state.view].turns || moved < 5) settle();
    };
    this.root.addEventListener("pointerup", end);
    this.root.addEventListener("pointercancel", () => (from = null));
    this.root.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: [0.1, 0], ArrowRight: [-0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] };
      if (!VIEWS[state.view].turns || !steps[event.key]) return;
      event.preventDefault();
      VIEWS[state.view].turn(...steps[event.key]);
      this.draw();
    });
  },
};

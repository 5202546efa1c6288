// The handle: a slider for two objectives, a triangle for three, a slider for each beyond.

const MEANING = {
  inverse:
    "More of an objective asks for a smaller loss of it: " +
    "the model is asked for the point where ray times loss is the same for all.",
  weights: "The ray is the weights of the losses: more of an objective asks for a smaller loss of it.",
  direction: "The ray is the direction of the losses: more of an objective allows a larger loss of it.",
}[DATA.convention];

const handle = {
  start() {
    const kind = M === 2 ? twoEnds : M === 3 ? triangle : { start: () => null, follow() {} }; // beyond: in the readout
    const made = kind.start();
    this.words = el("strong", {});
    const wish = el("p", { id: "wish" }, "What counts here: ", this.words);
    byId("handle").append(...(made ? [made] : []), wish, el("p", { id: "meaning", class: "muted small" }, MEANING));
    watch("ray", () => {
      this.words.textContent = rayWords(state.ray);
      kind.follow();
    });
    byId("center").addEventListener("click", () => goTo(equalRay(), { settled: true }));
  },
};

/** A slider that goes to rays while it is dragged, and settles when it is let go. */
function slider(attributes, move) {
  const input = el("input", { type: "range", min: 0, max: 1, step: 0.001, ...attributes });
  let held = false;
  input.addEventListener("pointerdown", () => (held = true));
  input.addEventListener("input", () => {
    goTo(move(Number(input.value)));
    if (!held) settleSoon();
  });
  const release = () => {
    if (held) settle();
    held = false;
  };
  input.addEventListener("pointerup", release);
  input.addEventListener("pointercancel", release);
  return input;
}

const described = () =>
  `${rayWords(state.ray)}; ray ${rayText(state.ray)}; ${state.certainty}: ${lossText(state.values, 3)}`;

const twoEnds = {
  // from the first objective, on the left, to the second
  start() {
    const entry = FAVORS ? 1 : 0;
    this.entry = entry;
    this.input = slider(
      {
        id: "slider",
        class: "big",
        "aria-label": `Trade-off from ${LABELS[0]} to ${LABELS[1]}`,
        "aria-describedby": "meaning",
      },
      (value) => (entry ? [1 - value, value] : [value, 1 - value]),
    );
    return el(
      "div",
      { class: "ends" },
      this.input,
      el(
        "div",
        { class: "row small" },
        el("span", {}, `← better ${shortened(SHORT[0], 24)}`),
        el("span", {}, `better ${shortened(SHORT[1], 24)} →`),
      ),
    );
  },
  follow() {
    this.input.value = state.ray[this.entry];
    this.input.style.setProperty("--share", `${100 * state.ray[this.entry]}%`);
    this.input.setAttribute("aria-valuetext", described());
  },
};

const triangle = {
  size: 260,
  edge: 26,
  start() {
    const at = ([u, v]) => [this.edge + u * this.size, this.edge + v * this.size];
    const lines = [];
    for (let k = 1; k < 5; k++)
      for (let j = 0; j < 3; j++) {
        const ends = [0, 1].map((side) => {
          const ray = [0, 0, 0];
          [ray[j], ray[(j + 1 + side) % 3]] = [k / 5, 1 - k / 5];
          return at(toTriangle(ray));
        });
        lines.push(svg("path", { class: "grid", d: path(ends) }));
      }
    const names = [
      ["middle", 0, -9],
      ["start", -14, 22],
      ["end", 14, 22],
    ];
    this.knob = svg(
      "g",
      {
        class: "knob",
        tabindex: 0,
        role: "slider",
        "aria-roledescription": "handle in a triangle",
        "aria-valuemin": 0,
        "aria-valuemax": 1,
        "aria-label": `Trade-off between ${LABELS.slice(0, M).join(", ")}`,
        "aria-describedby": "meaning",
      },
      svg("circle", { class: "touch", r: 22 }),
      svg("circle", { class: "core", r: 10 }),
    );
    this.root = svg(
      "svg",
      { class: "triangle", viewBox: `0 0 ${this.size + 2 * this.edge} ${this.size * HEIGHT + 2 * this.edge + 14}` },
      svg("path", { class: "field", d: `${path(CORNERS.map(at))}Z` }),
      lines,
      CORNERS.map((corner, j) => {
        const [x, y] = at(corner);
        const place = { x: x + names[j][1], y: y + names[j][2], "text-anchor": names[j][0] };
        return axisName(place, AXES[j], j ? 16 : 40, { up: j === 0 });
      }),
      this.knob,
    );
    const follow = (event) => {
      const frame = this.root.getBoundingClientRect();
      const unit = (this.size + 2 * this.edge) / frame.width;
      const [x, y] = [(event.clientX - frame.left) * unit, (event.clientY - frame.top) * unit];
      goTo(fromTriangle((x - this.edge) / this.size, (y - this.edge) / this.size));
    };
    let held = false;
    this.root.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      held = true;
      this.root.setPointerCapture(event.pointerId);
      follow(event);
      this.knob.focus({ preventScroll: true });
      event.preventDefault();
    });
    this.root.addEventListener("pointermove", (event) => held && follow(event));
    const release = () => {
      if (held) settle();
      held = false;
    };
    this.root.addEventListener("pointerup", release);
    this.root.addEventListener("pointercancel", release);
    this.knob.addEventListener("keydown", (event) => this.key(event));
    return this.root;
  },

  /** Arrows move the handle as it lies, by a hundredth or (with Shift) a tenth; 1, 2 and 3 go to the corners. */
  key(event) {
    const step = event.shiftKey ? 0.1 : 0.01;
    const moves = {
      ArrowLeft: [-step, 0],
      ArrowRight: [step, 0],
      ArrowUp: [0, -step * HEIGHT],
      ArrowDown: [0, step * HEIGHT],
    };
    if (moves[event.key]) {
      const [x, y] = toTriangle(state.ray);
      goTo(fromTriangle(x + moves[event.key][0], y + moves[event.key][1]));
    } else if (["1", "2", "3"].includes(event.key)) goTo(range(3).map((j) => Number(j === event.key - 1)));
    else if (event.key === "Home") goTo(equalRay());
    else return;
    event.preventDefault();
    settleSoon();
  },

  follow() {
    const [u, v] = toTriangle(state.ray);
    this.knob.setAttribute("transform", `translate(${this.edge + u * this.size} ${this.edge + v * this.size})`);
    this.knob.setAttribute("aria-valuenow", state.ray[0].toFixed(3));
    this.knob.setAttribute("aria-valuetext", described());
  },
};

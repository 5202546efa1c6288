// "right <= 0.4, then the best left": a sentence to fill in, and the way to the ray.

const limits = {
  start() {
    this.rows = el("div", { class: "limit-rows" });
    this.goal = el(
      "select",
      { id: "goal", "aria-label": "Loss or score that should be best" },
      LABELS.map((name, c) => el("option", { value: String(c) }, name)),
    );
    this.another = el("button", { class: "button", type: "button", onclick: () => this.add() }, "Another limit");
    const form = byId("limits-form");
    form.append(
      this.rows,
      el("p", { class: "sentence" }, "then the best ", this.goal),
      el(
        "div",
        { class: "buttons" },
        el("button", { class: "button primary", type: "submit" }, "Take me there"),
        this.another,
        el(
          "button",
          { class: "button quiet", type: "button", id: "clear-limits", onclick: () => this.clear() },
          "Clear",
        ),
      ),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.go();
    });
    this.add(Math.min(1, M - 1));
  },

  /** One limit more, of a column that has none; its bound begins in the middle of what the front has. */
  add(column = this.free()[0]) {
    const bound = el("input", { type: "number", step: "any", required: true, "aria-label": "Bound" });
    const sign = el(
      "select",
      { "aria-label": "At most or at least" },
      el("option", { value: "<=" }, "≤"),
      el("option", { value: ">=" }, "≥"),
    );
    const which = el(
      "select",
      {
        "aria-label": "What is limited",
        onchange: () => {
          suggest();
          this.offer();
        },
      },
      LABELS.map((name, c) => el("option", { value: String(c) }, name)),
    );
    const suggest = () => {
      const values = state.front.values.map((row) => row[Number(which.value)]).sort((a, b) => a - b);
      bound.value = Number(values[Math.floor(values.length / 2)].toPrecision(2));
      sign.value = wantsMore(Number(which.value)) ? ">=" : "<=";
    };
    which.value = String(column);
    const remove = el(
      "button",
      {
        type: "button",
        class: "icon",
        "aria-label": "Remove this limit",
        onclick: () => {
          if (this.rows.children.length > 1) row.remove();
          this.offer();
          this.rows.querySelector("select").focus();
        },
      },
      "×",
    );
    const row = el("div", { class: "limit-row" }, which, sign, bound, remove);
    this.rows.append(row);
    suggest();
    this.offer();
    if (this.rows.children.length > 1) which.focus();
  },

  /** Columns without a limit. */
  free() {
    const limited = this.read().map((limit) => limit.column);
    return COLUMNS.map((_, c) => c).filter((c) => !limited.includes(c));
  },

  /** A column can have one limit: those that are taken are not offered again. */
  offer() {
    const free = this.free();
    this.another.disabled = !free.length;
    for (const row of this.rows.children) {
      const which = row.querySelector("select");
      for (const option of which.options)
        option.disabled = option.value !== which.value && !free.includes(Number(option.value));
    }
  },

  read() {
    return [...this.rows.children].map((row) => {
      const [which, sign, bound] = row.querySelectorAll("select, input");
      return { column: Number(which.value), sign: sign.value, bound: Number(bound.value) };
    });
  },

  clear() {
    state.limits = [];
    byId("limits-answer").textContent = "";
    byId("limits-answer").className = "answer";
    changed("front");
  },

  /** At once to where the surface keeps the limits, then to the measured operating point. */
  async go() {
    const answer = byId("limits-answer");
    const goal = Number(this.goal.value);
    state.limits = this.read();
    changed("front");
    const found = searchSurface(state.surface, state.front.rays, goal, state.limits);
    goTo(found.ray);
    const words = state.limits
      .map(({ column, sign, bound }) => `${LABELS[column]} ${sign === "<=" ? "≤" : "≥"} ${bound}`)
      .join(", ");
    const reached = (values) =>
      [goal, ...state.limits.map((limit) => limit.column)]
        .filter((c, k, all) => all.indexOf(c) === k)
        .map((c) => `${LABELS[c]} ${show(values[c])}`)
        .join(", ");
    if (!backend.exact) {
      answer.className = found.kept ? "answer" : "answer refused";
      answer.textContent = found.kept
        ? `With ${words}: ${reached(found.values)}, interpolated.`
        : `No point keeps ${words}. The nearest has ${reached(found.values)}.`;
      settle();
      return;
    }
    state.certainty = "measuring";
    changed("ray");
    answer.className = "answer";
    answer.textContent = "Measuring around this point …";
    const asked = state.ray;
    try {
      const { ray, values } = await backend.select(goal, state.limits);
      if (near(asked, state.ray)) goTo(ray, { values, settled: true });
      answer.textContent = `With ${words}: ${reached(values)}, measured.`;
    } catch (error) {
      const nearest = /nearest point has (.*)/.exec(error.message);
      answer.className = "answer refused";
      answer.textContent = nearest ? `No point keeps ${words}. The nearest has ${nearest[1]}.` : error.message;
      if (near(asked, state.ray)) {
        state.certainty = "interpolated";
        settle();
      }
    }
  },
};

// "right <= 0.4, then the best left": a sentence to fill in, and the way to the ray.

const limits = {
  start() {
    this.rows = el("div", { class: "limit-rows" });
    this.goal = el(
      "select",
      { id: "goal", "aria-label": "Loss or score that should be best" },
      LABELS.map((name, c) => el("option", { value: String(c) }, name)),
    );
    this.confidence = DATA.live && DATA.calibration ? this.certainty() : null;
    this.another = el("button", { class: "button", type: "button", onclick: () => this.add() }, "Another limit");
    const form = byId("limits-form");
    form.append(
      this.rows,
      el("p", { class: "sentence" }, "then the best ", this.goal),
      ...(this.confidence ? [el("p", { class: "sentence" }, "limits hold for ", this.confidence)] : []),
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
    watch("sure", () => this.tell());
  },

  /** Whether limits hold for the measured rows, or with a probability for the population. */
  certainty() {
    const rows = (DATA.data || "measured data").replace(" data", " rows");
    const option = (value, words) => el("option", { value }, words);
    const choices = ["0.8", "0.9", "0.95", "0.99"].map((value) =>
      option(value, `population, ${percent(Number(value))} confidence`),
    );
    return el(
      "select",
      { id: "confidence", "aria-label": "For whom limits hold" },
      option("0", `the ${rows} only`),
      choices,
    );
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
    this.answer([]);
    this.asked = null;
    changed("front");
  },

  /** The limits and the goal of a choice that was made before, with its answer. */
  restore(chosen) {
    const names = Object.keys(chosen.limits).filter((name) => COLUMNS.includes(name));
    this.rows.replaceChildren();
    for (const name of names) {
      this.add(COLUMNS.indexOf(name));
      const [, sign, bound] = this.rows.lastChild.querySelectorAll("select, input");
      [sign.value, bound.value] = chosen.limits[name];
    }
    if (!names.length) this.add(Math.min(1, M - 1));
    else state.limits = this.read();
    this.goal.value = String(COLUMNS.indexOf(chosen.goal));
    if (this.confidence && chosen.certificate) this.confidence.value = String(chosen.certificate.confidence);
    [scatter.across, scatter.up] = [state.limits[0]?.column ?? scatter.across, Number(this.goal.value)];
    this.found(Number(this.goal.value), selected(chosen), "chosen when it was trained");
  },

  /** Show an answer in sentences. */
  answer(sentences, refused = false) {
    const box = byId("limits-answer");
    box.className = refused ? "answer refused" : "answer";
    box.replaceChildren(...sentences.map((text) => el("p", {}, text)));
  },

  /** The answer for a point that keeps the limits, and how sure it is; intervals are added when they come. */
  found(goal, choice, how) {
    const within = state.limits.length ? `With ${limitWords(state.limits)}: ` : "";
    this.asked = {
      ray: choice.ray,
      sentences: [
        `${within}${reachedWords(goal, state.limits, choice.values)}, ${how}.`,
        ...(choice.certificate
          ? certificateWords(choice.certificate)
          : choice.spread
            ? [spreadWords(goal, choice.spread)]
            : []),
      ],
      certified: Boolean(choice.certificate),
      goal,
    };
    this.tell();
  },

  /** Add what the intervals at the answer say, unless a certificate says more. */
  tell() {
    const { asked } = this;
    if (!asked) return;
    const here = near(asked.ray, state.ray);
    const about = here && sure.of(asked.goal);
    const goal = about ? sure.sentence(asked.goal) : [];
    const more = here && !asked.certified ? sure.ofLimits(state.limits) : [];
    this.answer([...asked.sentences, ...goal, ...more]);
  },

  /** At once to where the surface keeps the limits, then to the measured operating point. */
  async go() {
    const goal = Number(this.goal.value);
    const confidence = this.confidence ? Number(this.confidence.value) : 0;
    state.limits = this.read();
    this.asked = null;
    changed("front");
    const found = searchSurface(state.surface, state.front.rays, goal, state.limits);
    goTo(found.ray);
    if (!backend.exact) {
      if (found.kept) this.found(goal, found, "interpolated");
      else {
        const nearest = reachedWords(goal, state.limits, found.values);
        this.answer([`No point keeps ${limitWords(state.limits)}. The nearest has ${nearest}.`], true);
      }
      settle();
      return;
    }
    state.certainty = "measuring";
    changed("ray");
    this.answer([confidence ? "Searching, then testing on the calibration rows …" : "Measuring around this point …"]);
    const asked = state.ray;
    try {
      const choice = await backend.select(goal, state.limits, confidence);
      if (!near(asked, state.ray)) return;
      goTo(choice.ray, { values: choice.values, settled: true });
      this.found(goal, choice, "measured");
    } catch (error) {
      this.answer(refusalWords(error.message, state.limits, confidence), true);
      if (near(asked, state.ray)) {
        state.certainty = "interpolated";
        settle();
      }
    }
  },
};

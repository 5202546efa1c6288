// How sure the values at the handle are: an interval for every loss and score, from the rows that measured them.

const sure = {
  found: null, // {ray, confidence, rows, intervals} at the handle, or {reason}

  start() {
    this.note = el("p", { id: "sure", class: "muted small" });
    byId("readout").append(this.note);
    watch("ray", () => this.follow());
    watch("settled", () => this.wanted());
    if (!backend.exact) watch("ray", () => this.nearby());
  },

  /** Ask for intervals once the values at the handle are measured. */
  wanted() {
    if (backend.exact && state.certainty === "exact" && !this.here()) this.ask(state.ray);
  },

  ask: latest(async (ray) => {
    if (!near(ray, state.ray)) return;
    try {
      sure.take({ ray, ...(await backend.intervals(ray)) });
    } catch {
      sure.take({ ray, reason: "the server has gone" });
    }
  }),

  take(found) {
    this.found = found;
    this.follow();
    changed("sure");
  },

  here() {
    return this.found && near(this.found.ray, state.ray);
  },

  /** Without a model: the widths at the nearest ray that has intervals, around the interpolated values. */
  nearby() {
    const distance = (other) => other.ray.reduce((sum, value, j) => sum + (value - state.ray[j]) ** 2, 0);
    const nearest = DATA.sure.reduce((best, next) => (distance(next) < distance(best) ? next : best));
    if (!nearest.intervals) return this.take({ ...nearest, ray: state.ray });
    const moved = COLUMNS.map((name, c) => {
      const { value, low, high, ...how } = nearest.intervals[name];
      const shift = (end) => end + (state.values[c] - value);
      const [least, most] = MEANINGS[c].bounds || [-Infinity, Infinity];
      const within = (end) => (end === null ? null : clamp(shift(end), least, most));
      return [name, { ...how, value: state.values[c], low: within(low), high: within(high) }];
    });
    this.take({ ...nearest, ray: state.ray, intervals: Object.fromEntries(moved) });
  },

  /** The interval of a column at the handle: {low, high, method, test}; null if it is not known. */
  of(column) {
    return (this.here() && this.found.intervals?.[COLUMNS[column]]) || null;
  },

  /** The two ends in words; an end that the rows do not know is null. */
  ends({ low, high }) {
    if (low === null) return high === null ? "" : `at most ${show(high, 3)}`;
    return high === null ? `at least ${show(low, 3)}` : `${show(low, 3)} to ${show(high, 3)}`;
  },

  text(column) {
    const found = this.of(column);
    return found ? this.ends(found) || "interval not known" : "";
  },

  follow() {
    readout.intervals();
    if (!DATA.data) return;
    if (!this.here()) this.note.textContent = backend.exact ? "" : this.note.textContent;
    else if (this.found.reason) this.note.textContent = `There are no intervals: ${this.found.reason}.`;
    else {
      const about = backend.exact ? "" : ", at the nearest sampled point";
      this.note.textContent =
        `Below each value: the ${percent(this.found.confidence)} confidence interval of its value in the whole ` +
        `population${about}, from ${this.found.rows.toLocaleString("en")} rows of the ${DATA.data}, which also chose the model. ` +
        `With ~ by a bootstrap, which holds for many rows; the others hold for any number.`;
    }
  },

  /** The interval of a column in words. */
  sentence(column, verdict = "") {
    const ends = this.ends(this.of(column));
    if (!ends) return [`In the whole population, the ${LABELS[column]} is not known: too few rows differ${verdict}.`];
    const about = `in the whole population, not in a sample of it, with ${percent(this.found.confidence)} confidence`;
    return [`The ${LABELS[column]} is ${ends} ${about}${verdict}.`];
  },

  /** A sentence for each limit, whether these rows say that the population keeps it. */
  ofLimits(limits) {
    return limits
      .filter(({ column }) => this.of(column))
      .flatMap(({ column, sign, bound }) => {
        const { low, high } = this.of(column);
        const known = (end) => (end === null ? NaN : end);
        const kept = sign === "<=" ? known(high) <= bound : known(low) >= bound;
        const broken = sign === "<=" ? known(low) > bound : known(high) < bound;
        const words = kept ? "it keeps the limit" : broken ? "it breaks the limit" : "the limit is not certain there";
        return this.sentence(column, `: ${words}`);
      });
  },
};

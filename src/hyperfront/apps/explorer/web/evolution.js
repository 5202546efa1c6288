// How the front got there, epoch by epoch.

const evolution = {
  start() {
    const frames = DATA.evolution;
    if (frames.length < 2) return;
    this.button = el(
      "button",
      { type: "button", class: "button round", "aria-label": "Play the training", onclick: () => this.toggle() },
      "▶",
    );
    this.input = el("input", {
      type: "range",
      id: "epochs",
      min: 0,
      max: frames.length,
      step: 1,
      "aria-label": "Epoch of the training",
      oninput: () => {
        this.pause();
        this.show(Number(this.input.value));
      },
    });
    this.input.value = frames.length;
    this.words = el("span", { class: "small muted words" });
    byId("evolution").append(
      el(
        "div",
        { class: "evolution" },
        this.button,
        el("div", { class: "over" }, this.curve(frames), this.input),
        this.words,
      ),
    );
    this.show(frames.length);
  },

  /** The hypervolume over the epochs, behind the slider. */
  curve(frames) {
    const known = frames.map((frame) => frame.hypervolume);
    if (!known.every(Number.isFinite)) return null;
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const points = known.map((value, k) => [(k / frames.length) * 100, 27 - ((value - low) / (high - low || 1)) * 24]);
    points.push([100, points.at(-1)[1]]);
    return svg(
      "svg",
      { class: "spark", viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("path", { d: path(points) }),
    );
  },

  /** Frame k; one beyond the last is the model as it is. */
  show(k) {
    const frame = DATA.evolution[k];
    state.frame = frame ? k : null;
    this.input.value = k;
    const quality = frame && Number.isFinite(frame.hypervolume) ? `, hypervolume ${show(frame.hypervolume)}` : "";
    this.words.textContent = frame ? `epoch ${frame.epoch}${quality}` : "training: the model as it is";
    this.input.setAttribute("aria-valuetext", this.words.textContent);
    frontView.draw();
  },

  toggle() {
    if (this.timer) return this.pause();
    let k = Number(this.input.value);
    if (k >= DATA.evolution.length) k = -1;
    const wait = clamp(5000 / DATA.evolution.length, 80, 400);
    this.timer = setInterval(() => {
      this.show(++k);
      if (k >= DATA.evolution.length) this.pause();
    }, wait);
    this.button.textContent = "❚❚";
    this.button.setAttribute("aria-label", "Pause");
  },

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.button.textContent = "▶";
    this.button.setAttribute("aria-label", "Play the training");
  },
};

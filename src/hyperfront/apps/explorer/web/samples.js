// The sample inputs, and under each what the model makes of it at the ray.

const kindOfSamples = kinds[SAMPLES.kind];

const samples = {
  start() {
    if (SAMPLES.kind === "point") byId("samples-title").textContent = "The point at this ray";
    this.whole = el("div", { class: "whole" });
    this.answers = SAMPLES.items.map(() => el("div", { class: "prediction" }));
    const control = kindOfSamples.control?.(() => {
      this.follow();
      pins.fill();
    });
    const items = SAMPLES.items.map((_, k) => el("div", { class: "item" }, kindOfSamples.item(k), this.answers[k]));
    byId("samples-body").append(
      el("div", {}, control, el("div", { class: `items ${SAMPLES.kind}` }, items)),
      this.whole,
    );
    watch("predictions", () => this.follow());
    kindOfSamples.start?.();
  },

  follow() {
    const source = backend.exact ? "" : `at the nearest of ${DATA.sampled.length} sampled rays`;
    byId("samples-note").textContent = [kindOfSamples.note, source].filter(Boolean).join("; ");
    this.answers.forEach((place, k) => place.replaceChildren(...[kindOfSamples.answer(k, state.predictions)].flat()));
    if (kindOfSamples.whole) this.whole.replaceChildren(kindOfSamples.whole(state.predictions));
  },
};

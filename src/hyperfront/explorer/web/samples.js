// What the model makes of sample inputs: one way of showing them for each kind.
//
// Each kind has `item(k)`, the input as it is, and `answer(k, predictions)`, what the model says of it.

const SAMPLES = DATA.samples;

const kinds = {
  classes: {
    item: (k) => canvas(SAMPLES.items[k].image, `Image ${k + 1}: ${SAMPLES.heads.map((head, h) => `${head.name} ${head.classes[SAMPLES.items[k].truth[h]]}`).join(", ")}`),
    answer: (k, predictions) => SAMPLES.heads.map((head, h) => {
      const chances = predictions[k][h];
      const best = chances.indexOf(Math.max(...chances));
      const right = best === SAMPLES.items[k].truth[h];
      const columns = chances.map((chance, c) => {
        const bar = el("span", { class: c === SAMPLES.items[k].truth[h] ? "column true" : "column", title: `${head.classes[c]} ${percent(chance)}` }, el("span"));
        bar.firstChild.style.height = `${Math.max(2, 100 * chance)}%`;
        return bar;
      });
      return el("div", { class: "head" },
        el("span", { class: "columns", "aria-hidden": "true" }, columns),
        el("span", { class: "says" }, el("span", { class: "muted" }, `${head.name} `),
          el("span", { class: right ? "right-answer" : "wrong-answer" }, `${right ? "✓" : "✗"} ${head.classes[best]}`), ` ${percent(chances[best])}`));
    }),
    note: "all classes, the true one in green",
  },

  people: {
    item: (k) => {
      const { title, fields, group } = SAMPLES.items[k];
      return el("details", { class: "person" },
        el("summary", {}, el("strong", {}, title), el("span", { class: "muted small" }, SAMPLES.groups[group])),
        el("dl", {}, Object.entries(fields).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
    },
    answer: (k, predictions) => {
      const chance = predictions.probabilities[k];
      const right = chance > 0.5 === SAMPLES.items[k].truth;
      const meter = el("span", { class: "meter", "aria-hidden": "true" }, el("span"));
      meter.firstChild.style.width = `${100 * chance}%`;
      return [meter, el("span", { class: "says" }, el("span", { class: right ? "right-answer" : "wrong-answer" }, `${right ? "✓" : "✗"} ${percent(chance)}`),
        el("span", { class: "muted" }, `, truth ${SAMPLES.items[k].truth ? "yes" : "no"}`))];
    },
    whole: (predictions) => {
      const [first, second] = predictions.groups;
      return el("table", { class: "groups" }, el("caption", {}, "Both groups, on all validation rows"),
        el("thead", {}, el("tr", {}, ["", ...SAMPLES.groups, "gap"].map((text) => el("th", { scope: "col" }, text)))),
        el("tbody", {}, Object.keys(first).map((name) => el("tr", {}, el("th", { scope: "row" }, name),
          ...[first, second].map((group, g) => {
            const meter = el("span", { class: `meter g${g}`, "aria-hidden": "true" }, el("span"));
            meter.firstChild.style.width = `${100 * group[name]}%`;
            return el("td", {}, meter, percent(group[name]));
          }),
          el("td", { class: "gap" }, percent(Math.abs(first[name] - second[name])))))));
    },
    note: SAMPLES.predicted && `probability of: ${SAMPLES.predicted}`,
  },

  scenes: {
    item: (k) => {
      const { image, segmentation, depth } = SAMPLES.items[k];
      const figure = (node, text) => el("figure", {}, node, el("figcaption", {}, text));
      return el("div", { class: "scene" }, figure(canvas(image, `Image ${k + 1}`), "image"),
        figure(canvas(segmentation, "True classes", classColour), "classes, true"), figure(canvas(depth, "True depth", depthColour), "depth, true"));
    },
    answer: (k, predictions) => {
      const { segmentation, depth } = predictions[k];
      const figure = (node, text) => el("figure", {}, node, el("figcaption", {}, text));
      return el("div", { class: "scene" }, figure(canvas(segmentation, "Predicted classes", classColour), "classes, predicted"),
        figure(canvas(depth, "Predicted depth", depthColour), "depth, predicted"));
    },
    whole: () => el("p", { class: "classes small" }, SAMPLES.classes.map((name, k) => {
      const patch = el("span", { class: "patch" });
      patch.style.background = `rgb(${classColour(k).join(" ")})`;
      return el("span", {}, patch, name);
    })),
    note: SAMPLES.metres && `depth from 0 m (bright) to ${SAMPLES.metres.toFixed(0)} m (dark)`,
  },

  values: {
    item: (k) => SAMPLES.items[k].inputs.map((input) => input.image
      ? canvas(input.image, `Input ${k + 1}`)
      : el("figure", {}, bars(input.numbers, { label: `Input ${k + 1}: ${input.numbers.slice(0, 8).map((value) => show(value, 3)).join(", ")}`, height: 26 }),
          el("figcaption", {}, input.of > input.numbers.length ? `input, first ${input.numbers.length} of ${input.of}` : `input, ${input.of} numbers`))),
    answer: (k, predictions) => predictions[k].map((output, h) => {
      const targets = SAMPLES.items[k].targets.find((target) => target.length === output.length) || null;
      return el("figure", {}, bars(output, { targets, label: `Output: ${output.slice(0, 10).map((value) => show(value, 3)).join(", ")}` }),
        el("figcaption", {}, predictions[k].length > 1 ? `output ${h + 1}` : output.length === 1 ? `output ${show(output[0])}` : "output", targets ? el("span", { class: "aim-word" }, " — target") : null));
    }),
    note: "",
  },

  point: {
    extent: [], // of the coordinates seen so far, so that the scale stands still
    start() {
      for (const corner of dasDennis(M, 1)) backend.predict(corner).then(({ numbers }) => this.see(numbers), () => {});
    },
    see(numbers) {
      this.extent = [Math.min(...numbers, ...this.extent), Math.max(...numbers, ...this.extent)];
    },
    whole({ numbers, of }) {
      this.see(numbers);
      const which = of > numbers.length ? `the first ${numbers.length} of ${of} coordinates` : `${of} coordinates`;
      return el("figure", {}, bars(numbers, { extent: this.extent, label: `Coordinates: ${numbers.slice(0, 10).map((value) => show(value, 3)).join(", ")}`, height: 60 }),
        el("figcaption", {}, `${which}, from ${show(Math.min(...numbers), 3)} to ${show(Math.max(...numbers), 3)}`));
    },
    note: "this problem takes no input",
  },
};

const kindOfSamples = kinds[SAMPLES.kind];

const samples = {
  start() {
    if (SAMPLES.kind === "point") byId("samples-title").textContent = "The point at this ray";
    this.whole = el("div", { class: "whole" });
    this.answers = SAMPLES.items.map(() => el("div", { class: "prediction" }));
    byId("samples-body").append(
      el("div", { class: `items ${SAMPLES.kind}` }, SAMPLES.items.map((_, k) => el("div", { class: "item" }, kindOfSamples.item(k), this.answers[k]))), this.whole);
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

// Links, the line of Python, and the plain model.

const link = {
  start() {
    const button = (id, text, action) => el("button", { type: "button", class: "button", id, onclick: action }, text);
    byId("take-buttons").append(
      button("copy-python", "Copy Python", (event) => this.copy(event.target, this.python())),
      button("copy-link", "Copy link", (event) => this.copy(event.target, this.address())),
      ...(backend.model ? [el("a", { class: "button", id: "download", download: "" }, "Download model")] : []),
    );
    watch("ray", () => this.follow());
    for (const event of ["settled", "pins"]) watch(event, () => this.remember());
    window.addEventListener("hashchange", () => this.read() && goTo(this.read().ray, { settled: true }));
  },

  /** The address of the page holds the ray, so that a reload stays there. */
  remember() {
    try {
      history.replaceState(null, "", this.hash());
    } catch {
      // pages inside a document have no address
    }
  },

  follow() {
    byId("python").textContent = this.python();
    if (backend.model) byId("download").href = backend.model(state.ray);
  },

  python: () => `import hyperfront as hf; net = ${DATA.python}.at([${rayCode(state.ray).replaceAll(",", ", ")}])`,

  hash() {
    const pinned = state.pins.map((pin) => rayCode(pin.ray)).join(";");
    const view = state.view === Object.keys(VIEWS)[0] ? "" : `&view=${state.view}`;
    return `#ray=${rayCode(state.ray)}${pinned ? `&pins=${pinned}` : ""}${view}`;
  },

  address() {
    return location.href.split("#")[0] + this.hash();
  },

  /** What the link that was opened holds. */
  read() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const ray = parseRay(parts.get("ray"));
    const pinned = (parts.get("pins") || "").split(";").map(parseRay).filter(Boolean);
    return ray ? { ray, pins: pinned, view: parts.get("view") } : null;
  },

  async copy(button, text) {
    let copied = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = el("textarea", { class: "unseen", value: text }); // a page without that right still has this one
      document.body.append(area);
      area.select();
      copied = document.execCommand("copy");
      area.remove();
      button.focus();
    }
    const before = button.textContent;
    button.textContent = copied ? "Copied" : "Not allowed";
    announce(copied ? `Copied: ${text}` : "The browser does not allow copying");
    setTimeout(() => (button.textContent = before), 1400);
  },
};

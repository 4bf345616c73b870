// Plays the replays of a page: one clock, a panel for each policy. `world_scenes` documents what can be drawn.
(() => {
  const { page, svg, html, shown, shortened, finite, mark } = window.elbertPage;
  const DASHES = ["", "7 3", "2 3", "9 3 2 3"], COLOURS = 8, MOST_GROUPS = 8, SPEEDS = [0.5, 1, 2, 5];
  let made = 0;

  const colour = (style) => `c${style % COLOURS}`;
  const span = (text, name) => html("span", { textContent: text, ...(name ? { className: name } : {}) });
  function tickStep(high, wanted) {
    const raw = high / Math.max(1, wanted), power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  }
  function axes(root, box, high, label, height) {
    const step = tickStep(high, (box.bottom - box.top) / 40);
    for (let k = 0; k * step <= high * 1.001; k++) {
      const y = box.bottom - ((k * step) / high) * (box.bottom - box.top);
      root.append(svg("line", { class: "gridline", x1: box.left, x2: box.right, y1: y, y2: y }));
      root.append(svg("text", { class: "soft", x: box.left - 6, y: y + 4, "text-anchor": "end" }, shown(Number((k * step).toPrecision(12)))));
    }
    root.append(svg("text", { x: -(box.top + box.bottom) / 2, y: 12, "text-anchor": "middle", transform: "rotate(-90)" }, shortened(label, Math.floor(height / 7))));
  }
  const sample = (name, ...parts) => svg("svg", { viewBox: "0 0 26 12", "aria-hidden": "true", class: name }, ...parts);
  const key = (picture, text) => html("span", { className: "key" }, picture, typeof text === "string" ? shortened(text, 40) : text);

  // Bars that move; diamonds and levels above them.
  class Bars {
    constructor(holder, scene, all, label) {
      Object.assign(this, { holder, scene, label });
      const values = all.flatMap((each) => each?.series ?? []).flatMap((series) => series.values.flat()).filter(finite);
      this.high = Math.max(...values.reduce((m, x) => (x > m[0] ? [x] : m), [1e-9])) * 1.12;
    }
    legend() {
      return [...this.scene.series.map((series) => {
        const s = series.style ?? 0;
        if (series.look === "diamond") return key(sample(colour(s), mark(3, 13, 6, 4, "mark")), series.name);
        if (series.look === "level") return key(sample("best", svg("line", { class: "line", x1: 2, x2: 24, y1: 6, y2: 6 })), series.name);
        if (series.look === "outline") return key(sample(colour(s), svg("rect", { class: "missed", x: 5, y: 1, width: 16, height: 10 })), series.name);
        const drawing = sample(colour(s));
        drawing.append(svg("rect", { x: 5, y: 0, width: 16, height: 12, ...this.fill(drawing, s) }));
        return key(drawing, series.name);
      }), ...(this.scene.pointer ? [key(sample("best", mark(4, 13, 6, 4, "mark")), this.scene.pointed || "")] : [])];
    }
    fill(root, style) {
      if (style % 4 === 0) return { class: "solid" };
      const id = `hatch-${made++}`;
      const lines = ["", "M0,6L6,0", "M0,3L6,3", "M0,0L6,6M0,6L6,0"][style % 4];
      root.append(svg("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, svg("rect", { class: "solid", width: 6, height: 6 }), svg("path", { class: "hatch", d: lines })));
      return { fill: `url(#${id})` };
    }
    draw() {
      const { scene } = this, width = Math.max(260, this.holder.clientWidth), height = Math.round(Math.min(270, Math.max(200, width * 0.5)));
      const box = { left: 48, right: width - 6, top: 14, bottom: height - 36 };
      const names = scene.x.names, slot = (box.right - box.left) / names.length;
      const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": this.label });
      axes(root, box, this.high, scene.y.label, height);
      const every = Math.ceil(names.length / Math.max(1, (box.right - box.left) / 28));
      names.forEach((name, i) => { if (i % every === 0) root.append(svg("text", { class: "soft", x: box.left + slot * (i + 0.5), y: box.bottom + 15, "text-anchor": "middle" }, shortened(name, 8))); });
      root.append(svg("text", { x: (box.left + box.right) / 2, y: height - 5, "text-anchor": "middle" }, shortened(scene.x.label, Math.floor(width / 7))));
      const boxes = scene.series.filter((series) => series.look === "solid" || series.look === "outline");
      const side = scene.layered ? 1 : Math.max(1, boxes.length), thick = (slot * 0.78) / side;
      this.Y = (value) => box.bottom - (value / this.high) * (box.bottom - box.top);
      this.middle = (place, i) => box.left + slot * (i + 0.5) + (scene.layered ? 0 : (place - (side - 1) / 2) * thick);
      this.parts = scene.series.map((series) => {
        const group = svg("g", { class: series.look === "level" ? "best" : colour(series.style ?? 0) });
        root.append(group);
        const place = boxes.indexOf(series), look = series.look === "solid" ? this.fill(group, series.style ?? 0) : { class: "missed" };
        return names.map((_, i) => {
          let element;
          if (place >= 0) element = svg("rect", { x: this.middle(place, i) - thick / 2 + 0.5, width: Math.max(1, thick - 1), ...look });
          else if (series.look === "diamond") element = mark(3, 0, 0, 5, "mark");
          else element = svg("line", { class: "line", x1: this.middle(0, i) - slot * 0.44, x2: this.middle(0, i) + slot * 0.44 });
          group.append(element);
          return element;
        });
      });
      this.pointer = svg("g", {});
      root.append(svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }), this.pointer);
      this.bottom = box.bottom;
      this.holder.replaceChildren(root);
    }
    show(frame) {
      const { scene } = this;
      scene.series.forEach((series, place) => series.values[frame].forEach((value, i) => {
        const element = this.parts[place][i], y = this.Y(finite(value) ? value : 0);
        if (series.look === "diamond") element.setAttribute("transform", `translate(${this.middle(0, i).toFixed(1)},${y.toFixed(1)})`);
        else if (series.look === "level") { element.setAttribute("y1", y); element.setAttribute("y2", y); }
        else { element.setAttribute("y", y.toFixed(1)); element.setAttribute("height", Math.max(0, this.bottom - y).toFixed(1)); }
      }));
      const at = scene.pointer?.series[frame];
      this.pointer.replaceChildren();
      if (finite(at)) {
        const bar = scene.pointer.bar[frame], series = scene.series[at];
        this.pointer.setAttribute("class", colour(series.style ?? 0));
        this.pointer.append(mark(4, this.middle(at, bar), Math.max(8, this.Y(series.values[frame][bar]) - 10), 6, scene.pointer.filled[frame] ? "mark pointed" : "hollow"));
      }
    }
  }

  // Nodes and edges: the fill is the state, the shape the group.
  class Network {
    constructor(holder, scene, all, label, groups) { Object.assign(this, { holder, scene, label, groups }); }
    legend() {
      this.counts = this.scene.names.map(() => span("", "number"));
      const states = this.scene.names.map((name, i) => key(sample("", mark(0, 13, 6, 5, `node state${i}`)), html("span", {}, `${name} `, this.counts[i])));
      const used = [...new Set(this.scene.shapes)].sort((a, b) => a - b).slice(0, 5);
      const shapes = used.map((g) => key(sample("", mark(g, 13, 6, 4.5, "node state0")), this.groups[g] ?? `group ${g}`));
      return [...states, ...shapes, key(sample("", svg("circle", { class: "ring", cx: 13, cy: 6, r: 5 })), this.scene.ring)];
    }
    draw() {
      const { scene } = this, width = Math.max(260, this.holder.clientWidth), height = Math.round(Math.min(360, Math.max(230, width * 0.62)));
      const count = scene.x.length, size = count <= 60 ? Math.max(5, Math.min(8, width / 60)) : Math.max(1.6, 60 / Math.sqrt(count)), edge = 2.4 * size + 4;
      this.X = (i) => edge + scene.x[i] * (width - 2 * edge);
      this.Y = (i) => edge + scene.y[i] * (height - 2 * edge);
      this.size = size;
      const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": this.label });
      const point = (i) => `${this.X(i).toFixed(1)},${this.Y(i).toFixed(1)}`;
      root.append(svg("path", { class: "edge", fill: "none", d: scene.edges.map(([i, j]) => `M${point(i)}L${point(j)}`).join("") }));
      this.rings = svg("g", {});
      this.nodes = scene.shapes.map((g, i) => mark(g, this.X(i), this.Y(i), size, "node"));
      root.append(...this.nodes, this.rings);
      this.holder.replaceChildren(root);
    }
    show(frame) {
      const states = this.scene.states[frame], counts = this.scene.names.map(() => 0);
      this.nodes.forEach((node, i) => { node.setAttribute("class", `node state${states[i]}`); counts[states[i]]++; });
      this.counts.forEach((element, i) => { element.textContent = counts[i]; });
      this.rings.replaceChildren(...this.scene.rings[frame].map((i) => svg("circle", { class: "ring", cx: this.X(i), cy: this.Y(i), r: 1.9 * this.size + 2 })));
    }
  }

  // Lines over the steps: faint as a whole, strong up to now.
  class Lines {
    constructor(holder, { steps, series, high, label, tall, name }) { Object.assign(this, { holder, steps, series, high, label, tall, name }); }
    legend() {
      return this.series.filter((each) => each.name).map((each) => key(sample(each.colour, svg("line", { class: "line", x1: 0, x2: 26, y1: 6, y2: 6, "stroke-dasharray": each.dash })), shortened(each.name, 40)));
    }
    draw() {
      const width = Math.max(260, this.holder.clientWidth), height = this.tall ? Math.round(Math.min(270, Math.max(200, width * 0.5))) : 150;
      const box = { left: 48, right: width - 8, top: 8, bottom: height - 34 }, last = Math.max(1, this.steps[this.steps.length - 1]);
      const X = (step) => box.left + (step / last) * (box.right - box.left), Y = (value) => box.bottom - (value / this.high) * (box.bottom - box.top);
      const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": this.label });
      axes(root, box, this.high, this.name, height);
      const gap = tickStep(last, width / 90);
      for (let x = 0; x <= last; x += gap) root.append(svg("text", { class: "soft", x: X(x), y: box.bottom + 15, "text-anchor": x + gap > last && X(x) > box.right - 20 ? "end" : "middle" }, shown(x)));
      root.append(svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
      root.append(svg("text", { x: (box.left + box.right) / 2, y: height - 4, "text-anchor": "middle" }, "step"));
      const ids = [`until-${made++}`, `inside-${made++}`];
      this.until = svg("rect", { x: 0, y: box.top - 2, height: box.bottom - box.top + 4, width: 0 });
      const inside = svg("rect", { x: box.left, y: box.top - 2, height: box.bottom - box.top + 4, width: box.right - box.left + 2 });
      root.append(svg("clipPath", { id: ids[0] }, this.until), svg("clipPath", { id: ids[1] }, inside));
      const strong = svg("g", { "clip-path": `url(#${ids[0]})` }), faint = svg("g", { class: "ahead" });
      for (const each of [...this.series].reverse()) { // the bias, which comes last, lies behind the rates
        let path = "", before = false;
        each.values.forEach((value, i) => {
          if (finite(value)) path += `${before ? "L" : "M"}${X(this.steps[i]).toFixed(1)},${Y(value).toFixed(1)}`;
          before = finite(value);
        });
        for (const part of [faint, strong]) part.append(svg("path", { class: `line ${each.colour}`, d: path, "stroke-dasharray": each.dash }));
      }
      this.now = svg("line", { class: "now", y1: box.top, y2: box.bottom });
      root.append(svg("g", { "clip-path": `url(#${ids[1]})` }, faint, strong), this.now);
      this.holder.replaceChildren(root);
      this.X = X;
    }
    show(frame) {
      const x = this.X(this.steps[frame]);
      this.until.setAttribute("width", (x + 1).toFixed(1));
      this.now.setAttribute("x1", x);
      this.now.setAttribute("x2", x);
    }
  }

  const SCENES = { bars: Bars, network: Network };
  const ratio = (supply, demand) => (demand > 0 ? supply / demand : null);
  function spread(rates) {
    const known = rates.filter(finite);
    return known.length > 1 ? known.reduce((m, x) => Math.max(m, x), -Infinity) - known.reduce((m, x) => Math.min(m, x), Infinity) : null;
  }
  // Rates and bias so far in every frame, from the sums so far. [criteria][frames]
  function courses(policy, criteria) {
    const { supply, demand } = policy.frames;
    return criteria.map((_, c) => supply.map((row, k) => {
      const rates = row[c].map((value, g) => ratio(value, demand[k][c][g]));
      return { rates, bias: spread(rates) };
    }));
  }
  // The largest value that the axis shows: the first steps, where a rate is of a few cases, may run out of the picture.
  function highest(rows) {
    const late = rows.flatMap((frames) => frames.slice(Math.floor(frames.length / 10)));
    const top = late.flatMap(({ rates, bias }) => [...rates, bias]).filter(finite).reduce((m, x) => Math.max(m, x), 0);
    return top > 0 ? top * 1.05 : 1;
  }

  class Panel {
    constructor(player, policy) {
      const { spec } = player;
      Object.assign(this, { player, policy, pictures: [] });
      this.note = html("p", { className: "note" });
      this.section = html("section", { className: "panel", "aria-label": policy.name }, html("h3", { textContent: shortened(policy.name, 80), title: policy.name }));
      const words = `${policy.name} in ${spec.env}, step by step. The numbers below say the same.`;
      const Scene = SCENES[policy.scene?.kind], scenes = spec.policies.map((each) => each.scene);
      const holder = html("div", { className: "scene" });
      this.add(holder, Scene ? new Scene(holder, policy.scene, scenes, words, spec.groups) : this.plain(holder, words));
      this.section.append(this.note);
      player.courses.get(policy).forEach((course, c) => this.rates(course, c));
    }
    add(holder, picture) {
      this.section.append(holder, html("div", { className: "keys" }, ...picture.legend()));
      this.pictures.push(picture);
    }
    plain(holder, words) {
      const { spec, groups } = this.player, { supply, demand } = this.policy.frames, series = [];
      for (const [place, g] of groups.entries()) {
        const of = (rows) => rows.map((row) => row[0][g]);
        series.push({ name: `${spec.groups[g]}: supply`, colour: colour(place), dash: "", values: of(supply) }, { name: `${spec.groups[g]}: demand`, colour: colour(place), dash: "2 3", values: of(demand) });
      }
      return new Lines(holder, { steps: spec.steps, series, high: this.player.most, label: words, tall: true, name: "so far" });
    }
    rates(course, c) {
      const { spec, groups } = this.player, criterion = spec.criteria[c];
      const series = groups.map((g, place) => ({ colour: colour(place), dash: DASHES[place % DASHES.length], values: course.map((at) => at.rates[g]) }));
      series.push({ colour: "best bias", dash: "0.1 5", values: course.map((at) => at.bias) });
      const line = ({ colour: name, dash }) => sample(name, svg("line", { class: "line", x1: 0, x2: 26, y1: 6, y2: 6, "stroke-dasharray": dash }));
      const cells = () => [0, 1, 2].map(() => html("td", { className: "right" }));
      const rows = groups.map((g, i) => ({ g, cells: cells(), picture: line(series[i]), name: shortened(spec.groups[g], 30) }));
      const bias = { cells: cells(), picture: line(series[series.length - 1]), name: "bias" };
      const body = [...rows, bias].map((row) => html("tr", {}, html("th", { scope: "row" }, key(row.picture, row.name)), ...row.cells));
      const head = ["", "rate", "supply", "demand"].map((text, i) => html("th", { scope: "col", textContent: text, className: i ? "right" : "" }));
      head[0].append(span("group", "hidden"));
      const left = spec.groups.length - groups.length;
      const caption = `${criterion} so far${left ? ` (${groups.length} of ${spec.groups.length} groups; the bias is that of all)` : ""}`;
      this.section.append(html("table", { className: "rates" }, html("caption", { textContent: caption }), html("thead", {}, html("tr", {}, ...head)), html("tbody", {}, ...body)));
      const holder = html("div", { className: "scene" });
      this.section.append(holder);
      const label = `${criterion} of each group and the bias so far, ${this.policy.name}`;
      this.pictures.push(new Lines(holder, { steps: spec.steps, series, high: this.player.high[c], label, name: "so far" }));
      (this.tables ??= []).push((frame) => {
        const { supply, demand } = this.policy.frames, at = course[frame];
        for (const row of rows) {
          const values = [at.rates[row.g], supply[frame][c][row.g], demand[frame][c][row.g]];
          row.cells.forEach((cell, k) => { cell.textContent = k === 0 ? decimals(values[0]) : shown(values[k]); });
        }
        bias.cells[0].textContent = decimals(at.bias);
      });
    }
    draw() { for (const picture of this.pictures) picture.draw(); }
    show(frame) {
      const { frames, scene, length, ended } = this.policy;
      for (const picture of this.pictures) picture.show(frame);
      for (const update of this.tables) update(frame);
      const over = ended && frames.step[frame] === length && length < this.player.last ? `The episode ended at step ${length}. ` : "";
      this.note.textContent = `${over}${scene?.notes?.[frame] ?? ""} Reward so far: ${shown(frames.reward[frame])}.`.trim();
      this.section.dataset.supply = JSON.stringify(frames.supply[frame]);
      this.section.dataset.demand = JSON.stringify(frames.demand[frame]);
    }
  }
  const decimals = (value) => (finite(value) ? value.toFixed(3) : "–");

  class Player {
    constructor(container, spec) {
      Object.assign(this, { container, spec, frame: 0, playing: false, frames: spec.steps.length, last: spec.steps[spec.steps.length - 1] });
      this.courses = new Map(spec.policies.map((policy) => [policy, courses(policy, spec.criteria)]));
      this.high = spec.criteria.map((_, c) => highest(spec.policies.map((policy) => this.courses.get(policy)[c])));
      this.groups = this.chosen();
      const amounts = spec.policies.flatMap(({ totals }) => [totals.supply, totals.demand]).flatMap((each) => this.groups.map((g) => each[0][g]));
      this.most = Math.max(1e-9, ...amounts) * 1.05;
      this.rate = Math.min(12, Math.max(2, this.frames / 20)); // frames a second: an episode takes about 20 seconds
      this.controls();
      this.panels = spec.policies.map((policy) => new Panel(this, policy));
      this.grid = html("div", { className: "grid" }, ...this.panels.map((panel) => panel.section));
      container.append(html("p", { className: "caption", textContent: spec.caption }), this.tools, this.live, this.grid);
      container.dataset.frames = this.frames;
      this.draw();
      const fit = () => { if (this.grid.clientWidth !== this.width) this.draw(); };
      new ResizeObserver(() => requestAnimationFrame(fit)).observe(this.grid); // not within the observer: drawing resizes
      window.addEventListener("beforeprint", () => { this.pause(); this.go(this.frames - 1); });
    }
    // Of many groups, those whose rates differ most at the end of the first policy's episode.
    chosen() {
      const every = this.spec.groups.map((_, g) => g);
      if (every.length <= MOST_GROUPS) return every;
      const rates = this.courses.get(this.spec.policies[0])[0][this.frames - 1].rates;
      const order = every.filter((g) => finite(rates[g])).sort((a, b) => rates[a] - rates[b]);
      const ends = order.length > MOST_GROUPS ? [...order.slice(0, MOST_GROUPS / 2), ...order.slice(-MOST_GROUPS / 2)] : order;
      return ends.length ? ends.sort((a, b) => a - b) : every.slice(0, MOST_GROUPS);
    }
    controls() {
      const id = this.container.id;
      const button = (text, label, act) => html("button", { type: "button", textContent: text, "aria-label": label, onclick: act });
      this.button = html("button", { type: "button", className: "play", textContent: "Play", onclick: () => (this.playing ? this.pause() : this.play()) });
      this.slider = html("input", { type: "range", id: `${id}-step`, min: 0, max: this.frames - 1, step: 1, value: 0, oninput: () => { this.pause(); this.go(Number(this.slider.value)); } });
      this.speed = html("select", { id: `${id}-speed` }, ...SPEEDS.map((x) => html("option", { value: x, textContent: `${x}×`, selected: x === 1 })));
      this.counter = html("span", { className: "number counter", "aria-hidden": "true" });
      this.live = html("div", { className: "hidden status", "aria-live": "polite" });
      const stepped = (by) => () => { this.pause(); this.go(this.frame + by); };
      this.tools = html("div", { className: "tools" },
        this.button, button("Back", "Back one frame", stepped(-1)), button("Forward", "Forward one frame", stepped(1)),
        html("span", { className: "slider" }, html("label", { htmlFor: `${id}-step`, textContent: "Step" }), this.slider), this.counter,
        html("label", { htmlFor: `${id}-speed`, textContent: "Speed" }), this.speed);
    }
    words() { return `step ${this.spec.steps[this.frame]} of ${this.last}`; }
    play() {
      if (this.frame >= this.frames - 1) this.go(0);
      this.playing = true;
      this.button.textContent = "Pause";
      let before = null, owed = 0;
      const tick = (now) => {
        if (!this.playing) return;
        owed += before === null ? 0 : ((now - before) / 1000) * this.rate * Number(this.speed.value);
        before = now;
        const whole = Math.floor(owed);
        owed -= whole;
        if (whole) this.go(this.frame + whole);
        if (this.frame >= this.frames - 1) this.pause(); else requestAnimationFrame(tick);
      };
      requestAnimationFrame(tick);
    }
    pause() {
      this.playing = false;
      this.button.textContent = "Play";
      this.live.textContent = this.words();
    }
    go(frame) {
      this.frame = Math.min(this.frames - 1, Math.max(0, frame));
      this.slider.value = this.frame;
      this.slider.setAttribute("aria-valuetext", this.words());
      this.counter.textContent = this.words();
      if (!this.playing) this.live.textContent = this.words();
      this.container.dataset.frame = this.frame;
      for (const panel of this.panels) panel.show(this.frame);
    }
    draw() {
      this.width = this.grid.clientWidth;
      for (const panel of this.panels) panel.draw();
      this.go(this.frame);
    }
  }

  for (const spec of page.replays) {
    const container = document.getElementById(spec.id);
    if (container) new Player(container, spec);
  }
})();

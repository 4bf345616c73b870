"use strict";
// Draws the charts of a page from the numbers it holds. No network, no other library.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const DASHES = ["", "7 3", "2 3", "9 3 2 3"];
  const COLOURS = 8;

  function svg(name, attributes, ...children) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }
  function html(name, properties, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(properties || {})) {
      if (key.includes("-") || key === "role") element.setAttribute(key, value);
      else element[key] = value;
    }
    element.append(...children);
    return element;
  }
  const finite = (value) => typeof value === "number" && Number.isFinite(value);
  function shown(value) {
    if (!finite(value)) return "not known";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(2);
    return String(Number(value.toPrecision(size >= 1000 ? 6 : 4)));
  }
  function ticks(low, high, wanted) {
    const raw = (high - low) / Math.max(1, wanted);
    if (!(raw > 0)) return [low];
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(Number((k * step).toPrecision(12)));
    return found;
  }
  function shortened(text, longest) {
    const whole = String(text);
    return whole.length > longest ? whole.slice(0, longest - 1) + "…" : whole;
  }
  function mark(shape, x, y, size, name) {
    const s = size;
    const points = [
      null,
      [[-s, -s], [s, -s], [s, s], [-s, s]],
      [[0, -1.2 * s], [1.1 * s, s], [-1.1 * s, s]],
      [[0, -1.35 * s], [1.35 * s, 0], [0, 1.35 * s], [-1.35 * s, 0]],
      [[0, 1.2 * s], [1.1 * s, -s], [-1.1 * s, -s]],
    ][shape % 5];
    if (!points) return svg("circle", { class: name, cx: x, cy: y, r: s });
    return svg("polygon", { class: name, points: points.map(([a, b]) => `${(x + a).toFixed(1)},${(y + b).toFixed(1)}`).join(" ") });
  }
  const look = (series, place) => ({ colour: series.best ? "best" : `c${(series.style ?? place) % COLOURS}`, dash: series.dash ?? DASHES[(series.style ?? place) % DASHES.length], shape: (series.style ?? place) % 5 });

  // One chart of lines, bands and points over a common x axis.
  class Chart {
    constructor(figure, spec) {
      this.figure = figure;
      this.spec = spec;
      this.off = new Set();
      this.at = null;
      this.tip = html("div", { className: "tip", hidden: true });
      this.live = html("div", { className: "hidden", "aria-live": "polite" });
      this.holder = html("div", { className: "layers" });
      const zoom = (label, act) => html("button", { type: "button", textContent: label, onclick: act });
      this.tools = html("div", { className: "tools" }, zoom("Zoom in", () => this.zoom(0.5)), zoom("Zoom out", () => this.zoom(2)), zoom("Whole picture", () => this.reset()));
      this.legend = html("div", { className: "legend" });
      figure.append(this.holder, this.legend, this.tools, this.tip, this.live);
      spec.series.forEach((series, place) => this.legend.append(this.key(series, place)));
      this.reset();
      new ResizeObserver(() => { if (figure.clientWidth !== this.width) this.draw(); }).observe(figure);
    }
    key(series, place) {
      const { colour, dash, shape } = look(series, place);
      const sample = svg("svg", { viewBox: "0 0 26 12", "aria-hidden": "true", class: colour });
      if (series.line) sample.append(svg("line", { class: "line", x1: 0, x2: 26, y1: 6, y2: 6, "stroke-dasharray": dash }));
      if (series.points) sample.append(mark(shape, 13, 6, 4, series.hollow ? "hollow" : "mark"));
      const button = html("button", { type: "button", title: series.name, "aria-pressed": "true", onclick: () => {
        if (this.off.has(place)) this.off.delete(place); else this.off.add(place);
        button.setAttribute("aria-pressed", String(!this.off.has(place)));
        this.draw();
      } }, sample, html("span", { textContent: shortened(series.name, 60) }));
      return button;
    }
    reset() {
      let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
      for (const series of this.spec.series) {
        series.x.forEach((x, i) => {
          const y = series.y[i];
          if (!finite(x) || !finite(y)) return;
          for (const each of [x, series.xlow?.[i], series.xhigh?.[i]]) if (finite(each)) { x0 = Math.min(x0, each); x1 = Math.max(x1, each); }
          for (const each of [y, series.low?.[i], series.high?.[i]]) if (finite(each)) { y0 = Math.min(y0, each); y1 = Math.max(y1, each); }
        });
      }
      for (const limit of this.spec.limits || []) {
        if (finite(limit.y)) { y0 = Math.min(y0, limit.y); y1 = Math.max(y1, limit.y); }
        if (finite(limit.x)) { x0 = Math.min(x0, limit.x); x1 = Math.max(x1, limit.x); }
      }
      if (x0 > x1) [x0, x1, y0, y1] = [0, 1, 0, 1];
      if (this.spec.y.zero) y0 = Math.min(0, y0);
      if (this.spec.x.zero) x0 = Math.min(0, x0);
      const dx = (x1 - x0 || Math.abs(x0) || 1) * 0.04, dy = (y1 - y0 || Math.abs(y0) || 1) * 0.06;
      this.view = { x0: x0 - dx, x1: x1 + dx, y0: this.spec.y.zero && y0 === 0 ? 0 : y0 - dy, y1: y1 + dy };
      this.draw();
    }
    zoom(factor, centre) {
      const v = this.view, c = centre || { x: (v.x0 + v.x1) / 2, y: (v.y0 + v.y1) / 2 };
      this.view = { x0: c.x + (v.x0 - c.x) * factor, x1: c.x + (v.x1 - c.x) * factor, y0: c.y + (v.y0 - c.y) * factor, y1: c.y + (v.y1 - c.y) * factor };
      this.draw();
    }
    pan(dx, dy) {
      const v = this.view, w = (v.x1 - v.x0) * dx, h = (v.y1 - v.y0) * dy;
      this.view = { x0: v.x0 + w, x1: v.x1 + w, y0: v.y0 + h, y1: v.y1 + h };
      this.draw();
    }
    draw() {
      const spec = this.spec, width = Math.max(260, this.figure.clientWidth || 600), height = Math.round(Math.min(380, Math.max(230, width * 0.6)));
      this.width = this.figure.clientWidth;
      const box = { left: 62, right: width - 10, top: 10, bottom: height - 44 };
      const v = this.view, names = spec.x.names;
      const X = (x) => box.left + ((x - v.x0) / (v.x1 - v.x0)) * (box.right - box.left);
      const Y = (y) => box.bottom - ((y - v.y0) / (v.y1 - v.y0)) * (box.bottom - box.top);
      Object.assign(this, { X, Y, box });
      const clip = `clip-${spec.id}`;
      const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: "0", "aria-label": `${spec.title}. ${spec.summary || ""} Arrow keys read the points, plus and minus zoom, 0 shows the whole picture.` });
      root.append(svg("clipPath", { id: clip }, svg("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top })));
      for (const y of ticks(v.y0, v.y1, height / 60)) {
        root.append(svg("line", { class: "gridline", x1: box.left, x2: box.right, y1: Y(y), y2: Y(y) }));
        root.append(svg("text", { class: "soft", x: box.left - 6, y: Y(y) + 4, "text-anchor": "end" }, shown(y)));
      }
      let marks = ticks(v.x0, v.x1, width / 90);
      if (names) marks = [...new Set(marks.map(Math.round))].filter((k) => k >= 0 && k < names.length && k >= v.x0 && k <= v.x1);
      marks.forEach((x, i) => {
        const anchor = i === marks.length - 1 && X(x) > box.right - 30 ? "end" : "middle";
        root.append(svg("text", { class: "soft", x: X(x), y: box.bottom + 16, "text-anchor": anchor }, names ? shortened(names[x], 12) : shown(x)));
      });
      root.append(svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
      root.append(svg("text", { x: (box.left + box.right) / 2, y: height - 8, "text-anchor": "middle" }, shortened(spec.x.label, Math.floor(width / 7))));
      root.append(svg("text", { x: -(box.top + box.bottom) / 2, y: 13, "text-anchor": "middle", transform: "rotate(-90)" }, shortened(spec.y.label, Math.floor(height / 7))));
      const inner = svg("g", { "clip-path": `url(#${clip})` });
      for (const span of spec.spans || []) inner.append(svg("rect", { class: "span", x: X(span.from), width: Math.max(0, X(span.to) - X(span.from)), y: box.top, height: box.bottom - box.top }, svg("title", {}, span.name)));
      for (const limit of spec.limits || []) {
        const place = finite(limit.y) ? { x1: box.left, x2: box.right, y1: Y(limit.y), y2: Y(limit.y) } : { x1: X(limit.x), x2: X(limit.x), y1: box.top, y2: box.bottom };
        inner.append(svg("line", { class: "limit", ...place }));
        inner.append(finite(limit.y) ? svg("text", { x: box.right - 4, y: Y(limit.y) - 4, "text-anchor": "end" }, limit.name) : svg("text", { x: X(limit.x) + 4, y: box.top + 12 }, limit.name));
      }
      spec.series.forEach((series, place) => { if (!this.off.has(place)) inner.append(this.drawSeries(series, place)); });
      root.append(inner);
      this.listen(root, inner);
      const focused = this.root && document.activeElement === this.root;
      // The mark of a point that is read lies above, in a layer of its own: moving it does not draw the lines again.
      this.above = svg("svg", { class: "above", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
      this.holder.replaceChildren(root, this.above);
      this.root = root;
      if (focused) root.focus();
    }
    drawSeries(series, place) {
      const { X, Y } = this, { colour, dash, shape } = look(series, place), group = svg("g", { class: colour });
      const known = series.x.map((x, i) => i).filter((i) => finite(series.x[i]) && finite(series.y[i]));
      if (series.line && series.low) {
        let run = [];
        const flush = () => {
          if (run.length > 1) group.append(svg("path", { class: "band", d: "M" + run.map((i) => `${X(series.x[i]).toFixed(1)},${Y(series.high[i]).toFixed(1)}`).join("L") + "L" + run.slice().reverse().map((i) => `${X(series.x[i]).toFixed(1)},${Y(series.low[i]).toFixed(1)}`).join("L") + "Z" }));
          run = [];
        };
        series.x.forEach((x, i) => { if (finite(series.low[i]) && finite(series.high[i])) run.push(i); else flush(); });
        flush();
      }
      if (series.line) {
        let path = "", before = null;
        series.x.forEach((x, i) => {
          if (!finite(x) || !finite(series.y[i])) { before = null; return; }
          const here = [X(x).toFixed(1), Y(series.y[i]).toFixed(1)];
          if (before === null) path += `M${here}`;
          else path += series.step ? `V${here[1]}H${here[0]}` : `L${here}`;
          before = i;
        });
        group.append(svg("path", { class: "line", d: path, "stroke-dasharray": dash, ...(series.faint ? { opacity: 0.5, "stroke-width": 1 } : {}) }));
      }
      if (series.points) {
        for (const i of known) {
          const x = X(series.x[i]), y = Y(series.y[i]);
          if (finite(series.low?.[i]) && finite(series.high?.[i])) group.append(svg("line", { class: "bar", x1: x, x2: x, y1: Y(series.low[i]), y2: Y(series.high[i]) }));
          if (finite(series.xlow?.[i]) && finite(series.xhigh?.[i])) group.append(svg("line", { class: "bar", y1: y, y2: y, x1: X(series.xlow[i]), x2: X(series.xhigh[i]) }));
          group.append(mark(shape, x, y, 5, series.hollow ? "hollow" : "mark"));
        }
      }
      return group;
    }
    words(place, i) {
      const series = this.spec.series[place], names = this.spec.x.names, lines = [series.name];
      lines.push(`${this.spec.x.label}: ${names ? names[series.x[i]] : shown(series.x[i])}`);
      if (finite(series.xlow?.[i])) lines[1] += ` (${shown(series.xlow[i])} .. ${shown(series.xhigh[i])})`;
      lines.push(`${this.spec.y.label}: ${shown(series.y[i])}` + (finite(series.low?.[i]) ? ` (${shown(series.low[i])} .. ${shown(series.high[i])})` : ""));
      if (series.notes?.[i]) lines.push(series.notes[i]);
      return lines.join("\n");
    }
    point(place, i) {
      const series = this.spec.series[place], x = this.X(series.x[i]), y = this.Y(series.y[i]);
      this.at = [place, i];
      this.above.replaceChildren(svg("circle", { class: "cursor", cx: x, cy: y, r: 8 }));
      this.tip.textContent = this.words(place, i);
      this.tip.hidden = false;
      const scale = this.root.getBoundingClientRect().width / this.root.viewBox.baseVal.width, top = this.holder.offsetTop + y * scale;
      const left = Math.min(Math.max(0, x * scale + 12), Math.max(0, this.figure.clientWidth - this.tip.offsetWidth));
      this.tip.style.left = `${left}px`;
      this.tip.style.top = `${top > this.tip.offsetHeight + 16 ? top - this.tip.offsetHeight - 12 : top + 16}px`;
    }
    leave() {
      this.at = null;
      this.tip.hidden = true;
      this.above.replaceChildren();
    }
    nearest(px, py) {
      let best = null, least = 60 ** 2;
      this.spec.series.forEach((series, place) => {
        if (this.off.has(place)) return;
        series.x.forEach((x, i) => {
          if (!finite(x) || !finite(series.y[i])) return;
          const dx = this.X(x) - px, dy = this.Y(series.y[i]) - py, d = dx * dx + dy * dy;
          if (d < least) { least = d; best = [place, i]; }
        });
      });
      return best;
    }
    listen(root, inner) {
      const placeOf = (event) => {
        const rect = root.getBoundingClientRect(), scale = root.viewBox.baseVal.width / rect.width;
        return [(event.clientX - rect.left) * scale, (event.clientY - rect.top) * scale];
      };
      const { box, view } = this;
      const data = ([px, py]) => ({ x: view.x0 + ((px - box.left) / (box.right - box.left)) * (view.x1 - view.x0), y: view.y0 + ((box.bottom - py) / (box.bottom - box.top)) * (view.y1 - view.y0) });
      let from = null, area = null;
      root.addEventListener("pointerdown", (event) => { if (event.pointerType !== "touch" && event.button === 0) from = placeOf(event); });
      root.addEventListener("pointermove", (event) => {
        const here = placeOf(event);
        if (from && event.buttons & 1 && Math.abs(here[0] - from[0]) + Math.abs(here[1] - from[1]) > 8) {
          area?.remove();
          area = svg("rect", { class: "selection", x: Math.min(from[0], here[0]), y: Math.min(from[1], here[1]), width: Math.abs(here[0] - from[0]), height: Math.abs(here[1] - from[1]) });
          root.append(area);
          return;
        }
        const found = this.nearest(...here);
        if (found) this.point(...found); else this.leave();
      });
      root.addEventListener("pointerup", (event) => {
        if (area && from) {
          const a = data(from), b = data(placeOf(event));
          if (Math.abs(a.x - b.x) > 0 && Math.abs(a.y - b.y) > 0) {
            this.view = { x0: Math.min(a.x, b.x), x1: Math.max(a.x, b.x), y0: Math.min(a.y, b.y), y1: Math.max(a.y, b.y) };
            this.draw();
          }
        }
        from = area = null;
      });
      root.addEventListener("pointerleave", () => { if (document.activeElement !== root) this.leave(); });
      root.addEventListener("dblclick", () => this.reset());
      root.addEventListener("wheel", (event) => { if (event.ctrlKey) { event.preventDefault(); this.zoom(event.deltaY > 0 ? 1.25 : 0.8, data(placeOf(event))); } }, { passive: false });
      root.addEventListener("blur", () => this.leave());
      root.addEventListener("keydown", (event) => this.press(event));
    }
    press(event) {
      const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if (move && event.shiftKey) this.pan(0.2 * move[0], -0.2 * move[1]);
      else if (move) this.step(...move);
      else if (event.key === "+" || event.key === "=") this.zoom(0.5);
      else if (event.key === "-") this.zoom(2);
      else if (event.key === "0") this.reset();
      else if (event.key === "Escape") this.leave();
      else return;
      event.preventDefault();
    }
    step(dx, dy) {
      const open = this.spec.series.map((series, place) => place).filter((place) => !this.off.has(place) && this.spec.series[place].y.some(finite));
      if (!open.length) return;
      let [place, i] = this.at || [open[0], -1];
      if (dy) { place = open[(open.indexOf(place) + dy + open.length) % open.length]; dx = dx || 0; }
      const series = this.spec.series[place], last = series.x.length - 1;
      i = Math.min(last, Math.max(0, i + dx));
      const inside = (k) => finite(series.x[k]) && finite(series.y[k]);
      for (let far = 0; far <= last && !inside(i); far++) i = (i + (dx < 0 ? last : 1)) % (last + 1);
      this.point(place, i);
      this.live.textContent = this.words(place, i).replaceAll("\n", ". ");
    }
  }

  // A value and its interval for each row: rates of groups.
  class Dots {
    constructor(figure, spec) {
      this.figure = figure;
      this.spec = spec;
      this.holder = html("div", {});
      figure.append(this.holder);
      this.draw();
      new ResizeObserver(() => { if (figure.clientWidth !== this.width) this.draw(); }).observe(figure);
    }
    draw() {
      const { spec } = this, width = Math.max(260, this.figure.clientWidth || 600), row = 34, left = 10;
      this.width = this.figure.clientWidth;
      const height = spec.rows.length * row + 40, ends = [0, 1];
      const all = spec.rows.flatMap((r) => [r.value, r.low, r.high]).filter(finite);
      ends[0] = Math.min(spec.low ?? Infinity, ...all);
      ends[1] = Math.max(spec.high ?? -Infinity, ...all);
      if (!(ends[1] > ends[0])) ends[1] = ends[0] + 1;
      const X = (x) => left + ((x - ends[0]) / (ends[1] - ends[0])) * (width - left - 20);
      const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${spec.title}. ${spec.rows.map((r) => `${r.name}: ${shown(r.value)}`).join("; ")}` });
      for (const x of ticks(ends[0], ends[1], width / 100)) {
        root.append(svg("line", { class: "gridline", x1: X(x), x2: X(x), y1: 0, y2: height - 36 }));
        root.append(svg("text", { class: "soft", x: X(x), y: height - 20, "text-anchor": "middle" }, shown(x)));
      }
      root.append(svg("text", { x: width / 2, y: height - 4, "text-anchor": "middle" }, spec.label));
      spec.rows.forEach((r, place) => {
        const y = place * row + 24, group = svg("g", { class: `c${(r.style ?? place) % COLOURS}` });
        const values = finite(r.value) ? shown(r.value) + (finite(r.low) ? ` (${shown(r.low)} .. ${shown(r.high)})` : "") : "not known";
        group.append(svg("title", {}, `${r.name}: ${values}${r.note ? `. ${r.note}` : ""}`));
        group.append(svg("text", { x: left, y: y - 8 }, `${shortened(r.name, Math.floor(width / 14))}  ${values}`));
        if (finite(r.low) && finite(r.high)) group.append(svg("line", { class: "line", x1: X(r.low), x2: Math.max(X(r.high), X(r.low) + 1), y1: y + 2, y2: y + 2 }));
        if (finite(r.value)) group.append(mark(place % 5, X(r.value), y + 2, 5, "mark"));
        root.append(group);
      });
      this.holder.replaceChildren(root);
    }
  }

  const page = JSON.parse(document.getElementById("page-data").textContent);
  window.elbertPage = { page, svg, html, shown, shortened, finite, mark, Chart };
  for (const spec of page.charts) {
    const figure = document.getElementById(spec.id);
    if (figure) new (spec.kind === "dots" ? Dots : Chart)(figure, spec);
  }
  const save = document.getElementById("save-json");
  save?.addEventListener("click", () => {
    const blob = new Blob([document.getElementById("result").textContent], { type: "application/json" });
    const link = html("a", { href: URL.createObjectURL(blob), download: "result.json" });
    link.click();
    URL.revokeObjectURL(link.href);
  });
})();

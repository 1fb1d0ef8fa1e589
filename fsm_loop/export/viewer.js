"use strict";
/* The page of a trail. Whatever a record holds becomes text (textContent) and never markup. */
const data = JSON.parse(document.getElementById("trail").textContent);
const $ = (id) => document.getElementById(id);
const ROW_PX = 34, LANE_PX = 22, GUTTER_PX = 92, MOST_SHOWN_CHARS = 20000, MOST_TURNS_LISTED = 2000, REDRAWN_EVERY_MS = 50;
const ENDS = {
  completed: "The answer is whole.", partial: "The answer was cut, and could not be brought to its end.",
  refused: "A provider refused the content, and no other was left.", exhausted: "A budget was spent.",
  interrupted: "Someone asked to stop.", failed: "Nothing was left to try.",
};
const sentenceOf = new Map(data.page.states.map((each) => [each.name, each.sentence]));

function make(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "class") made.className = value;
    else if (name === "text") made.textContent = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}
const number = (value) => (Number.isInteger(value) ? value.toLocaleString("en-US") : String(+Number(value).toPrecision(4)));
function seconds(s) {
  if (s === 0) return "0 s";
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 120) return `${+s.toFixed(1)} s`;
  const m = Math.round(s / 60);
  return s < 7200 ? `${Math.floor(s / 60)} min${s % 60 >= 0.5 ? ` ${Math.floor(s % 60)} s` : ""}` : `${Math.floor(m / 60)} h ${m % 60} min`;
}
const text = (value) => (value && typeof value === "object" ? ("chars" in value ? `[${value.chars} characters]` : JSON.stringify(value)) : String(value ?? ""));
const faultWords = (fault) => [text(fault.kind), fault.status && `status ${text(fault.status)}`, text(fault.message)].filter(Boolean).join(" · ");
/* How many of the sorted indices are at most i. */
function atMost(indices, i) {
  let low = 0, high = indices.length;
  while (low < high) { const mid = (low + high) >> 1; if (indices[mid] <= i) low = mid + 1; else high = mid; }
  return low;
}
const noted = (map, key, i) => { if (map.has(key)) map.get(key).push(i); else map.set(key, [i]); };

/* ------------------------------------------------------------ a turn, and what is known at each of its steps */
class Turn {
  constructor({ id, opening = null, decisions = [], end = null }) {
    Object.assign(this, { id, opening, end, decisions: [], hay: [], rows: new Map(), states: new Map(), moves: new Map(), lanes: [] });
    decisions.forEach((each) => this.add(each));
  }
  add(decision) {
    const i = this.decisions.push(decision) - 1;
    noted(this.rows, decision.row, i);
    noted(this.states, decision.state, i);
    for (const state of [decision.state, decision.after]) if (!this.lanes.includes(state)) this.lanes.push(state);
    for (const moved of decision.moved) {
      const known = this.moves.get(moved.counter) ?? { at: [], values: [], caps: [], first: moved.before };
      known.at.push(i); known.values.push(moved.after); known.caps.push(moved.cap);
      this.moves.set(moved.counter, known);
    }
  }
  since(i) { return this.decisions[i].at - this.decisions[0].at; }
  until(i) { return this.since(Math.min(i + 1, this.decisions.length - 1)); }
  get lasted() { return this.decisions.length ? this.since(this.decisions.length - 1) : 0; }
  value(name, i) {
    const known = this.moves.get(name);
    if (!known) return { value: 0, cap: null, moved: false };
    const n = atMost(known.at, i);
    return { value: n ? known.values[n - 1] : known.first, cap: known.caps[Math.max(0, n - 1)], moved: n > 0 && known.at[n - 1] === i };
  }
  words(i) { return (this.hay[i] ??= JSON.stringify(this.decisions[i]).toLowerCase()); }
}
const waitOf = (decision) => decision.effects.find((each) => each.effect === "SetTimer");
const SHOW = {
  all: ["All decisions", () => true], faults: ["Faults", (d) => Boolean(d.facts.fault)], waits: ["Waits", (d) => Boolean(waitOf(d))],
  spent: ["A counter was spent", (d) => d.moved.some((m) => m.after > m.before)], refilled: ["A counter was refilled", (d) => d.moved.some((m) => m.after < m.before)],
  moves: ["The state changed", (d) => d.state !== d.after], late: ["Late events", (d) => d.row === "late"],
};

const turns = data.turns.map((each) => new Turn(each));
let turn, here = 0, shown = [], view = "overview", scale = "time", picked = null, over = !data.live, drawnLine = null;

/* ------------------------------------------------------------ the head and the banner */
function head() {
  $("title").textContent = data.title;
  document.title = `${data.title}: a turn, step by step`;
  const { holds, sentence } = data.verdict;
  $("verdict").textContent = `${holds === true ? "✓ " : holds === false ? "✗ " : ""}${sentence}`;
  $("verdict").className = `verdict ${holds === true ? "good" : holds === false ? "bad" : ""}`;
  $("pick").hidden = turns.length < 2;
  $("turns").replaceChildren(...turns.slice(0, MOST_TURNS_LISTED).map((each, place) => {
    const when = each.opening?.wall ? new Date(each.opening.wall * 1000).toISOString().replace("T", " ").slice(0, 19) : "no opening";
    return make("option", { value: place, text: `${place + 1}. ${each.end?.outcome ?? "no end"} · ${number(each.decisions.length)} decisions · ${when} · ${each.id.slice(0, 12)}` });
  }));
}
function banner() {
  const end = turn.end, running = data.live && !over && !end, last = turn.decisions.at(-1), spent = end?.exhausted;
  $("banner").className = `banner ${running ? "running" : end && end.outcome in ENDS ? end.outcome : ""}`;
  const outcome = end ? end.outcome[0].toUpperCase() + end.outcome.slice(1) : running ? "Running" : "No end";
  $("outcome").textContent = spent ? `${outcome}: ${spent.counter} spent, ${number(spent.value)} of ${number(spent.cap)}` : outcome;
  const parts = [];
  if (end) parts.push(ENDS[end.outcome] ?? "It ended.");
  else if (!last) parts.push(running ? "Nothing was decided yet." : "The trail holds no decision of this turn.");
  else parts.push(running ? `It stands in ${last.after}.` : `The trail stops in ${last.after}: the turn was killed, still ran, or its tail was cut off.`);
  const counter = spent && data.page.counters.find((each) => each.name === spent.counter);
  if (counter) parts.push(`${spent.counter} counts ${counter.counts}.`);
  if (end?.fault) parts.push(`Fault: ${faultWords(end.fault)}.`);
  if (end?.issuer) parts.push(`Asked by ${text(end.issuer)}${end.reason ? `: ${text(end.reason)}` : ""}.`);
  $("because").textContent = parts.join(" ");
  const why = Object.hasOwn(data.why, turn.id) ? data.why[turn.id] : [];
  $("why").hidden = !why.length;
  $("sentences").replaceChildren(...why.map((each) => make("li", { text: each })));
  const waited = turn.decisions.reduce((sum, each, i) => sum + (waitOf(each) ? turn.until(i) - turn.since(i) : 0), 0);
  const figures = [["decisions", number(turn.decisions.length)], ["lasted", seconds(turn.lasted)], ["of it waiting", seconds(waited)]];
  if (end) figures.push(["requests", number(end.llm_calls)]);
  $("figures").replaceChildren(...figures.map(([name, value]) => make("div", {}, make("dt", { text: name }), make("dd", { text: value }))));
}

/* ------------------------------------------------------------ the diagram */
const drawn = new Map();
function diagram() {
  const box = $("diagram");
  drawn.clear();
  box.replaceChildren($(`svg-${view}`).content.cloneNode(true));
  box.classList.toggle("full", view === "full");
  const svg = box.querySelector("svg");
  if (!svg) {
    box.append(make("p", { class: "missing", text: "There was no Graphviz to draw this when the page was made. Install fsm-loop[diagrams], or your system's graphviz, and make it again." }));
    return;
  }
  svg.setAttribute("role", "group");
  svg.setAttribute("aria-label", "States of the machine");
  for (const link of svg.querySelectorAll("a")) link.replaceWith(...link.childNodes);
  const owned = new Map();
  for (const [row, arrow] of Object.entries(data.page.arrows[view])) noted(owned, arrow, row);
  for (const node of svg.querySelectorAll("g.node, g.edge")) {
    if (node.id.startsWith("state-") || owned.has(node.id)) drawn.set(node.id, node);
    else node.classList.add("unowned");
    if (node.id.startsWith("state-")) pressable(node, node.id.slice(6));
    else if (owned.has(node.id)) {
      const rows = new Set(owned.get(node.id)), reach = node.querySelector("path").cloneNode();
      node.querySelector("title").textContent = [...rows].join("\n");
      reach.setAttribute("class", "reach");
      node.append(reach);
      node.addEventListener("click", () => pick(rows.size === 1 ? `row ${[...rows][0]}` : `${rows.size} rows of an arrow`, (d) => rows.has(d.row)));
    }
  }
  if (view === "overview") crop(svg);
  light();
}
function pressable(node, state) {
  const jump = () => pick(`state ${state}`, (d) => d.state === state || d.after === state);
  node.setAttribute("role", "button");
  node.setAttribute("tabindex", "0");
  node.querySelector("title").textContent = `${state}: it waits for ${sentenceOf.get(state) ?? "?"}`;
  node.addEventListener("click", jump);
  node.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); jump(); } });
}
/* The legend and the title stand outside; the states and arrows have the room. */
function crop(svg) {
  const graph = svg.querySelector(".graph"), boxes = [...drawn.values()].map((node) => node.getBBox());
  const { e, f } = graph.transform.baseVal.consolidate().matrix;
  const left = Math.min(...boxes.map((b) => b.x)), top = Math.min(...boxes.map((b) => b.y));
  const right = Math.max(...boxes.map((b) => b.x + b.width)), low = Math.max(...boxes.map((b) => b.y + b.height));
  svg.setAttribute("viewBox", `${left + e - 6} ${top + f - 6} ${right - left + 12} ${low - top + 12}`);
  svg.removeAttribute("width"); svg.removeAttribute("height");
}
function light() {
  const svg = $("diagram").querySelector("svg");
  if (!svg || !turn) return;
  const decision = turn.decisions[here], arrows = data.page.arrows[view], lit = new Set(), passed = new Set();
  for (const [row, [first]] of turn.rows) if (first <= here && Object.hasOwn(arrows, row)) lit.add(arrows[row]);
  for (const [state, [first]] of turn.states) if (first <= here) passed.add(state);
  const last = decision && Object.hasOwn(arrows, decision.row) ? arrows[decision.row] : null;
  if (decision) passed.add(decision.after);
  for (const [id, node] of drawn) {
    const state = id.startsWith("state-") ? id.slice(6) : null, now = state !== null && state === decision?.after;
    node.classList.toggle("lit", state ? passed.has(state) : lit.has(id));
    node.classList.toggle("now", now);
    node.classList.toggle("step", id === last);
    if (state) node.setAttribute("aria-label", `${state}: ${turn.states.get(state)?.length ?? 0} decisions${now ? ", the turn is here" : ""}`);
  }
  svg.querySelector(".jump")?.remove();
  if (!decision) return;
  const own = last !== null && (last.startsWith("row-") || last.startsWith(`rows-${decision.state}-`));
  const from = drawn.get(`state-${decision.state}`), to = drawn.get(`state-${decision.after}`);
  if (from && to && from !== to && !own) svg.querySelector(".graph").prepend(jumpLine(from.getBBox(), to.getBBox()));
  if (view === "full" && to) {
    const box = $("diagram").getBoundingClientRect(), at = to.getBoundingClientRect();
    $("diagram").scrollLeft += at.x + at.width / 2 - box.x - box.width / 2;
    $("diagram").scrollTop += at.y + at.height / 2 - box.y - box.height / 2;
  }
}
/* A move that the picture leaves out: a word that is heard everywhere, a state that answers as another one does. */
function jumpLine(a, b) {
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const [x1, y1, x2, y2] = [a.x + a.width / 2, a.y + a.height / 2, b.x + b.width / 2, b.y + b.height / 2];
  line.setAttribute("d", `M${x1},${y1} Q${(x1 + x2) / 2 + (y2 - y1) * 0.12},${(y1 + y2) / 2 - (x2 - x1) * 0.12} ${x2},${y2}`);
  line.setAttribute("class", "jump");
  return line;
}

/* ------------------------------------------------------------ one decision, in full */
const chip = (kind, words) => make("span", { class: `chip ${kind}`, text: words });
function chipsOfGuards(guards) {
  const told = [];
  for (const [name, answer] of guards) {
    const last = told.at(-1);
    if (last && last.name === name && last.answer === answer) last.times += 1;
    else told.push({ name, answer, times: 1 });
  }
  return told.map(({ name, answer, times }) => chip(answer ? "yes" : "", `${answer ? "✓" : "✗"} ${name}${times > 1 ? ` ×${times}` : ""}`));
}
const chipsOfMoves = (moved) => moved.map((m) => chip(m.after > m.before ? "spent" : "back", `${m.counter} ${number(m.before)}→${number(m.after)}${m.cap === null ? "" : ` of ${number(m.cap)}`}`));
function effectWords(effect) {
  if (effect.effect === "SetTimer") return `wait ${seconds(effect.delay_s)}${effect.reason ? `: ${text(effect.reason)}` : ""}`;
  const rest = Object.entries(effect).filter(([name, value]) => name !== "effect" && name !== "attempt" && value !== null);
  return `${effect.effect}${rest.length ? ` (${rest.map(([name, value]) => `${name} ${text(value)}`).join(", ")})` : ""}`;
}
const inShort = (e) => (e.effect === "SetTimer" ? effectWords(e) : [e.effect, ...[e.name, e.outcome, e.note, e.kind].filter(Boolean).map(text)].join(" "));
const chipsOfEffects = (effects, words) => effects.map((each) => chip(each.effect === "SetTimer" ? "wait" : "", words(each)));
const chipList = (chips) => make("ul", { class: "chips" }, ...chips.map((each) => make("li", {}, each)));
function step() {
  const d = turn.decisions[here], box = $("step");
  if (!d) { box.replaceChildren(make("p", { class: "said", text: "No decision yet." })); return; }
  const parts = [
    make("p", { class: "move" }, make("span", { text: d.state }), make("span", { class: "arrow", text: "→" }), make("span", { text: d.after }), make("span", { class: "num", text: `#${d.seq} · +${turn.since(here).toFixed(3)} s` })),
    make("p", { class: "said", text: `it waits for ${sentenceOf.get(d.after) ?? "…"}` }),
  ];
  const section = (title, ...content) => parts.push(make("h3", { text: title }), ...content);
  const fault = d.facts.fault, none = (words) => make("p", { class: "said", text: words });
  if (fault) parts.push(make("p", { class: "faulty", text: `Fault: ${faultWords(fault)}${fault.retry_after_s ? ` · asked to wait ${seconds(fault.retry_after_s)}` : ""}` }));
  section("Event and row", make("p", {}, make("code", { text: d.trigger })), make("p", { class: "said mono", text: d.row }));
  section("Guards, as asked", d.guards.length ? chipList(chipsOfGuards(d.guards)) : none("none were asked"));
  if (d.moved.length) section("Spent and refilled", chipList(chipsOfMoves(d.moved)));
  section("Effects", d.effects.length ? chipList(chipsOfEffects(d.effects, effectWords)) : none("nothing is to be done"));
  const facts = JSON.stringify(d.facts, null, 2);
  section("What the event said", make("pre", { text: facts.length > MOST_SHOWN_CHARS ? `${facts.slice(0, MOST_SHOWN_CHARS)}\n… ${facts.length - MOST_SHOWN_CHARS} more characters are in the trail` : facts }));
  parts.push(make("p", { class: "said mono", text: `hash ${d.hash}` }));
  box.replaceChildren(...parts);
  box.scrollTop = 0;
}

/* ------------------------------------------------------------ the counters */
function gauges() {
  const spent = turn.end?.exhausted, atEnd = here >= turn.decisions.length - 1, all = [...data.page.counters];
  for (const name of turn.moves.keys()) if (!all.some((each) => each.name === name)) all.push({ name, counts: "" });
  const touched = all.filter((each) => turn.moves.has(each.name) || each.name === spent?.counter);
  $("untouched").textContent = touched.length < all.length ? `${all.length - touched.length} more never moved` : "";
  $("gauges").replaceChildren(...touched.map((counter) => {
    const ended = counter.name === spent?.counter, told = turn.value(counter.name, here);
    const { value, cap } = ended && !turn.moves.has(counter.name) ? spent : told;
    const share = cap ? Math.min(1, value / cap) : cap === null ? 0 : 1, bar = make("i");
    bar.style.width = `${share * 100}%`;
    const level = cap === null ? "" : share >= 1 ? "full" : share >= 0.6 ? "high" : "";
    return make("li", { class: `${level} ${ended ? "ended" : ""} ${told.moved ? "moved" : ""}`, title: counter.counts },
      make("div", { class: "name" }, make("span", { text: counter.name }), make("span", { class: "num", text: `${ended && atEnd ? "ended it · " : ""}${number(value)}${cap === null ? ", no cap" : ` / ${number(cap)}`}` })),
      make("div", { class: "meter", "aria-hidden": "true" }, bar));
  }));
}

/* ------------------------------------------------------------ the time line */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const extent = () => (scale === "time" ? turn.lasted || 1 : turn.decisions.length || 1);
const placeOf = (i) => (scale === "time" ? turn.since(i) : i);
function hatched(c, ink, paper) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const t = tile.getContext("2d");
  t.fillStyle = paper; t.fillRect(0, 0, 6, 6);
  t.strokeStyle = ink; t.lineWidth = 1.5;
  for (const x of [-6, 0, 6]) { t.beginPath(); t.moveTo(x - 1, 7); t.lineTo(x + 7, -1); t.stroke(); }
  return c.createPattern(tile, "repeat");
}
function line() {
  const canvas = $("line"), width = canvas.clientWidth, dpr = window.devicePixelRatio || 1, lanes = turn.lanes;
  if (!width) return;
  const height = lanes.length * LANE_PX + 24, room = width - GUTTER_PX - 16, x = (v) => GUTTER_PX + (v / extent()) * room;
  canvas.style.height = `${height}px`;
  canvas.width = width * dpr; canvas.height = height * dpr;
  canvas.setAttribute("aria-label", `Time line: ${number(turn.decisions.length)} decisions in ${seconds(turn.lasted)}. The slider steps through them.`);
  const image = document.createElement("canvas");
  image.width = canvas.width; image.height = canvas.height;
  const c = image.getContext("2d"), [busy, wait, paper, bad, quiet, grid] = ["--accent", "--detour", "--warn-soft", "--bad", "--quiet", "--line"].map(colour);
  c.scale(dpr, dpr);
  c.font = "12px system-ui, sans-serif"; c.textBaseline = "middle"; c.textAlign = "right";
  lanes.forEach((state, lane) => {
    c.fillStyle = quiet; c.fillText(state, GUTTER_PX - 10, lane * LANE_PX + LANE_PX / 2);
    c.fillStyle = grid; c.fillRect(GUTTER_PX, lane * LANE_PX + LANE_PX - 1, room, 1);
  });
  const hatch = hatched(c, wait, paper);
  let waiting = false;
  turn.decisions.forEach((d, i) => {
    waiting = Boolean(waitOf(d)) || (waiting && d.state === d.after && d.trigger !== "timer_fired");
    if (i + 1 === turn.decisions.length && scale === "time") return;
    const from = x(placeOf(i)), wide = Math.max(x(scale === "time" ? turn.until(i) : i + 1) - from, 1.25), y = lanes.indexOf(d.after) * LANE_PX + 4;
    c.globalAlpha = waiting ? 1 : 0.75;
    c.fillStyle = waiting ? hatch : busy;
    c.fillRect(from, y, wide, LANE_PX - 9);
  });
  c.globalAlpha = 1; c.fillStyle = bad;
  turn.decisions.forEach((d, i) => {
    if (!d.facts.fault) return;
    c.beginPath(); c.arc(x(placeOf(i)), lanes.indexOf(d.state) * LANE_PX + LANE_PX / 2 - 0.5, 3.5, 0, 7); c.fill();
  });
  const most = Math.max(2, Math.min(10, Math.floor(room / 110))), unit = 10 ** Math.floor(Math.log10(extent() / most));
  const by = Math.max(scale === "step" ? 1 : 0, unit * [1, 2, 5, 10].find((each) => unit * each * most >= extent() * 0.999));
  c.fillStyle = quiet; c.textAlign = "center";
  for (let n = 0; n * by <= extent() * 1.0001; n += 1) {
    const at = x(n * by);
    c.fillRect(at, lanes.length * LANE_PX, 1, 4);
    c.fillText(scale === "time" ? seconds(+(n * by).toPrecision(6)) : number(Math.round(n * by)), Math.min(at, width - 36), lanes.length * LANE_PX + 14);
  }
  drawnLine = { image, x, room, dpr, height };
  cursor();
}
function cursor() {
  if (!drawnLine || !turn.decisions.length) return;
  const { image, x, dpr, height } = drawnLine, c = $("line").getContext("2d"), at = x(placeOf(here));
  c.setTransform(1, 0, 0, 1, 0, 0);
  c.clearRect(0, 0, image.width, image.height);
  c.drawImage(image, 0, 0);
  c.scale(dpr, dpr);
  c.fillStyle = colour("--text"); c.fillRect(at - 0.75, 0, 1.5, height - 20);
  c.beginPath(); c.arc(at, turn.lanes.indexOf(turn.decisions[here].after) * LANE_PX + LANE_PX / 2 - 0.5, 5, 0, 7); c.fill();
  c.strokeStyle = colour("--panel"); c.lineWidth = 2; c.stroke();
}
function seek(event) {
  if (!drawnLine || !turn.decisions.length) return;
  const v = ((event.offsetX - GUTTER_PX) / drawnLine.room) * extent();
  let low = 0, high = turn.decisions.length - 1;
  while (low < high) { const mid = (low + high + 1) >> 1; if (placeOf(mid) <= v) low = mid; else high = mid - 1; }
  go(low);
}

/* ------------------------------------------------------------ the table: only what is in sight is there */
function find() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean), [, test] = SHOW[$("filter").value] ?? SHOW.all;
  shown = [];
  turn.decisions.forEach((d, i) => { if (test(d) && (!picked || picked.test(d)) && words.every((word) => turn.words(i).includes(word))) shown.push(i); });
  const all = turn.decisions.length;
  $("found").textContent = shown.length === all ? number(all) : `${number(shown.length)} of ${number(all)}`;
  $("none").hidden = shown.length > 0;
  $("table").hidden = shown.length === 0;
  $("clear").hidden = !picked;
  $("clear").textContent = picked ? `${picked.name} ✕` : "";
  $("table").setAttribute("aria-rowcount", shown.length + 1);
  $("tall").style.height = `${shown.length * ROW_PX}px`;
  rows();
}
function rows() {
  const box = $("rows"), first = Math.max(0, Math.floor(box.scrollTop / ROW_PX) - 4), last = Math.min(shown.length, first + Math.ceil(box.clientHeight / ROW_PX) + 9);
  $("tall").replaceChildren(...Array.from({ length: Math.max(0, last - first) }, (_, n) => tableRow(shown[first + n], first + n)));
}
function tableRow(i, place) {
  const d = turn.decisions[i], fault = d.facts.fault, cell = (kind, ...content) => make("span", { role: "cell", class: kind }, ...content);
  const row = make("div", { role: "row", class: `row${i === here ? " here" : ""}${fault ? " faulted" : ""}`, "aria-rowindex": place + 2 },
    cell("num", String(d.seq)), cell("num", `+${turn.since(i).toFixed(3)}`),
    cell("", d.state, make("span", { class: "to", text: d.state === d.after ? "" : ` → ${d.after}` })), make("span", { role: "cell", text: d.trigger, title: d.row }),
    cell("", ...chipsOfGuards(d.guards).reverse()), cell("", ...chipsOfMoves(d.moved)),
    cell("", ...(fault ? [chip("fault", faultWords(fault))] : []), ...chipsOfEffects(d.effects, inShort)));
  row.style.top = `${place * ROW_PX}px`;
  if (i === here) row.setAttribute("aria-current", "step");
  row.addEventListener("click", () => go(i));
  return row;
}
function inSight() {
  const place = atMost(shown, here) - 1, box = $("rows"), top = place * ROW_PX;
  if (place < 0 || shown[place] !== here) return;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + ROW_PX > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW_PX - box.clientHeight;
}
function pick(name, test) {
  picked = { name, test };
  $("search").value = ""; $("filter").value = "all";
  find();
  go(shown.includes(here) || !shown.length ? here : shown.find((i) => i > here) ?? shown[0]);
}

/* ------------------------------------------------------------ steps */
function go(i) {
  const count = turn.decisions.length;
  here = Math.max(0, Math.min(count - 1, i));
  const d = turn.decisions[here];
  $("slider").max = Math.max(0, count - 1); $("slider").value = here; $("slider").disabled = count === 0;
  $("slider").setAttribute("aria-valuetext", d ? `decision ${here + 1} of ${count}: ${d.state} to ${d.after}` : "no decision");
  $("where").textContent = d ? `${number(here + 1)} / ${number(count)} · +${seconds(turn.since(here))}` : "no decision";
  $("first").disabled = $("back").disabled = here <= 0;
  $("next").disabled = $("last").disabled = here >= count - 1;
  light(); step(); gauges(); cursor(); inSight(); rows();
}
function open(place) {
  turn = turns[place] ?? new Turn({ id: "" });
  picked = null; $("search").value = "";
  const options = Object.entries(SHOW).filter(([name, [, test]]) => name === "all" || data.live || turn.decisions.some(test));
  $("filter").replaceChildren(...options.map(([name, [words]]) => make("option", { value: name, text: words })));
  here = Math.max(0, turn.decisions.length - 1);
  banner(); line(); find(); go(here);
}
const KEYS = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const at = event.target, typing = at.matches("input[type=search], select");
  if (event.key === "/" && !typing) { event.preventDefault(); $("search").focus(); return; }
  if (event.key === "Escape") { if (at === $("search")) at.value = ""; picked = null; find(); go(here); return; }
  const sideways = event.key === "ArrowLeft" || event.key === "ArrowRight";
  if (typing || !(event.key in KEYS) || !(sideways || at === document.body || at.closest("#rows, #slider"))) return;
  if (at === document.body && !sideways && event.key !== "Home" && event.key !== "End") return;
  event.preventDefault();
  const narrowed = shown.length > 0 && shown.length < turn.decisions.length && at.closest("#rows");
  go(narrowed ? shown[Math.max(0, Math.min(shown.length - 1, atMost(shown, here) - 1 + KEYS[event.key]))] : here + KEYS[event.key]);
});
$("first").addEventListener("click", () => go(0));
$("back").addEventListener("click", () => go(here - 1));
$("next").addEventListener("click", () => go(here + 1));
$("last").addEventListener("click", () => go(Infinity));
$("slider").addEventListener("input", () => go($("slider").valueAsNumber));
$("turns").addEventListener("change", () => open(Number($("turns").value)));
for (const [id, name] of [["search", "input"], ["filter", "change"]]) $(id).addEventListener(name, () => { find(); inSight(); rows(); });
$("clear").addEventListener("click", () => { picked = null; find(); go(here); $("search").focus(); });
$("rows").addEventListener("scroll", rows, { passive: true });
$("line").addEventListener("pointerdown", (event) => { $("line").setPointerCapture(event.pointerId); seek(event); });
$("line").addEventListener("pointermove", (event) => { if (event.buttons) seek(event); });
function switches(name, act) {
  const buttons = [...document.querySelectorAll(`[data-${name}]`)];
  for (const button of buttons) {
    button.addEventListener("click", () => { buttons.forEach((each) => each.setAttribute("aria-pressed", String(each === button))); act(button.dataset[name]); });
  }
}
switches("view", (value) => { view = value; diagram(); });
switches("scale", (value) => { scale = value; line(); });
window.addEventListener("resize", () => line());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => line());

/* ------------------------------------------------------------ a turn that still runs */
function follow() {
  const source = new EventSource("events");
  let due = false;
  const later = () => { if (!due) { due = true; setTimeout(() => { due = false; banner(); line(); find(); go(here); }, REDRAWN_EVERY_MS); } };
  const finish = (sentence) => { over = true; source.close(); data.verdict = { holds: null, sentence }; head(); later(); };
  source.addEventListener("record", (event) => {
    const { kind, turn: id, record } = JSON.parse(event.data);
    let known = turns.find((each) => each.id === id);
    if (!known) { known = new Turn({ id }); turns.push(known); open(turns.length - 1); }
    const atEnd = here >= turn.decisions.length - 1;
    if (kind === "decision") known.add(record); else known[kind] = record;
    if (known === turn && atEnd) here = Math.max(0, turn.decisions.length - 1);
    if (kind !== "decision") head();
    later();
  });
  source.addEventListener("over", () => finish("the turn is over; this page no longer changes"));
  source.addEventListener("error", () => { if (!over) finish("the connection was lost; what came so far stands here"); });
}
head();
open(0);
diagram();
if (data.live) follow();
document.documentElement.dataset.ready = "yes";

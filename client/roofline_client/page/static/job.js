// One job. What is picked (steps, ranks) stands in the address, and is what the server is asked for.
"use strict";

const verdict = document.getElementById("verdict");
const job = verdict.dataset.job;
const NAMES = ["account", "roofline", "steps", "late"];
const form = document.getElementById("pick");
const now = document.getElementById("now");  // of the newest steps: not beside a pick
const OF_A_PICK = ["verdict", "account", "roofline", "late"];
const OF_FEED = { verdict: ["verdict", "account"], roofline: ["roofline"], late: ["late"], refused: OF_A_PICK };
let pictures = {};
let picked = read();
let picks = 0;  // so far, also those that could not be
let missing = new Set(OF_A_PICK);  // of what is picked: what is there is of something else

function read() {
  const asked = new URLSearchParams(location.search);
  return { steps: asked.get("steps") || "", ranks: asked.get("ranks") || "" };
}

function query() {
  const asked = new URLSearchParams({ job });
  for (const [name, value] of Object.entries(picked)) {
    if (value) asked.set(name, value);
  }
  return asked.toString();
}

function edges() {
  if (!picked.steps) return null;
  if (picked.steps === "all") return ["", ""];
  const [first, last] = picked.steps.includes(":") ? picked.steps.split(":") : [picked.steps, picked.steps];
  return [first, last];
}

// What stands over the step times: a band where steps are picked.
function band(figure) {
  const found = edges();
  if (!found) return figure;
  const x = figure.data.flatMap((line) => [line.x[0], line.x.at(-1)]);
  const place = { x0: found[0] === "" ? Math.min(...x) : +found[0] - 0.5, x1: found[1] === "" ? Math.max(...x) : +found[1] + 0.5 };
  const shape = { type: "rect", xref: "x", yref: "paper", y0: 0, y1: 1, ...place, fillcolor: "rgba(0,114,178,0.18)", line: { width: 1, color: "#0072B2" } };
  return { ...figure, layout: { ...figure.layout, shapes: [...(figure.layout.shapes || []), shape] } };
}

// Pictures that are to be drawn: one a frame, so that what somebody does is seen first. While the mouse is down steps
// are being picked: a picture that is drawn anew would end that.
const due = new Set();
let pressed = false;
let drawing = false;
window.addEventListener("pointerdown", () => { pressed = true; }, true);
for (const end of ["pointerup", "pointercancel", "blur"]) {
  window.addEventListener(end, () => {
    pressed = false;
    drawAll([]);
  }, true);
}

function drawAll(names) {
  names.forEach((name) => due.add(name));
  if (drawing || pressed || !due.size) return;
  drawing = true;
  afterFrames(1, () => {
    drawing = false;
    const [name] = due;
    if (!pressed && due.delete(name) && pictures[name]) {
      // Another pick begins with all of what is picked in sight.
      const revision = name === "late" ? `${job} ${picks}` : job;
      draw(name, name === "steps" ? band(pictures[name]) : pictures[name], revision).then(listen);
    }
    drawAll([]);
  });
}

function pick(change) {
  picked = { ...picked, ...change };
  history.pushState(null, "", "?" + query());
  ask();
}

// At once what the browser knows, the rest when the server has answered.
function ask() {
  due.clear();  // of what was picked before; all of it comes again
  missing = new Set(OF_A_PICK);
  picks += 1;
  verdict.setAttribute("aria-busy", "true");
  // Plotly measures texts: what else of the page has changed before would be laid out then.
  if (pictures.steps && document.getElementById("steps").on) {
    Plotly.relayout("steps", { "xaxis.autorange": true, shapes: band(pictures.steps).layout.shapes || [] });
  }
  describe();
  document.querySelectorAll(".of-steps").forEach((one) => one.classList.add("waits"));
  const asked = picked;
  const still = (task) => () => { if (asked === picked) task(); };
  afterFrames(2, still(() => { reopen(); afterFrames(1, still(zoomLate)); }));
}

function zoomLate() {
  const found = edges();
  const isDrawn = pictures.late && document.getElementById("late").on;
  if (!isDrawn || !found || found[0] === "" || found[1] === "") return;
  Plotly.relayout("late", { "xaxis.range": [+found[0] - 0.5, +found[1] + 0.5] });
}

function describe() {
  const found = edges();
  form.elements.first.value = found ? found[0] : "";
  form.elements.last.value = found ? found[1] : "";
  form.elements.group.value = picked.ranks;
  now.hidden = !now.innerHTML || picked.steps !== "";
  const words = (picked.steps ? `steps ${picked.steps}` : "steady steps") + (picked.ranks ? `, ranks ${picked.ranks} in the picture of who is late` : "");
  document.getElementById("picked").textContent = words;
  const steps = picked.steps ? ` --steps ${picked.steps}` : "";
  document.getElementById("command").textContent = `roofline-client report --job ${quoted(job)}${steps}`;
  for (const link of document.querySelectorAll("a[data-of]")) {
    const asked = new URLSearchParams({ [link.dataset.of]: job });
    if (picked.steps) asked.set("steps", picked.steps);
    link.href = link.pathname + "?" + asked;
  }
}

function quoted(word) {
  return /^[\w./:@-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";
}

function showsPick(name) {
  missing.delete(name);
  awaitsNoMore(name);
  if (name !== "verdict") sayInstead(name, "");
}

function fails(name, problem) {
  awaitsNoMore(name);
  if (name === "verdict") {
    verdict.textContent = document.getElementById("headline").textContent = problem;
    return;
  }
  delete pictures[name];
  document.getElementById(`${name}-table`).replaceChildren();
  sayInstead(name, problem);
}

function awaitsNoMore(name) {
  const place = document.getElementById(name);
  place.removeAttribute("aria-busy");
  place.closest(".of-steps")?.classList.remove("waits");
}

// In place of a picture.
function sayInstead(name, problem) {
  const words = document.getElementById(`${name}-problem`);
  words.textContent = problem;
  words.hidden = !problem;
  document.getElementById(name).hidden = problem !== "";
}

const reopen = follow(() => "/events/job?" + query(), (shown) => {
  for (const of of ["of", "roofline_of"]) {
    if (of in shown && shown[of] !== picked.steps) return;  // of what was picked before
  }
  if ("verdict" in shown) {
    if (verdict.innerHTML !== shown.verdict) verdict.innerHTML = shown.verdict;  // escaped by the server
    const headline = document.getElementById("headline");
    if (headline.textContent !== shown.headline) headline.textContent = shown.headline;
    document.getElementById("state").textContent = shown.state;
    showsPick("verdict");
  }
  if ("now" in shown) {
    if (now.innerHTML !== shown.now) now.innerHTML = shown.now;  // escaped by the server
    now.hidden = !shown.now || picked.steps !== "";
  }
  if ("groups" in shown) offerGroups(shown.groups);
  if ("late_of" in shown && shown.late_of !== `${picked.steps}/${picked.ranks}`) {
    delete shown.pictures.late;
    delete shown.tables.late;
  }
  Object.keys(shown.pictures).forEach(showsPick);
  pictures = { ...pictures, ...shown.pictures };
  for (const [name, table] of Object.entries(shown.tables)) {
    document.getElementById(`${name}-table`).innerHTML = table;  // escaped by the server
  }
  drawAll(Object.keys(shown.pictures));
  document.body.classList.add("known");
  document.body.classList.remove("unknown");
  form.hidden = false;
}, (problem, feed) => {
  const known = document.body.classList.contains("known");
  for (const name of known ? OF_FEED[feed] || [] : OF_A_PICK) {
    if (missing.has(name)) fails(name, problem);  // elsewhere what was seen last stays
  }
  if (known) return;
  document.body.classList.add("unknown");
  form.hidden = !picked.steps && !picked.ranks;  // an impossible pick can be made another one
  document.getElementById("link").textContent = "";
});

// Of many ranks the picture shows groups: each can be opened without a mouse, too.
function offerGroups(groups) {
  const { group } = form.elements;
  group.parentElement.hidden = document.getElementById("late-hint").hidden = !groups.length;
  if (groups.map(([, range]) => range).join() === [...group.options].slice(1).map((one) => one.value).join()) return;
  group.replaceChildren(group.options[0], ...groups.map(([name, range]) => new Option(name, range)));
  group.value = picked.ranks;
}

let listening = false;
function listen() {
  const steps = document.getElementById("steps");
  const late = document.getElementById("late");
  if (listening || !steps.on || !late.on) return;
  listening = true;
  // What is dragged over is a pick, not a zoom: all steps stay in sight.
  steps.on("plotly_relayout", (event) => {
    const [first, last] = [event["xaxis.range[0]"], event["xaxis.range[1]"]];
    if (first === undefined || last === undefined) return;
    pick({ steps: `${Math.max(0, Math.ceil(first))}:${Math.max(0, Math.ceil(first), Math.floor(last))}` });
  });
  steps.on("plotly_doubleclick", () => { if (picked.steps) pick({ steps: "" }); });
  late.on("plotly_click", (event) => {
    const row = pictures.late.data[0].customdata[event.points[0].pointIndex[0]];
    if (row[1] > row[0]) pick({ ranks: `${row[0]}:${row[1]}` });
  });
}

form.elements.group.addEventListener("change", (event) => pick({ ranks: event.target.value }));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  const { first, last } = form.elements;
  pick({ steps: first.value || last.value ? `${first.value}:${last.value}` : "" });
});
document.getElementById("all").addEventListener("click", () => pick({ steps: "", ranks: "" }));
window.addEventListener("popstate", () => { picked = read(); ask(); });
dark.addEventListener("change", () => drawAll(NAMES));
document.getElementById("copy").addEventListener("click", () => {
  navigator.clipboard.writeText(document.getElementById("command").textContent);
});
document.querySelectorAll("button[data-png]").forEach((button) => {
  button.addEventListener("click", () => keepPicture(button.dataset.png, `${button.dataset.png}-${job}`));
});
describe();

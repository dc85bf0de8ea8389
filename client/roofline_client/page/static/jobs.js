// The list of jobs; what is searched for stands in the address.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const MOST_NAMES = 3;
const form = document.querySelector("form.filter");
const { find, experiment, tag, running } = form.elements;
let jobs = [];

function cell(text, name) {
  const made = document.createElement("td");
  made.textContent = text;
  made.className = name || "";
  return made;
}

function linked(text, address) {
  const link = document.createElement("a");
  link.href = address;
  link.textContent = text;
  return link;
}

// Speed over the job's steps, from left to right; what is not known leaves a hole.
function sparkline(numbers) {
  const made = document.createElementNS(SVG, "svg");
  const known = numbers.filter((one) => one !== null);
  if (known.length < 2) return made;
  const most = Math.max(...known);
  made.setAttribute("viewBox", `0 0 ${numbers.length - 1} 20`);
  made.setAttribute("preserveAspectRatio", "none");
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", `from ${known[0].toPrecision(3)} to ${known.at(-1).toPrecision(3)} steps/s, at most ${most.toPrecision(3)}`);
  const path = document.createElementNS(SVG, "path");
  let pen = "M";
  let way = "";
  numbers.forEach((one, at) => {
    way += one === null ? "" : `${pen}${at} ${(19 - 18 * one / most).toFixed(1)}`;
    pen = one === null ? "M" : "L";
  });
  path.setAttribute("d", way);
  made.append(path);
  return made;
}

function row(job) {
  const made = document.createElement("tr");
  const name = cell("");
  name.className = "name";
  name.title = job.job;
  name.append(linked(job.job, "/job?job=" + encodeURIComponent(job.job)));
  const verdict = cell(job.verdict, "said " + job.kind);
  verdict.title = job.headline;
  const hosts = cell(few(job.hosts));
  hosts.title = job.hosts;
  const speed = cell(job.speed, "number");
  const course = cell("", "sparks");
  const line = sparkline(job.sparks);
  if (line.hasChildNodes()) course.append(line);
  made.append(
    name, cell(job.state, job.running ? "running" : ""), verdict, speed, course, cell(job.roles),
    hosts, cell(job.user), cell(job.begun), cell(job.lasted, "number"), cell(tagsOf(job).join(", "), "tags"));
  return made;
}

// A thousand names in one line would put all columns behind them out of sight.
function few(names) {
  const all = names.split(", ");
  return all.length > MOST_NAMES ? `${all.slice(0, MOST_NAMES - 1).join(", ")} and ${all.length - MOST_NAMES + 1} more` : names;
}

function tagsOf(job) {
  return Object.entries(job.tags).map(([name, value]) => `${name}=${value}`);
}

function matches(job) {
  const text = [...Object.values(job), ...tagsOf(job)].join(" ").toLowerCase();
  const wanted = find.value.toLowerCase().split(/\s+/);
  return (job.running || !running.checked)
    && (!experiment.value || job.tags.experiment === experiment.value)
    && (!tag.value || tagsOf(job).includes(tag.value))
    && wanted.every((word) => text.includes(word));
}

// Keeps what is chosen, also where no job has it now.
function offer(select, values) {
  const all = [...new Set([...values, select.value].filter(Boolean))].sort();
  if (all.join("\n") === [...select.options].slice(1).map((one) => one.value).join("\n")) return;
  const chosen = select.value;
  select.replaceChildren(select.options[0], ...all.map((value) => new Option(value, value)));
  select.value = chosen;
}

function show() {
  offer(experiment, jobs.map((job) => job.tags.experiment));
  offer(tag, jobs.flatMap(tagsOf));
  const at = document.activeElement && document.activeElement.href;
  const found = jobs.filter(matches).map(row);
  const none = document.createElement("tr");
  none.append(cell(jobs.length ? "no job is like this" : "no jobs yet: start roofline-agent on the nodes and a training"));
  none.firstChild.colSpan = 11;
  document.getElementById("jobs").replaceChildren(...(found.length ? found : [none]));
  if (at) [...document.querySelectorAll("#jobs a")].find((link) => link.href === at)?.focus();
  const way = document.getElementById("trajectory");
  way.hidden = !experiment.value;
  way.href = "/trajectory?" + new URLSearchParams({ experiment: experiment.value, over: "ranks" });
}

function keep() {
  const asked = new URLSearchParams();
  for (const one of [find, experiment, tag]) {
    if (one.value) asked.set(one.name, one.value);
  }
  if (running.checked) asked.set("running", "1");
  history.replaceState(null, "", "?" + asked);
  show();
}

const asked = new URLSearchParams(location.search);
for (const one of [experiment, tag]) {
  const value = asked.get(one.name);
  if (value) one.add(new Option(value, value, true, true));
}
find.value = asked.get("find") || "";
running.checked = asked.get("running") === "1";
form.addEventListener("input", keep);
form.addEventListener("submit", (event) => event.preventDefault());
follow(() => "/events/jobs", (shown) => {
  jobs = shown.jobs;
  const count = (number) => number.toLocaleString("en");
  const left = document.getElementById("left-out");
  left.hidden = shown.known <= jobs.length;
  left.textContent = `The newest ${count(jobs.length)} of ${count(shown.known)} jobs; others are not searched.`;
  show();
});

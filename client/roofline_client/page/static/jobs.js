// The list of jobs; what is searched for stands in the address.
"use strict";

const words = document.getElementById("find");
const running = document.getElementById("running");
let jobs = [];

function cell(text, name) {
  const made = document.createElement("td");
  made.textContent = text;
  made.className = name || "";
  return made;
}

function row(job) {
  const made = document.createElement("tr");
  const link = document.createElement("a");
  link.href = "/job?job=" + encodeURIComponent(job.job);
  link.textContent = job.job;
  const first = cell("");
  first.append(link);
  made.append(
    first, cell(job.state, job.running ? "running" : ""), cell(job.verdict, "said " + job.kind),
    cell(job.speed, "number"), cell(job.roles), cell(job.hosts), cell(job.begun), cell(job.lasted, "number"),
    cell(job.tags));
  return made;
}

function matches(job) {
  const text = Object.values(job).join(" ").toLowerCase();
  const wanted = words.value.toLowerCase().split(/\s+/);
  return (job.running || !running.checked) && wanted.every((word) => text.includes(word));
}

function show() {
  const found = jobs.filter(matches).map(row);
  const none = document.createElement("tr");
  none.append(cell(jobs.length ? "no job is like this" : "no jobs yet: start roofline-agent on the nodes and a training"));
  none.firstChild.colSpan = 9;
  document.getElementById("jobs").replaceChildren(...(found.length ? found : [none]));
}

function keep() {
  const asked = new URLSearchParams();
  if (words.value) asked.set("find", words.value);
  if (running.checked) asked.set("running", "1");
  history.replaceState(null, "", "?" + asked);
  show();
}

const asked = new URLSearchParams(location.search);
words.value = asked.get("find") || "";
running.checked = asked.get("running") === "1";
words.addEventListener("input", keep);
running.addEventListener("change", keep);
document.querySelector("form.filter").addEventListener("submit", (event) => event.preventDefault());
follow("/events/jobs", (shown) => { jobs = shown.jobs; show(); });

// Opens the timeline in Perfetto's own page, by the messages it knows (perfetto.dev/docs/visualization/deep-linking);
// without Internet the timeline is kept as a file.
"use strict";

const PERFETTO = "https://ui.perfetto.dev";
const PATIENCE_MS = 8000;

document.getElementById("perfetto").addEventListener("click", (event) => {
  event.preventDefault();
  const link = event.currentTarget;
  const say = (words) => { document.getElementById("link").textContent = words; };
  const other = window.open(PERFETTO);
  say("making the timeline …");
  const trace = fetch(link.href).then((answer) => {
    if (!answer.ok) return answer.json().then((problem) => { throw new Error(problem.error); });
    return answer.arrayBuffer();
  });
  const keep = () => {
    say("Perfetto's page does not answer: the timeline is kept as a file; open it at ui.perfetto.dev");
    location.href = link.href;
  };
  const asks = other && setInterval(() => other.postMessage("PING", PERFETTO), 100);
  const patience = setTimeout(() => { clearInterval(asks); keep(); }, other ? PATIENCE_MS : 0);
  trace.then(() => say("")).catch((problem) => { clearInterval(asks); clearTimeout(patience); say(problem.message); });
  window.addEventListener("message", function answered(message) {
    if (message.origin !== PERFETTO || message.data !== "PONG") return;
    window.removeEventListener("message", answered);
    clearInterval(asks);
    clearTimeout(patience);
    trace.then((buffer) => other.postMessage({ perfetto: { buffer, title: link.dataset.title } }, PERFETTO));
  });
});

// Follows the events of the server, says when it is away, and goes on by itself when it is back.
"use strict";

const clock = (time) => new Date(time).toTimeString().slice(0, 8);

// What feeds show whose last question failed: of when that is, where something is shown, and why.
function notNew(errors) {
  const oldest = {};  // by reason: feeds, and the time of the oldest answer
  for (const [feed, { error, answered_ms: time }] of Object.entries(errors)) {
    const found = (oldest[error] ||= { feeds: [], time: Infinity });
    if (!time) continue;
    found.feeds.push(feed);
    found.time = Math.min(found.time, time);
  }
  return Object.entries(oldest).map(([error, { feeds, time }]) =>
    feeds.length ? `${feeds.join(", ")} as of ${clock(time)}, as the last question failed: ${error}` : error).join("; ");
}

// address: a function, so that another question can be asked: call what is returned. fail: told why there is no
// answer, and of which feed.
function follow(address, show, fail) {
  const link = document.getElementById("link");
  let source;
  let shows = false;
  let since = 0;  // when the events ended, of which the last may still be in sight
  const end = () => { if (shows && !since) since = Date.now(); };
  const open = () => {
    if (source) source.close();
    // Nobody looks at a hidden tab; and a browser holds six streams of one page open at most.
    if (document.hidden) return end();
    source = new EventSource(address());
    let errors = {};  // by feed, whose name is the event's id: a feed sends only what has changed
    source.onopen = () => { errors = {}; since = 0; link.textContent = ""; };
    source.onerror = () => {
      end();
      const old = since ? `; what is shown is of ${clock(since)}` : "";
      link.textContent = `the server is away; trying again${old}`;
      if (source.readyState === EventSource.CLOSED) {  // the browser has given up, as after a 401
        setTimeout(() => location.reload(), 5000);
      }
    };
    source.onmessage = (event) => {
      const shown = JSON.parse(event.data);
      if (shown.error) errors[event.lastEventId] = shown;
      else delete errors[event.lastEventId];
      link.textContent = notNew(errors);
      if (shown.error) return fail && fail(shown.error, event.lastEventId);
      shows = true;
      show(shown);
    };
  };
  document.addEventListener("visibilitychange", open);
  open();
  return open;
}

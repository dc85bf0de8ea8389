// Follows the events of the server, says when it is away, and goes on by itself when it is back.
"use strict";

// address: a function, so that another question can be asked: call what is returned. fail: told why there is no
// answer, and of which feed.
function follow(address, show, fail) {
  const link = document.getElementById("link");
  let source;
  const open = () => {
    if (source) source.close();
    // Nobody looks at a hidden tab; and a browser holds six streams of one page open at most.
    if (document.hidden) return;
    source = new EventSource(address());
    let errors = {};  // by feed, whose name is the event's id: a feed sends only what has changed
    source.onopen = () => { errors = {}; link.textContent = ""; };
    source.onerror = () => {
      link.textContent = "the server is away; trying again";
      if (source.readyState === EventSource.CLOSED) {  // the browser has given up, as after a 401
        setTimeout(() => location.reload(), 5000);
      }
    };
    source.onmessage = (event) => {
      const shown = JSON.parse(event.data);
      errors[event.lastEventId] = shown.error;
      link.textContent = [...new Set(Object.values(errors))].filter(Boolean).join("; ");
      if (!shown.error) show(shown);
      else if (fail) fail(shown.error, event.lastEventId);
    };
  };
  document.addEventListener("visibilitychange", open);
  open();
  return open;
}

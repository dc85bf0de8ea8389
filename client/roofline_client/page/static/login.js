// A code behind the # of the address is never sent by the browser itself: it goes into the form.
"use strict";

const code = location.hash.slice(1);
if (code) {
  history.replaceState(null, "", location.pathname);
  const form = document.querySelector("form.login");
  form.elements.token.value = code;
  form.submit();
}

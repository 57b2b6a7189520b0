// The log-in form: no token stays in the address or in the history, and the page that was open is
// the one that comes back.

const { hash } = location;

history.replaceState(null, "", `${location.pathname}${hash}`);
document.getElementById("login-form").action = `/login${hash}`;
document.getElementById("look").href = `/${hash}`;

// The log-in form: no token stays in the address or in the history, and the page that was open is
// the one that comes back.

const { hash } = location;
const byId = (id) => document.getElementById(id);

history.replaceState(null, "", `/login${hash}`);
byId("login-form").action = `/login${hash}`;
byId("look").href = `/${hash}`;
const provider = byId("provider");
if (provider) provider.href = `/login/oidc?at=${encodeURIComponent(hash)}`;

try {
  const { role } = await (await fetch("/api/v1/session")).json();
  byId("look").hidden = role === null; // it would lead back here
} catch {
  // the form works all the same
}

// Before the first paint: the colours that were chosen here, if any. Else the system's hold.
document.documentElement.dataset.theme = (() => {
  try {
    return localStorage.getItem("domo-theme") ?? "auto";
  } catch {
    return "auto"; // the browser keeps nothing
  }
})();

// Before the first paint: the colours that were chosen here, if any. Else the system's hold.
document.documentElement.dataset.theme = localStorage.getItem("domo-theme") ?? "auto";

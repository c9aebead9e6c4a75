// Light, dark, or as the system has it. It runs before the page is drawn, so that nothing flashes.

{
  const known = ["light", "dark"];
  const kept = () => {
    try {
      return localStorage.getItem("culm-theme");
    } catch {
      return null; // forbidden: then it is as the system has it
    }
  };
  const apply = (theme) => {
    if (known.includes(theme)) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  };
  apply(kept());
  addEventListener("DOMContentLoaded", () => {
    const chosen = document.getElementById("theme");
    chosen.value = document.documentElement.dataset.theme ?? "system";
    chosen.addEventListener("change", () => {
      apply(chosen.value);
      try {
        localStorage.setItem("culm-theme", chosen.value);
      } catch {
        /* forbidden: it is forgotten with the page */
      }
    });
  });
}

// Dark, light, or as the system has it; kept for the next visit, where the browser lets us.

const KEY = "kiln-theme";
const CHOICES = ["system", "light", "dark"];

function stored() {
  try {
    return CHOICES.includes(localStorage.getItem(KEY)) ? localStorage.getItem(KEY) : "system";
  } catch {
    return "system"; // a browser that keeps nothing
  }
}

let chosen = stored();

export const theme = () => chosen;

export function applyTheme() {
  document.documentElement.dataset.theme = chosen;
}

export function nextTheme() {
  chosen = CHOICES[(CHOICES.indexOf(chosen) + 1) % CHOICES.length];
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // It holds until the page is closed.
  }
  applyTheme();
}

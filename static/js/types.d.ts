// What scripts of others put on the window.

interface Window {
  Plotly?: any;
  htmx?: any;
}

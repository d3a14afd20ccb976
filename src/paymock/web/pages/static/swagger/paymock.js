// Swagger UI is dark under this class; the page follows the system, also when that changes.
const dark = matchMedia("(prefers-color-scheme: dark)");
const followSystem = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followSystem);
followSystem();

// The documents are fixed here: `?url=` and `?configUrl=` must never make this page load somebody else's.
const control = location.pathname === "/swagger/control/";
document.querySelector(`.documents a[href="${location.pathname}"]`)?.setAttribute("aria-current", "page");
SwaggerUIBundle({
  url: control ? "/_mock/openapi.yaml" : "/openapi.yaml",
  dom_id: "#swagger-ui",
  presets: [SwaggerUIBundle.presets.apis],
  queryConfigEnabled: false,
  validatorUrl: null,
  deepLinking: true,
  docExpansion: "list",
  tryItOutEnabled: true,
  persistAuthorization: false,
});

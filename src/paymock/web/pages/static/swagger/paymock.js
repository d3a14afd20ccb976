// Swagger UI with the API key of the open sandbox, new idempotency keys, and names for its unnamed controls.

import { apiKey, keep, key, randomKey, root, sandboxName } from "../assets/api.js";

const SCHEME = "apiKey", HEADER = "Idempotency-Key", NEW = "a new key";

// Swagger UI is dark under this class; the page follows the system, also when that changes.
const dark = matchMedia("(prefers-color-scheme: dark)");
const followSystem = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followSystem);
followSystem();

const openKey = document.getElementById("open-key")?.value;
if (!key() && openKey) keep(openKey);

const showSandbox = () => {
  document.getElementById("sandbox").textContent = key() ? `Sandbox ${sandboxName(key())}` : "No sandbox is open: press Authorize.";
};
showSandbox();

/** The header in an operation whose value was generated here, by path and method. */
const generated = new Map();

const plugin = () => ({
  statePlugins: {
    auth: {
      wrapActions: {
        authorize: (original) => (entered) => {
          keep(entered[SCHEME].value);
          showSandbox();
          return original(entered);
        },
      },
    },
    spec: {
      wrapActions: {
        // What a parameter has as its example, Swagger UI enters: that of the key stands for a new one.
        updateJsonSpec: (original) => (document) => {
          const operations = Object.values(document.paths ?? {}).flatMap((path) => Object.values(path));
          const all = [...Object.values(document.components?.parameters ?? {}), ...operations.flatMap(({ parameters }) => parameters ?? [])];
          for (const parameter of all) {
            if (parameter.name === HEADER) parameter.example = NEW;
            else if (parameter.in === "header") delete parameter.example; // no scenario, so that overrides apply
          }
          return original(document);
        },
        changeParamByIdentity: (original) => (operation, parameter, value, isXml) => {
          if (parameter.get("name") !== HEADER) return original(operation, parameter, value, isXml);
          generated.set(operation.join(" "), value === NEW && parameter);
          return original(operation, parameter, value === NEW ? randomKey() : value, isXml);
        },
        setResponse: (original, { specActions }) => (path, method, response) => {
          const parameter = generated.get(`${path} ${method}`);
          if (parameter) specActions.changeParamByIdentity([path, method], parameter, NEW, false);
          return original(path, method, response);
        },
      },
    },
  },
});

/** Names and roles that Swagger UI leaves out: by selector, what an element gets. */
const MISSING_ATTRIBUTES = {
  ".information-container": { role: "region", "aria-label": "About the document" },
  ".scheme-container": { role: "region", "aria-label": "Server and authorization" },
  "#servers": { "aria-label": "Server" },
  "select:not([aria-label])": { "aria-label": "Choice" },
  ".response-control-media-type select, .body-param-content-type select, .content-type": { "aria-label": "Media type" },
  ".examples-select-element": { "aria-label": "Example" },
  ".close-modal": { "aria-label": "Close the dialog" },
  "textarea:not([aria-label])": { "aria-label": "Request body" },
  "h3.opblock-tag, .modal-ux h3": { "aria-level": "2" },
  h4: { "aria-level": "3" },
  "h5, h6": { "aria-level": "4" },
  "pre, .highlight-code > *, .renderedMarkdown table": { tabindex: "0" },
};

function addAttributes() {
  for (const [selector, attributes] of Object.entries(MISSING_ATTRIBUTES)) {
    for (const element of document.querySelectorAll(`#swagger-ui :is(${selector})`)) {
      for (const [name, value] of Object.entries(attributes)) if (element.getAttribute(name) !== value) element.setAttribute(name, value);
    }
  }
  for (const input of document.querySelectorAll("#swagger-ui input[placeholder]:not([aria-label])")) input.ariaLabel = input.placeholder;
  // A link inside the button that opens the operation: the button does the same.
  for (const link of document.querySelectorAll("#swagger-ui .opblock-summary-control a[href]")) link.removeAttribute("href");
}
new MutationObserver(addAttributes).observe(document.getElementById("swagger-ui"), { childList: true, subtree: true });

// The documents are fixed here: `?url=` and `?configUrl=` must never make this page load somebody else's.
const control = location.pathname.endsWith("/swagger/control/");
document.querySelector(`.documents a[href="${location.pathname}"]`)?.setAttribute("aria-current", "page");
const ui = SwaggerUIBundle({
  url: root + (control ? "/_mock/openapi.yaml" : "/openapi.yaml"),
  dom_id: "#swagger-ui",
  presets: [SwaggerUIBundle.presets.apis],
  plugins: [plugin],
  queryConfigEnabled: false,
  validatorUrl: null,
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0, // dozens of schemas would stand below a few operations
  tryItOutEnabled: true,
  persistAuthorization: false, // the key is kept by the page, for the dashboard, too
  onComplete: () => key() && ui.preauthorizeApiKey(SCHEME, apiKey()),
});

// Node.js imports a module by its whole file name.
const module = { extension: ".js" };
export default ["service", "control"].map((path) => ({ input: `./${path}.yaml`, output: { path, module } }));

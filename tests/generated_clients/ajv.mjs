// Compiles every schema of an OpenAPI document strictly, and validates values. Standard input: the document, and pairs
// of a JSON pointer to a schema and a value. Prints what is wrong.
import { readFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";
import formats from "ajv-formats";

const { document, values } = JSON.parse(readFileSync(0, "utf8"));
const ajv = new Ajv2020({ strict: true, allErrors: true, logger: { log: fail, warn: fail, error: fail } });
formats.default(ajv);
ajv.addVocabulary(["discriminator", "x-enum-varnames"]); // OpenAPI's own
ajv.addVocabulary(Object.keys(document)); // the document is not a schema, its parts are

function fail(...message) {
  console.log(...message);
}

ajv.addSchema(document, "document");
for (const name of Object.keys(document.components.schemas)) validator(`/components/schemas/${name}`);
for (const [pointer, value] of values) {
  const validate = validator(pointer);
  if (validate && !validate(value)) fail(pointer, JSON.stringify(value), ajv.errorsText(validate.errors));
}

function validator(pointer) {
  try {
    return ajv.getSchema(`document#${pointer}`) ?? fail(pointer, "not found");
  } catch (problem) {
    fail(pointer, problem.message);
  }
}

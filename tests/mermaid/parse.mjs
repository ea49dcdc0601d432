// Reads a JSON list of diagrams from standard input; writes what Mermaid's own parser made of each.
import { readFileSync } from "node:fs";
import { JSDOM } from "jsdom";

const { window } = new JSDOM("<!doctype html><body></body>");
globalThis.window = window;
globalThis.document = window.document;
const { default: mermaid } = await import("mermaid");
mermaid.initialize({ securityLevel: "strict" });

const shown = document.createElement("textarea");
// As in the picture: Mermaid's placeholders become entities, and the browser decodes them.
function decoded(text) {
  const entities = String(text ?? "").replace(/ﬂ°°/g, "&#").replace(/ﬂ°/g, "&").replace(/¶ß/g, ";");
  shown.innerHTML = entities;
  return shown.value;
}

async function parsed(text) {
  try {
    await mermaid.parse(text);
    const diagram = await mermaid.mermaidAPI.getDiagramFromText(text);
    const { nodes, edges } = diagram.db.getData();
    return {
      nodes: nodes.map((node) => ({
        id: node.id,
        shape: node.shape,
        label: [node.label].flat().map(decoded),
        description: [node.description ?? []].flat().map(decoded),
      })),
      edges: edges.map((edge) => ({ start: edge.start, end: edge.end, label: decoded(edge.label) })),
    };
  } catch (error) {
    return { error: String(error.message ?? error) };
  }
}

const found = [];
for (const text of JSON.parse(readFileSync(0, "utf8"))) found.push(await parsed(text));
process.stdout.write(JSON.stringify(found));

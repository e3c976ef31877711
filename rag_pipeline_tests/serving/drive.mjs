// Drives every tool and resource by the reference TypeScript SDK; prints what came back as JSON.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, token] = process.argv.slice(2);
const headers = token ? { Authorization: `Bearer ${token}` } : {};
const client = new Client({ name: "test", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
const stages = [];
const call = (name, input, options) => client.callTool({ name, arguments: input }, undefined, options);
console.log(JSON.stringify({
  tools: (await client.listTools()).tools.map((tool) => tool.name).sort(),
  assistant: await call("assistant", { query: "How expensive may a hotel be?" }, { onprogress: (p) => stages.push(p.message) }),
  file_discover: await call("file_discover", { query: "parental leave", top_k_return: 1 }),
  search_chunks: await call("search_chunks", { query: "governing law", document_name: "nda/cedar.txt", top_k_return: 1 }),
  get_document: await call("get_document", { document_name: "policy/leave.md", start: 10 }),
  list_datasets: await call("list_datasets", {}),
  health: await call("health", {}),
  wrong: await call("search_chunks", { query: " " }),
  resources: (await client.listResources()).resources.map((r) => r.uri),
  document: await client.readResource({ uri: "document://tiny/nda/acme.txt" }),
  stages,
}));
await client.close();

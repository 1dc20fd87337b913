// node unpack.mjs FROM TO: decompress every FROM/*.br to TO, without the ending. Python has no brotli of its own.
import { createReadStream, createWriteStream, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";

const [from, to] = process.argv.slice(2);
for (const name of readdirSync(from).filter((name) => name.endsWith(".br"))) {
  await pipeline(createReadStream(join(from, name)), createBrotliDecompress(), createWriteStream(join(to, basename(name, ".br"))));
}

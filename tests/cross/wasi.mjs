// node wasi.mjs PROGRAM.wasm: a program that only prints.
import { readFile } from 'node:fs/promises';
import { WASI } from 'node:wasi';

const wasi = new WASI({ version: 'preview1', args: ['program'], returnOnExit: true });
const { instance } = await WebAssembly.instantiate(await readFile(process.argv[2]), {
    wasi_snapshot_preview1: wasi.wasiImport,
});
process.exitCode = wasi.start(instance);

// What one process does with a hypercore of its own: node hypercore_log.js FOLDER COUNT SIZE
// Prints seconds: appends one by one, COUNT appends as one batch, random gets, and a stream over all blocks.
const Hypercore = require('hypercore')

const seconds = async work => {
  const began = process.hrtime.bigint()
  await work()
  return Number(process.hrtime.bigint() - began) / 1e9
}

async function main ([folder, count, size, single]) {
  const core = new Hypercore(folder)
  await core.ready()
  const block = i => Buffer.alloc(size, i & 255)
  const appends = await seconds(async () => {
    for (let i = 0; i < single; i++) await core.append(block(i))
  })
  const batch = await seconds(() => core.append(Array.from({ length: count }, (_, i) => block(i))))
  let state = 1
  const gets = await seconds(async () => {
    for (let i = 0; i < count; i++) {
      state = (state * 1103515245 + 12345) % 2147483648
      await core.get(state % core.length)
    }
  })
  const stream = await seconds(async () => {
    for await (const _ of core.createReadStream()) ;
  })
  console.log(JSON.stringify({ appends: appends / single, batch: batch / count, gets: gets / count, stream: stream / core.length }))
  await core.close()
}

const [folder, ...numbers] = process.argv.slice(2)
main([folder, ...numbers.map(Number)])

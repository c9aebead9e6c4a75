// Fetches all blocks of a hypercore: node hypercore_client.js FOLDER PORT KEY COUNT
const net = require('net')
const Hypercore = require('hypercore')

async function main ([folder, port, key, count]) {
  const core = new Hypercore(folder, Buffer.from(key, 'hex'))
  await core.ready()
  const begin = process.hrtime.bigint()
  const socket = net.connect(Number(port), '127.0.0.1')
  const stream = core.replicate(true)
  socket.pipe(stream).pipe(socket)
  await core.update({ wait: true })
  await core.download({ start: 0, end: Number(count) }).done()
  const seconds = Number(process.hrtime.bigint() - begin) / 1e9
  const { user, system } = process.cpuUsage()
  console.log(JSON.stringify({
    length: core.contiguousLength,
    seconds,
    cpu: (user + system) / 1e6,
    memory: process.resourceUsage().maxRSS * 1024 / 1e6,
    bytes: socket.bytesRead
  }))
  process.exit(0)
}

main(process.argv.slice(2))

// Serves a hypercore of COUNT blocks of SIZE bytes: node hypercore_server.js FOLDER COUNT SIZE
const net = require('net')
const Hypercore = require('hypercore')

async function main ([folder, count, size]) {
  const core = new Hypercore(folder)
  await core.ready()
  const batch = size > 10000 ? 4 : 1000
  while (core.length < count) {
    const blocks = []
    for (let i = core.length; i < Math.min(count, core.length + batch); i++) blocks.push(Buffer.alloc(size, i & 255))
    await core.append(blocks)
  }
  const server = net.createServer(socket => {
    const stream = core.replicate(false)
    socket.on('error', () => {})
    stream.on('error', () => {})
    socket.pipe(stream).pipe(socket)
  })
  server.listen(0, '127.0.0.1', () => {
    console.log(JSON.stringify({ port: server.address().port, key: core.key.toString('hex') }))
  })
  process.on('SIGTERM', () => process.exit(0))
}

const [folder, count, size] = process.argv.slice(2)
main([folder, Number(count), Number(size)])
